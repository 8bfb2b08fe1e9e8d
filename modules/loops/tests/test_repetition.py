"""Tests of models that go in circles."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ToolCall
from amplifier_core.testing import MockTool
from amplifier_module_loops.limits import STUCK
from amplifier_module_loops.repetition import Circle, Repetition
from contract.doubles import Approvals, Display
from contract.installer import response
from contract.turns import Turn, calls, loop


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="c", name=name, arguments=arguments)


def found(repetition: Repetition, word: str) -> list[tuple[int, Circle]]:
    """Give the circles found in a word whose letters are steps, with the letter's number."""
    taken = [repetition.take([call(letter)]) for letter in word]
    return [(number, circle) for number, circle in enumerate(taken, start=1) if circle]


@pytest.mark.parametrize(
    ("word", "due"),
    [
        ("AAAAA", [(3, "nudge", 1), (5, "ask", 1)]),
        ("ABABABABAB", [(6, "nudge", 2), (10, "ask", 2)]),
        ("ABCABCABC", [(9, "nudge", 3)]),
        ("XABCDABCDABCD", [(13, "nudge", 4)]),
        ("ABCDEABCDEABCDE", []),
        ("AABAABAAB", [(9, "nudge", 3)]),
        ("AABBAABB", []),
        ("AAABAAA", [(3, "nudge", 1), (7, "nudge", 1)]),
    ],
)
def test_a_pattern_of_up_to_four_steps_is_found(word: str, due: list[tuple[int, str, int]]) -> None:
    circles = found(Repetition(3), word)

    assert [(n, circle.action, len(circle.pattern)) for n, circle in circles] == due


def test_equal_arguments_count_in_any_order_and_other_ones_do_not() -> None:
    repetition = Repetition(2)

    assert repetition.take([call("t", a=1, b=[2])]) is None
    assert repetition.take([call("t", b=[2], a=1)]) is not None
    assert repetition.take([call("t", b=[3], a=1)]) is None


def test_the_calls_of_a_step_count_together() -> None:
    repetition = Repetition(2)

    assert repetition.take([call("t"), call("u")]) is None
    assert repetition.take([call("t")]) is None
    assert repetition.take([call("t"), call("u")]) is None


def test_the_evidence_names_the_calls_and_how_often_they_were_made() -> None:
    (_, circle), *_ = found(Repetition(2), "ABAB")

    assert str(circle) == "A({}), then B({}): 2 times in a row"
    assert len(str(Circle([["x" * 500]], 3, "nudge"))) < 300


def test_arguments_that_cannot_be_written_as_json_are_shown_all_the_same() -> None:
    repetition, odd = Repetition(2), {1: "one", "two": 2}
    odd_call = ToolCall.model_construct(id="c", name="t", arguments=odd)
    repetition.take([odd_call])

    circle = repetition.take([odd_call])

    assert circle is not None
    assert circle.pattern == [[f"t({odd})"]]


def test_it_can_be_switched_off_and_made_to_forget() -> None:
    assert found(Repetition(0), "AAAAAAAA") == []
    repetition = Repetition(3)
    found(repetition, "AA")
    repetition.forget()
    assert found(repetition, "AA") == []


async def circling(answer: Any, **config: Any) -> Turn:
    """Make a turn whose model makes the same call for ever, unless it has no tools."""

    async def circle(request: Any) -> Any:
        return response(calls("t") if request.tools else "What I have.")

    turn = Turn(await loop(**config), circle, tools=[MockTool("t")])
    turn.coordinator.approval_system = answer
    turn.coordinator.display_system = Display()
    turn.hooks.register("orchestrator:stuck", turn.heard)
    return turn


async def test_a_model_in_a_circle_is_told_then_the_person_is_asked_then_it_ends() -> None:
    turn = await circling(approvals := Approvals("Deny"))

    assert await turn.run() == "What I have."

    assert len(turn.provider.requests) == 6
    assert 't({"n":1}): 3 times in a row' in str(turn.provider.requests[3].messages[-1].content)
    assert 't({"n":1}): 5 times in a row' in approvals.asked[0][0]
    assert turn.provider.requests[-1].messages[-1].content == STUCK.notice
    told = turn.told("orchestrator:stuck")
    assert [data["action"] for data in told] == ["nudge", "ask", "stop"]
    assert told[0]["pattern"] == [['t({"n":1})']]
    assert [data["repetitions"] for data in told] == [3, 5, 5]
    (complete,) = turn.told("orchestrator:complete")
    assert (complete["stop_reason"], complete["status"]) == ("stuck", "incomplete")
    lines = [each[0] for each in turn.coordinator.display_system.shown]
    assert sum("repeats itself" in line for line in lines) == 2


async def test_the_notice_is_read_once_and_never_stored() -> None:
    turn = await circling(Approvals("Deny"))

    await turn.run()

    assert "You repeat yourself" not in str(turn.context.messages)
    assert "You repeat yourself" not in str(turn.provider.requests[4].messages)


async def test_without_an_approval_system_the_circle_ends() -> None:
    turn = await circling(None)

    assert await turn.run() == "What I have."
    assert len(turn.provider.requests) == 6


async def test_a_circle_that_is_allowed_begins_to_count_anew() -> None:
    turn = await circling(approvals := Approvals("Allow"), max_iterations=12)

    assert await turn.run() == "What I have."

    assert len(approvals.asked) == 2
    assert turn.told("orchestrator:complete")[0]["stop_reason"] == "limit"


async def test_circles_can_be_allowed_by_configuration() -> None:
    turn = await circling(Approvals("Deny"), stuck_after=0, max_iterations=12)

    await turn.run()

    assert turn.told("orchestrator:stuck") == []
    assert turn.told("orchestrator:complete")[0]["stop_reason"] == "limit"
