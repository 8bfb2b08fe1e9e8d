"""Tests of the kernel's error tree."""

from __future__ import annotations

import pickle

import pytest

from amplifier_core import errors, module_sources


@pytest.mark.parametrize(
    ("error_type", "parents"),
    [
        (errors.ModuleError, (errors.AmplifierError,)),
        (errors.ModuleNotFoundError, (errors.ModuleError, ValueError)),
        (errors.ModuleLoadError, (errors.ModuleError, ValueError)),
        (errors.ModuleValidationError, (errors.ModuleError,)),
        (errors.MountError, (errors.AmplifierError, ValueError)),
        (errors.SessionError, (errors.AmplifierError, RuntimeError)),
        (errors.NotInitializedError, (errors.SessionError, RuntimeError)),
    ],
)
def test_each_error_is_caught_by_its_family_and_by_the_built_in_that_callers_know(
    error_type: type[errors.AmplifierError], parents: tuple[type[Exception], ...]
) -> None:
    error = error_type("a sentence")

    assert str(error) == "a sentence"
    assert all(isinstance(error, parent) for parent in (errors.AmplifierError, *parents))


@pytest.mark.parametrize(
    ("error_type", "reason_code"),
    [
        (errors.ModuleError, "unknown"),
        (errors.ModuleNotFoundError, "missing_source"),
        (errors.ModuleLoadError, "unknown"),
        (errors.ModuleValidationError, "validation_failed"),
    ],
)
def test_a_module_error_names_its_module_and_its_reason(
    error_type: type[errors.ModuleError], reason_code: str
) -> None:
    plain = error_type("no")
    detailed = error_type("no", module_id="tool-x", reason_code="invalid_entry_point")

    assert (plain.module_id, plain.reason_code) == (None, reason_code)
    assert (detailed.module_id, detailed.reason_code) == ("tool-x", "invalid_entry_point")


def test_a_module_that_was_not_found_tells_where_it_was_sought() -> None:
    error = errors.ModuleNotFoundError("no", tried=["entry points", "/opt/modules"])

    assert error.tried == ("entry points", "/opt/modules")
    assert errors.ModuleNotFoundError("no").tried == ()


def test_mount_and_session_errors_carry_the_place_of_the_failure() -> None:
    assert errors.MountError("no", mount_point="tools").mount_point == "tools"
    assert errors.SessionError("no", session_id="s1").session_id == "s1"


def test_an_uninitialized_session_says_what_to_do() -> None:
    error = errors.NotInitializedError(session_id="s1")

    assert str(error) == "Session not initialized. Call initialize() first."
    assert error.session_id == "s1"


def test_an_error_keeps_its_details_across_a_process_boundary() -> None:
    error = errors.ModuleNotFoundError("no", module_id="tool-x", tried=["here"])

    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.module_id, copy.tried) == ("no", "tool-x", ("here",))


def test_the_module_source_contract_uses_the_same_classes() -> None:
    assert module_sources.ModuleNotFoundError is errors.ModuleNotFoundError
    assert module_sources.ModuleLoadError is errors.ModuleLoadError


def test_a_described_error_has_its_type_and_its_message() -> None:
    assert errors.describe_error(KeyError("x")) == "KeyError: 'x'"
    assert errors.describe_error(ValueError()) == "ValueError"


def test_an_error_whose_text_cannot_be_made_is_described_by_its_repr() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert errors.describe_error(Mute("a")) == "Mute: Mute('a')"
