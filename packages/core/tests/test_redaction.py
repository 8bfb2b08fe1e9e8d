"""Tests of truncation and redaction, and of the old import path."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import redaction, utils
from amplifier_core.redaction import SENSITIVE_KEYS, redact_secrets, truncate_values
from amplifier_core.utils import truncate


def test_long_strings_are_cut_and_the_loss_is_told() -> None:
    assert truncate_values("x" * 200) == "x" * 180 + "... (truncated 20 chars)"
    assert truncate_values("abcdef", max_length=4) == "abcd... (truncated 2 chars)"
    assert truncate_values("abcd", max_length=4) == "abcd"


def test_cutting_reaches_into_dicts_and_lists_and_copies_them() -> None:
    data: dict[str, Any] = {"a": ["abcdef", {"b": "abcdef"}], "n": 1}

    cut = truncate_values(data, max_length=4)

    assert cut == {
        "a": ["abcd... (truncated 2 chars)", {"b": "abcd... (truncated 2 chars)"}],
        "n": 1,
    }
    assert data["a"][0] == "abcdef"


@pytest.mark.parametrize("value", [None, 3, ("a long tuple member",), b"bytes"])
def test_other_values_pass_untouched(value: object) -> None:
    assert truncate_values(value, max_length=1) is value
    assert redact_secrets(value) is value


@pytest.mark.parametrize("key", [*sorted(SENSITIVE_KEYS), "API_KEY", "Authorization"])
def test_the_value_of_a_sensitive_key_is_blanked_at_any_depth(key: str) -> None:
    data = {"config": [{key: {"deep": "secret"}, "model": "m"}]}

    assert redact_secrets(data) == {"config": [{key: "[REDACTED]", "model": "m"}]}
    assert data["config"][0][key] == {"deep": "secret"}


def test_a_key_is_sensitive_as_a_whole_only() -> None:
    data = {"openai_api_key": "visible", "tokens": 5, 7: "seven"}

    assert redact_secrets(data) == data


def test_the_caller_may_name_other_keys() -> None:
    assert redact_secrets({"pin": 1, "token": 2}, {"pin"}) == {"pin": "[REDACTED]", "token": 2}


@pytest.mark.parametrize("name", ["SENSITIVE_KEYS", "redact_secrets", "truncate_values"])
def test_the_old_import_paths_lead_to_the_same_objects(name: str) -> None:
    assert getattr(utils, name) is getattr(redaction, name)
    assert getattr(truncate, name) is getattr(redaction, name)
