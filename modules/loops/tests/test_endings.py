"""Tests of how a turn's end is called."""

from __future__ import annotations

import pytest

from amplifier_core import ChatRequest, ChatResponse
from amplifier_core.testing import MockTool
from amplifier_module_loops.limits import STATUS, stop_reason_for
from contract.doubles import Display
from contract.installer import response
from contract.requirements import requirement
from contract.turns import Turn, calls, loop

CUT = "orchestrator:answer_cut"


@requirement("PROV-10")
@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"),
    [
        (None, "completed"),
        ("stop", "completed"),
        ("end_turn", "completed"),
        ("length", "truncated"),
        ("MAX_TOKENS", "truncated"),
        ("content_filter", "filtered"),
        ("refusal", "filtered"),
    ],
)
async def test_an_answer_that_was_cut_short_is_called_so(
    finish_reason: str | None, stop_reason: str
) -> None:
    async def cut(_: ChatRequest) -> ChatResponse:
        return response("As I was say").model_copy(update={"finish_reason": finish_reason})

    turn = Turn(await loop(), cut)
    turn.coordinator.display_system = display = Display()
    turn.hooks.register(CUT, turn.heard)

    assert await turn.run() == "As I was say"

    (complete,) = turn.told("orchestrator:complete")
    whole = stop_reason == "completed"
    assert complete["stop_reason"] == stop_reason
    assert complete["status"] == ("success" if whole else "incomplete")
    assert len(turn.told("prompt:complete")) == whole
    told = [(each["stop_reason"], each["finish_reason"]) for each in turn.told(CUT)]
    assert told == ([] if whole else [(stop_reason, finish_reason)])
    assert len(display.shown) == len(told)


async def test_only_the_last_answer_decides() -> None:
    async def cut(_: ChatRequest) -> ChatResponse:
        return response(calls("t")).model_copy(update={"finish_reason": "length"})

    turn = Turn(await loop(), cut, "Done.", tools=[MockTool("t")])

    await turn.run()

    assert turn.told("orchestrator:complete")[0]["stop_reason"] == "completed"


def test_every_stop_reason_has_its_statuses() -> None:
    assert stop_reason_for("length") in STATUS
    assert {statuses[1] for statuses in STATUS.values()} == {"success", "incomplete", "cancelled"}
