"""Contract of the coordinator: what becomes of injections, questions and messages of hooks."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ContextInjection, HookResult, ModuleCoordinator
from amplifier_core.approval import ApprovalSystem, ApprovalTimeoutError
from amplifier_core.display import DisplaySystem
from contract.doubles import Approvals, Display, Memory, ask, deny, inject, modify
from contract.requirements import requirement


def _coordinator(
    *, approvals: Any = None, display: Any = None, **limits: int
) -> tuple[ModuleCoordinator, Memory]:
    session = SimpleNamespace(session_id="s", parent_id=None, config={"session": limits})
    coordinator = ModuleCoordinator(session, approvals, display)
    memory = Memory()
    _ = coordinator.mount("context", memory)
    return coordinator, memory


@requirement("COORD-34", "COORD-35")
async def test_a_lasting_injection_is_stored_with_where_it_came_from() -> None:
    coordinator, memory = _coordinator()

    await coordinator.process_hook_result(
        inject("Mind the gap", context_injection_role="user"), "tool:post", "linter"
    )

    (message,) = memory.messages
    assert (message["role"], message["content"]) == ("user", "Mind the gap")
    metadata = message["metadata"]
    stamp = datetime.fromisoformat(metadata.pop("timestamp"))
    assert stamp.tzinfo is not None
    assert stamp.astimezone(UTC) <= datetime.now(UTC)
    assert metadata == {
        "source": "hook",
        "hook_name": "linter",
        "event": "tool:post",
        "requested_role": "user",
        "ephemeral": False,
        "persisted": True,
    }


@requirement("COORD-36")
async def test_an_ephemeral_injection_is_for_this_request_only() -> None:
    coordinator, memory = _coordinator()

    result = await coordinator.process_hook_result(
        inject("now only", ephemeral=True, append_to_last_tool_result=True), "tool:post", "h"
    )

    assert memory.messages == []
    assert (result.action, result.ephemeral) == ("inject_context", True)
    assert result.context_injection == "now only"
    assert result.append_to_last_tool_result is True


@requirement("COORD-37")
async def test_injected_text_is_cleaned_of_what_models_choke_on() -> None:
    coordinator, memory = _coordinator()

    await coordinator.process_hook_result(
        inject("a\x00b\x1b[31m\x7f\x9fc\ud800\td\r\n"), "tool:post", "h"
    )

    assert memory.messages[0]["content"] == "ab[31mc\td\r\n"


@requirement("COORD-38")
async def test_an_injection_over_the_size_limit_is_refused_whole() -> None:
    coordinator, memory = _coordinator(injection_size_limit=10, injection_budget_per_turn=1)

    with pytest.raises(ValueError, match="exceeds 10 characters"):
        await coordinator.process_hook_result(inject("x" * 20), "tool:post", "h")
    await coordinator.process_hook_result(inject("\x00" * 5 + "x" * 10), "tool:post", "h")

    assert [message["content"] for message in memory.messages] == ["x" * 10]


@requirement("COORD-38", "COORD-39")
async def test_without_limits_nothing_is_refused_or_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator, memory = _coordinator()

    await coordinator.process_hook_result(inject("x" * 200_000), "tool:post", "h")

    assert len(memory.messages) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def _budget_warnings(caplog: pytest.LogCaptureFixture) -> int:
    return sum("budget exceeded" in record.getMessage() for record in caplog.records)


@requirement("COORD-29", "COORD-39", "COORD-40")
async def test_the_budget_of_a_turn_warns_counts_everything_and_starts_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator, memory = _coordinator(injection_budget_per_turn=10)

    await coordinator.process_hook_result(inject("x" * 40, ephemeral=True), "a:b", "h")
    await coordinator.process_hook_result(inject("abc"), "a:b", "h")
    assert _budget_warnings(caplog) == 0

    await coordinator.process_hook_result(inject("four"), "a:b", "h")
    assert _budget_warnings(caplog) == 1
    assert [message["content"] for message in memory.messages] == ["abc", "four"]

    coordinator.reset_turn()
    await coordinator.process_hook_result(inject("x" * 40), "a:b", "h")
    assert _budget_warnings(caplog) == 1


@requirement("COORD-41")
async def test_the_context_may_store_plainly_fail_or_be_absent() -> None:
    coordinator = ModuleCoordinator()
    stored: list[Any] = []
    result = await coordinator.process_hook_result(inject("no context"), "a:b", "h")
    assert result.action == "continue"

    _ = coordinator.mount("context", SimpleNamespace(add_message=stored.append))
    await coordinator.process_hook_result(inject("plain"), "a:b", "h")
    assert stored[0]["content"] == "plain"

    def full(message: dict[str, Any]) -> None:
        raise OSError("disk full")

    _ = coordinator.mount("context", SimpleNamespace(add_message=full))
    with pytest.raises(OSError, match="disk full"):
        await coordinator.process_hook_result(inject("fails"), "a:b", "h")


@requirement("COORD-42", "COORD-43")
async def test_several_injections_each_keep_role_origin_and_lifetime() -> None:
    coordinator, memory = _coordinator(injection_size_limit=10)
    several = [
        ContextInjection(content="stays", role="user", hook_name="one", event="x:y"),
        ContextInjection(content="goes", role="assistant", ephemeral=True, hook_name="two"),
        ContextInjection(
            content="too", ephemeral=True, append_to_last_tool_result=True, hook_name="three"
        ),
    ]

    result = await coordinator.process_hook_result(
        inject("ignored", context_injections=several, user_message="told"), "tool:post", "h"
    )

    (message,) = memory.messages
    assert (message["role"], message["content"]) == ("user", "stays")
    assert (message["metadata"]["hook_name"], message["metadata"]["event"]) == ("one", "x:y")
    assert (result.action, result.context_injection) == ("inject_context", "goes\n\ntoo")
    assert (result.context_injection_role, result.ephemeral) == ("assistant", True)
    assert result.append_to_last_tool_result is True
    assert [entry.content for entry in result.context_injections] == ["goes", "too"]

    too_long = [*several, ContextInjection(content="x" * 11)]
    with pytest.raises(ValueError, match="exceeds 10 characters"):
        await coordinator.process_hook_result(inject("", context_injections=too_long), "a:b", "h")
    assert len(memory.messages) == 1


@requirement("COORD-43")
async def test_when_everything_was_stored_the_result_continues() -> None:
    coordinator, _ = _coordinator()

    result = await coordinator.process_hook_result(
        inject("text", data={"n": 1}, reason="because", user_message="hi", suppress_output=True),
        "tool:post",
        "h",
    )

    assert (result.action, result.data, result.reason) == ("continue", {"n": 1}, "because")
    assert (result.user_message, result.suppress_output) == ("hi", True)
    assert (result.context_injection, result.context_injections) == (None, [])
    assert result.ephemeral is False


@requirement("COORD-44", "COORD-47")
@pytest.mark.parametrize(
    "result",
    [
        HookResult(data={"n": 1}),
        HookResult(user_message="hi", suppress_output=True),
        deny("no", user_message="hi"),
        modify({"n": 2}),
    ],
)
async def test_other_results_come_back_as_the_same_object(result: HookResult) -> None:
    coordinator, memory = _coordinator(display=Display())

    assert await coordinator.process_hook_result(result, "a:b", "h") is result
    assert memory.messages == []


@requirement("COORD-45")
async def test_a_message_for_the_user_reaches_the_display() -> None:
    display = Display()
    coordinator, _ = _coordinator(display=display)

    await coordinator.process_hook_result(HookResult(user_message="hi"), "a:b", "linter")
    await coordinator.process_hook_result(
        deny(user_message="stop", user_message_level="error", user_message_source="guard"), "a:b"
    )

    assert display.shown == [("hi", "info", "hook:linter"), ("stop", "error", "hook:guard")]


class _BrokenDisplay:
    def show_message(self, *_args: Any) -> None:
        raise RuntimeError("no terminal")


@requirement("COORD-46")
@pytest.mark.parametrize(
    ("level", "logged"),
    [("info", logging.INFO), ("warning", logging.WARNING), ("error", logging.ERROR)],
)
async def test_without_a_display_the_text_of_a_message_is_logged_at_its_level(
    level: Any, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    coordinator, _ = _coordinator()
    result = HookResult(user_message="2 errors\x1b[2J", user_message_level=level)

    await coordinator.process_hook_result(result, "a:b", "linter")

    (record,) = caplog.records
    assert record.levelno == logged
    assert record.getMessage() == r"message from hook:linter: '2 errors\x1b[2J'"


@requirement("COORD-47")
@pytest.mark.parametrize("result", [HookResult(), deny(), modify({"n": 2})])
async def test_a_wish_to_suppress_output_is_logged_whatever_the_action(
    result: HookResult, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    coordinator, _ = _coordinator(display=Display())

    await coordinator.process_hook_result(result, "a:b", "linter")
    assert "suppress" not in caplog.text
    await coordinator.process_hook_result(
        result.model_copy(update={"suppress_output": True}), "a:b", "linter"
    )

    assert "suppress output hook=linter event=a:b" in caplog.text


@requirement("COORD-46")
@pytest.mark.parametrize("display", [None, _BrokenDisplay()])
async def test_a_missing_or_broken_display_stops_nothing(
    display: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    coordinator, _ = _coordinator(display=display)
    result = HookResult(user_message="hi")

    assert await coordinator.process_hook_result(result, "a:b", "linter") is result
    assert len(_logged_by_the_kernel(caplog)) == 1


def _logged_by_the_kernel(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("amplifier_core")]


@requirement("COORD-48")
async def test_an_approval_is_asked_for_with_everything_it_needs() -> None:
    approvals = Approvals()
    coordinator, _ = _coordinator(approvals=approvals)

    await coordinator.process_hook_result(
        ask(
            "Write?", approval_options=["Yes", "No"], approval_timeout=5.0, approval_default="allow"
        ),
        "tool:pre",
        "h",
    )
    await coordinator.process_hook_result(ask(None), "tool:pre", "h")

    assert approvals.asked == [
        ("Write?", ["Yes", "No"], 5.0, "allow"),
        ("Allow this operation?", ["Allow", "Deny"], 300.0, "deny"),
    ]


@requirement("COORD-49", "COORD-59")
@pytest.mark.parametrize("answer", ["Allow", "allow once", "ALLOW ALWAYS"])
async def test_only_the_allow_family_continues_and_is_not_remembered(answer: str) -> None:
    approvals = Approvals(answer)
    coordinator, _ = _coordinator(approvals=approvals)

    for _ in range(2):
        result = await coordinator.process_hook_result(ask(), "tool:pre", "h")
        assert result.action == "continue"

    assert len(approvals.asked) == 2


@requirement("COORD-49")
@pytest.mark.parametrize("answer", ["Deny", "deny", "No", "", "allowed", "Yes"])
async def test_any_other_answer_denies(answer: str) -> None:
    coordinator, _ = _coordinator(approvals=Approvals(answer))

    result = await coordinator.process_hook_result(ask("Write?"), "tool:pre", "h")

    assert (result.action, result.reason) == ("deny", "User denied: Write?")


@requirement("COORD-50")
async def test_without_anyone_to_ask_the_answer_is_no() -> None:
    coordinator, _ = _coordinator()

    result = await coordinator.process_hook_result(ask(), "tool:pre", "h")

    assert (result.action, result.reason) == ("deny", "No approval system available")


@requirement("COORD-51")
async def test_an_approval_that_times_out_follows_its_default() -> None:
    coordinator, _ = _coordinator(approvals=Approvals(ApprovalTimeoutError()))

    allowed = await coordinator.process_hook_result(ask(approval_default="allow"), "tool:pre", "h")
    denied = await coordinator.process_hook_result(ask("Write?"), "tool:pre", "h")

    assert allowed.action == "continue"
    assert denied.action == "deny"
    assert denied.reason == "Approval timeout - denied by default: Write?"


@requirement("COORD-52")
@pytest.mark.parametrize("error", [TimeoutError("slow"), RuntimeError("broken")])
async def test_other_failures_of_the_approval_system_reach_the_caller(error: Exception) -> None:
    coordinator, _ = _coordinator(approvals=Approvals(error))

    with pytest.raises(type(error)):
        await coordinator.process_hook_result(ask(), "tool:pre", "h")
    coordinator, _ = _coordinator(approvals=Approvals({"approved": True}))
    with pytest.raises(TypeError):
        await coordinator.process_hook_result(ask(), "tool:pre", "h")


@requirement("COORD-53", "COORD-54")
async def test_a_question_shows_its_message_and_its_denial_a_short_prompt() -> None:
    display = Display()
    coordinator, _ = _coordinator(approvals=Approvals("Deny"), display=display)

    result = await coordinator.process_hook_result(
        ask("x" * 500, user_message="not now"), "tool:pre", "h"
    )

    assert display.shown == [("not now", "info", "hook:h")]
    assert result.reason == "User denied: " + "x" * 200 + "...[truncated]"


@requirement("COORD-55")
async def test_a_dict_is_no_hook_result() -> None:
    coordinator, _ = _coordinator()
    nonsense: Any = {"action": "continue"}

    with pytest.raises(AttributeError):
        await coordinator.process_hook_result(nonsense, "tool:pre", "h")


@requirement("COORD-56")
async def test_results_processed_together_are_all_counted(caplog: pytest.LogCaptureFixture) -> None:
    coordinator, memory = _coordinator(injection_budget_per_turn=49)

    async with asyncio.timeout(120):
        await asyncio.gather(
            *(coordinator.process_hook_result(inject("four"), "a:b", "h") for _ in range(50))
        )

    assert len(memory.messages) == 50
    assert _budget_warnings(caplog) == 1


@requirement("COORD-58", "API-12")
def test_approval_and_display_systems_are_known_by_their_structure() -> None:
    assert issubclass(ApprovalTimeoutError, Exception)
    assert isinstance(Approvals(), ApprovalSystem)
    assert isinstance(Display(), DisplaySystem)
    assert not isinstance(object(), (ApprovalSystem, DisplaySystem))
