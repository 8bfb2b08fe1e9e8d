"""Tests of carrying out what a hook result asks for, in the cases the contract leaves open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ContextInjection, HookResult, ModuleCoordinator, UserMessage
from amplifier_core.approval import ApprovalTimeoutError
from contract.doubles import Approvals, Display, Memory, ask, inject
from contract.requirements import requirement


class Harness:
    """A coordinator with a memory, a display and an approval system that can be looked at."""

    def __init__(self, answer: Any = "Allow", **settings: Any) -> None:
        self.memory, self.display, self.approvals = Memory(), Display(), Approvals(answer)
        session = SimpleNamespace(session_id="s", parent_id=None, config={"session": settings})
        self.coordinator = ModuleCoordinator(session, self.approvals, self.display)
        _ = self.coordinator.mount("context", self.memory)

    async def carry_out(self, result: HookResult) -> HookResult:
        return await self.coordinator.process_hook_result(result, "tool:post", "hook")

    @property
    def stored(self) -> list[Any]:
        return [message["content"] for message in self.memory.messages]


async def test_an_injection_of_nothing_stores_nothing_and_continues() -> None:
    harness = Harness()

    left = await harness.carry_out(HookResult(action="inject_context", data={"n": 1}))

    assert (left.action, left.data) == ("continue", {"n": 1})
    assert harness.stored == []


async def test_an_injection_that_cleaning_leaves_empty_is_not_stored() -> None:
    harness = Harness()

    left = await harness.carry_out(inject("\x00\x07"))

    assert left.action == "continue"
    assert harness.stored == []


@requirement("LAW-6")
async def test_what_is_approved_keeps_the_edits_and_injections_of_the_round() -> None:
    harness = Harness()
    lasting = ContextInjection(content="lasting")
    passing = ContextInjection(content="passing", ephemeral=True)

    left = await harness.carry_out(ask(data={"n": 2}, context_injections=[lasting, passing]))

    assert (left.action, left.data) == ("inject_context", {"n": 2})
    assert [each.content for each in left.context_injections] == ["passing"]
    assert harness.stored == ["lasting"]


async def test_what_is_denied_injects_nothing() -> None:
    harness = Harness("Deny")

    left = await harness.carry_out(ask(context_injections=[ContextInjection(content="lasting")]))

    assert left.action == "deny"
    assert harness.stored == []


@requirement("LAW-7")
async def test_a_question_shows_every_message_before_it_is_asked() -> None:
    harness = Harness()

    await harness.carry_out(ask(user_message="mine", user_messages=[UserMessage(text="theirs")]))

    assert harness.display.shown == [
        ("mine", "info", "hook:hook"),
        ("theirs", "info", "hook:hook"),
    ]


@requirement("LAW-7")
async def test_a_message_is_shown_under_the_name_it_came_with() -> None:
    harness = Harness()
    more = [UserMessage(text="two", level="warning", source="linter")]

    await harness.carry_out(HookResult(user_message="one", user_messages=more))

    assert harness.display.shown == [
        ("one", "info", "hook:hook"),
        ("two", "warning", "hook:linter"),
    ]


async def test_an_approval_system_may_answer_at_once() -> None:
    harness = Harness()

    def answer(*, prompt: str, options: list[str], timeout: float, default: str) -> str:
        return "Allow always"

    approvals: Any = SimpleNamespace(request_approval=answer)
    harness.coordinator.approval_system = approvals

    assert (await harness.carry_out(ask())).action == "continue"


async def test_a_display_may_take_its_time() -> None:
    harness = Harness()
    shown: list[str] = []

    async def show(message: str, level: str, source: str) -> None:
        shown.append(message)

    display: Any = SimpleNamespace(show_message=show)
    harness.coordinator.display_system = display

    await harness.carry_out(HookResult(user_message="late"))

    assert shown == ["late"]


async def test_one_injection_that_is_too_large_stops_all_of_its_round() -> None:
    harness = Harness(injection_size_limit=5)
    injections = [ContextInjection(content="fits"), ContextInjection(content="too large")]

    with pytest.raises(ValueError, match="exceeds 5 characters"):
        await harness.carry_out(HookResult(action="inject_context", context_injections=injections))

    assert harness.stored == []


async def test_a_wish_to_suppress_output_is_left_for_the_loop() -> None:
    left = await Harness().carry_out(inject("text", suppress_output=True))

    assert (left.action, left.suppress_output) == ("continue", True)


@requirement("LAW-6")
async def test_the_wish_to_suppress_output_survives_an_approval() -> None:
    left = await Harness().carry_out(ask(suppress_output=True))

    assert (left.action, left.suppress_output) == ("continue", True)


@pytest.mark.parametrize("length", [199, 200, 201])
async def test_only_a_prompt_over_200_characters_is_cut_in_a_denial(length: int) -> None:
    left = await Harness("Deny").carry_out(ask("x" * length))

    shown = "x" * min(length, 200)
    assert left.reason == f"User denied: {shown}{'...[truncated]' if length > 200 else ''}"


@pytest.mark.parametrize(("answer", "warnings"), [("Deny", 0), ("DENY", 0), ("maybe", 1)])
async def test_an_answer_that_is_not_understood_denies_with_a_warning(
    answer: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    left = await Harness(answer).carry_out(ask("Sure?"))

    assert (left.action, left.reason) == ("deny", "User denied: Sure?")
    assert len([record for record in caplog.records if answer in record.getMessage()]) == warnings


async def test_a_decision_that_is_no_text_is_an_error_of_the_approval_system() -> None:
    with pytest.raises(TypeError, match="must be a str, not bool"):
        await Harness(True).carry_out(ask())


async def test_an_ephemeral_scalar_beside_lasting_injections_does_not_outlive_them() -> None:
    harness = Harness()
    lasting = [ContextInjection(content="lasting")]

    left = await harness.carry_out(inject("ignored", ephemeral=True, context_injections=lasting))

    assert (left.action, left.context_injection, left.ephemeral) == ("continue", None, False)
    assert harness.stored == ["lasting"]


async def test_an_injection_is_logged_with_its_size_and_origin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    await Harness().carry_out(inject("12345678"))

    (line,) = [record.getMessage() for record in caplog.records]
    for part in ("hook=hook", "event=tool:post", "chars=8", "tokens=2", "ephemeral=False"):
        assert part in line


async def test_an_injection_over_the_limit_is_logged_and_one_at_the_limit_is_stored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness(injection_size_limit=5)

    await harness.carry_out(inject("12345"))
    with pytest.raises(ValueError, match="exceeds 5 characters"):
        await harness.carry_out(inject("123456"))

    assert harness.stored == ["12345"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "chars=6" in line


async def test_the_budget_of_a_turn_warns_when_it_is_exceeded_and_not_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness(injection_budget_per_turn=2)

    await harness.carry_out(inject("x" * 8))
    assert caplog.records == []
    await harness.carry_out(inject("x" * 4))

    (line,) = [record.getMessage() for record in caplog.records]
    assert "used=3 budget=2" in line
    assert harness.stored == ["x" * 8, "x" * 4]


async def test_without_an_approval_system_the_denial_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness()
    harness.coordinator.approval_system = None

    left = await harness.carry_out(ask())

    assert (left.action, left.reason) == ("deny", "No approval system available")
    assert "hook=hook" in caplog.text


@pytest.mark.parametrize("default", ["allow", "deny"])
async def test_an_approval_that_times_out_says_what_was_asked(default: Any) -> None:
    harness = Harness(ApprovalTimeoutError("late"))

    left = await harness.carry_out(ask("Sure?", approval_default=default, data={"n": 1}))

    if default == "allow":
        assert (left.action, left.data) == ("continue", {"n": 1})
    else:
        assert left.reason == "Approval timeout - denied by default: Sure?"
