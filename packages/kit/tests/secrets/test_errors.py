"""Exceptions lose their secrets and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import AuthenticationError
from amplifier_kit.secrets.errors import scrub_error
from amplifier_kit.secrets.scrubber import Scrubber

KEY = "corp-9f8e7d6c5b4a39281706f5e4d3c2b1a0"


def blank(text: str) -> str:
    return Scrubber({KEY: "CORP"}).scrub_text(text)[0]


class VendorError(Exception):
    def __init__(self, message: str, body: Any) -> None:
        super().__init__(message)
        self.message, self.body, self.status = message, body, 401

    def __str__(self) -> str:
        return f"{self.message} {self.body}"


@pytest.mark.attack("review L2")
def test_a_key_is_blanked_in_message_fields_notes_causes_and_groups() -> None:
    inner = VendorError(f"bad {KEY}", {"error": [KEY, (KEY, KEY.encode())]})
    outer = AuthenticationError(f"refused {KEY}", provider="x")
    outer.__cause__ = inner
    outer.add_note(f"sent {KEY}")
    hidden = ValueError(KEY)
    inner.__context__ = ExceptionGroup("several", [hidden])

    scrub_error(outer, blank)

    told = f"{outer} {outer!r} {vars(outer)} {inner} {vars(inner)} {hidden}"
    assert KEY not in told
    assert KEY.encode() not in inner.body["error"][1]
    assert str(outer) == "refused [REDACTED:CORP]"


def test_type_fields_and_identity_stay() -> None:
    error = VendorError("no secret", {"code": 7})
    args, body = error.args, error.body

    scrub_error(error, blank)

    assert (error.args, error.status) == (args, 401)
    assert error.body is body


def test_an_exception_that_is_its_own_cause_is_looked_at_once() -> None:
    error = ValueError(KEY)
    error.__context__ = RuntimeError(KEY)
    error.__context__.__context__ = error

    scrub_error(error, blank)

    assert str(error) == str(error.__context__) == "[REDACTED:CORP]"


def test_a_field_that_cannot_be_set_does_not_hide_the_error() -> None:
    class Closed(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            if name != "args":
                raise TypeError(name)
            super().__setattr__(name, value)

    error = Closed(KEY)
    error.__dict__["kept"] = KEY

    scrub_error(error, blank)

    assert str(error) == "[REDACTED:CORP]"
