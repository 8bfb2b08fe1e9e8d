"""Requests as their callers mean them, and what is told when they cannot be met."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import ChatRequest, Degradation, Message
from amplifier_kit.calls.budget_notices import joined
from amplifier_kit.calls.messages import extended_thinking, overridden
from amplifier_kit.calls.rate_limits import rate_limits

REQUEST = ChatRequest(messages=[Message(role="user", content="hi")], temperature=0.2, model="m")


def test_without_arguments_a_request_stays_what_it_is() -> None:
    assert overridden(REQUEST, {}, provider="p") == (REQUEST, [])
    assert overridden(REQUEST, {}, provider="p")[0] is REQUEST


def test_an_argument_replaces_a_field_and_nothing_else() -> None:
    found, ignored = overridden(REQUEST, {"temperature": 0.7, "model": None}, provider="p")

    assert (found.temperature, found.model) == (0.7, None)
    assert found.messages[0] is REQUEST.messages[0]
    assert (REQUEST.temperature, REQUEST.model) == (0.2, "m")
    assert ignored == []


@pytest.mark.parametrize("arguments", [{"temperature": "warm"}, {"messages": 3}])
def test_an_argument_that_does_not_fit_is_refused_by_name(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=next(iter(arguments))) as caught:
        overridden(REQUEST, arguments, provider="p")

    assert caught.value.provider == "p"


def test_an_argument_nobody_knows_is_not_dropped_in_silence() -> None:
    found, [ignored] = overridden(REQUEST, {"no_such": 1, "temperature": 0.7}, provider="p")

    assert found.temperature == 0.7
    assert "no_such" in ignored.requested


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="not a str"):
        overridden("hi", {}, provider="p")  # pyright: ignore[reportArgumentType] - that is the test


@pytest.mark.parametrize("asked", [True, False])
def test_loops_ask_for_thinking_by_a_keyword(asked: bool) -> None:
    found, ignored = overridden(REQUEST, {"extended_thinking": asked}, provider="p")

    assert extended_thinking(found) is asked
    assert ignored == []
    assert extended_thinking(REQUEST) is None


def test_several_shortfalls_are_told_as_one() -> None:
    one = Degradation(requested="a picture", actual="a text", reason="cannot read it")
    two = Degradation(requested="a stop", actual="nothing", reason="cannot read it")

    assert joined([]) is None
    assert joined([one, two]) == Degradation(
        requested="a picture; a stop", actual="a text; nothing", reason="cannot read it"
    )


def test_limits_are_read_from_the_headers_that_name_them() -> None:
    headers = {"X-Limit-Tokens-Left": "12", "x-limit-tokens-reset": "6m0s", "x-other": "1"}

    assert rate_limits(headers, "x-limit-") == {"tokens_left": 12, "tokens_reset": "6m0s"}
