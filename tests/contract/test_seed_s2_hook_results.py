"""The blocks of the document Coordinator API on processing hook results, run as written."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator, ModuleLoader
from amplifier_core.events import TOOL_POST, TOOL_PRE
from amplifier_core.testing import MockCoordinator
from contract.doubles import Approvals, Display, Listener, Memory, ask, deny, inject
from contract.requirements import requirement
from contract.seeds import run_block, run_body
from contract.seeds.sessions import LOGGER
from contract.seeds.signatures import assert_offers, shown_signature

_LIMITS = {"injection_size_limit": 40, "injection_budget_per_turn": 5}


def _coordinator(**settings: Any) -> ModuleCoordinator:
    session = SimpleNamespace(session_id="s", parent_id=None, config={"session": settings})
    return ModuleCoordinator(session)


class _Model:
    """A provider as a block calls it: with the messages alone."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def complete(self, messages: list[dict[str, Any]]) -> str:
        """Keep a copy of the messages."""
        self.asked.append(copy.deepcopy(messages))
        return "response"


@requirement("STWO-781")
async def test_processing_a_hook_result_is_a_coroutine_that_names_the_hook() -> None:
    coordinator = ModuleCoordinator()
    memory = Memory()
    await coordinator.mount("context", memory)

    assert_offers(shown_signature("S2:781"), coordinator.process_hook_result)
    processing = coordinator.process_hook_result(inject("look"), TOOL_POST)
    assert inspect.iscoroutine(processing)
    assert isinstance(await asyncio.create_task(processing), HookResult)
    await coordinator.process_hook_result(inject("again"), TOOL_POST, hook_name="linter")

    assert [each["metadata"]["hook_name"] for each in memory.messages] == ["unknown", "linter"]


@requirement("STWO-794")
async def test_an_injection_is_stored_under_the_name_of_its_handler_else_the_given_one() -> None:
    coordinator = ModuleCoordinator()
    memory = Memory()
    await coordinator.mount("context", memory)
    coordinator.hooks.register(TOOL_POST, Listener(inject("look")), name="registered-name")
    emitted = await coordinator.hooks.emit(TOOL_POST, {})

    await coordinator.process_hook_result(emitted, TOOL_POST, "linter")
    await coordinator.process_hook_result(inject("look"), TOOL_POST, "linter")

    names = [each["metadata"]["hook_name"] for each in memory.messages]
    assert names == ["registered-name", "linter"]
    assert {each["metadata"]["event"] for each in memory.messages} == {TOOL_POST}


@requirement("STWO-799", "STWO-903")
@pytest.mark.parametrize("block", ["S2:799", "S2:903"])
async def test_a_denied_event_stops_the_orchestrator(block: str) -> None:
    coordinator = ModuleCoordinator()
    names = {"coordinator": coordinator, "tool_data": {"tool_name": "bash"}}
    allowed = await run_block(block, dict(names))
    emitted = allowed["hook_result"] if block == "S2:799" else allowed["result"]
    assert emitted.action == "continue"

    coordinator.hooks.register(TOOL_PRE, Listener(deny("not here")))

    with pytest.raises(PermissionError, match="not here"):
        await run_block(block, dict(names))


@requirement("STWO-903")
async def test_a_question_that_is_denied_stops_the_orchestrator_too() -> None:
    coordinator = ModuleCoordinator()
    approvals: Any = Approvals("Deny")
    coordinator.approval_system = approvals
    coordinator.hooks.register(TOOL_PRE, Listener(ask("Run it?")))

    with pytest.raises(PermissionError, match=r"User denied: Run it\?"):
        await run_block("S2:903", {"coordinator": coordinator, "tool_data": {}})


@requirement("STWO-816")
@pytest.mark.parametrize("action", ["continue", "deny", "modify", "inject_context", "ask_user"])
async def test_a_user_message_is_shown_whatever_the_action(action: Any) -> None:
    coordinator = MockCoordinator()
    display: Any = Display()
    coordinator.display_system = display
    result = HookResult(action=action, user_message="look here", user_message_level="warning")

    await coordinator.process_hook_result(result, TOOL_PRE, "linter")

    assert display.shown == [("look here", "warning", "hook:linter")]


@requirement("STWO-817")
@pytest.mark.parametrize("action", ["continue", "deny", "modify", "inject_context", "ask_user"])
async def test_a_request_to_suppress_output_is_logged_whatever_the_action(
    action: Any, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = MockCoordinator()
    quiet = HookResult(action=action, suppress_output=True)

    with caplog.at_level(logging.DEBUG, logger="amplifier_core"):
        processed = await coordinator.process_hook_result(quiet, TOOL_PRE, "the-linter")

    (logged,) = [message for message in caplog.messages if "suppress" in message]
    assert "the-linter" in logged
    assert TOOL_PRE in logged
    assert processed.suppress_output


@requirement("STWO-821")
async def test_without_subsystems_messages_are_logged_and_questions_denied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = ModuleCoordinator()
    message = HookResult(action="continue", user_message="look here")

    with caplog.at_level(logging.INFO):
        await coordinator.process_hook_result(message, TOOL_PRE, "linter")

    assert any("look here" in logged for logged in caplog.messages)
    assert (await coordinator.process_hook_result(ask(), TOOL_PRE)).action == "deny"


@requirement("STWO-880")
async def test_injections_after_a_reset_count_against_the_budget(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = _coordinator(injection_budget_per_turn=10)
    memory = Memory()
    model = _Model()
    await coordinator.mount("context", memory)
    names = {"coordinator": coordinator, "context": memory, "provider": model}
    shown = await run_block("S2:880", {"injection_result": inject("x" * 40), **names})

    await shown["execute_turn"]("one")
    assert coordinator._current_turn_injections == 10
    await shown["execute_turn"]("two")
    assert coordinator._current_turn_injections == 10
    assert [len(each) for each in model.asked] == [0, 1]
    assert "budget" not in caplog.text
    await coordinator.process_hook_result(inject("x" * 4), TOOL_POST, "linter")
    assert "budget" in caplog.text


async def _both(result: HookResult, block_is_run: bool, memory: Memory) -> ModuleCoordinator:
    """Carry an injection out, by the text of the block or by the coordinator itself."""
    coordinator = _coordinator(**_LIMITS)
    await coordinator.mount("context", memory)
    if block_is_run:
        names: dict[str, Any] = {"event": TOOL_POST, "hook_name": "linter", "logger": LOGGER}
        names |= {"coordinator": coordinator, "context": memory, "datetime": datetime}
        await run_block("S2:931", {"result": result, **names})
    else:
        await coordinator.process_hook_result(result, TOOL_POST, "linter")
    return coordinator


@requirement("STWO-931")
@pytest.mark.parametrize("block_is_run", [True, False])
async def test_the_coordinator_injects_as_the_block_does(
    block_is_run: bool, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory()
    result = inject("four characters a token", context_injection_role="user")

    coordinator = await _both(result, block_is_run, memory)

    assert coordinator._current_turn_injections == 5
    assert "exceeded" not in caplog.text
    (message,) = memory.messages
    assert (message["role"], message["content"]) == ("user", "four characters a token")
    metadata = message["metadata"]
    assert datetime.fromisoformat(metadata["timestamp"])
    expected = {"source": "hook", "hook_name": "linter", "event": TOOL_POST}
    assert expected.items() <= metadata.items()
    coordinator = await _both(inject("x" * 24), block_is_run, memory)
    assert len(memory.messages) == 2
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "budget exceeded" in warning.getMessage()


@requirement("STWO-931")
@pytest.mark.parametrize("block_is_run", [True, False])
async def test_neither_block_nor_coordinator_stores_what_is_too_long_or_ephemeral(
    block_is_run: bool,
) -> None:
    memory = Memory()

    coordinator = await _both(inject("x" * 8, ephemeral=True), block_is_run, memory)
    assert coordinator._current_turn_injections == 2
    with pytest.raises(ValueError, match="Context injection exceeds"):
        await _both(inject("x" * 41), block_is_run, memory)
    assert memory.messages == []

    await _both(inject("x" * 40), block_is_run, memory)
    assert len(memory.messages) == 1


class _KeywordApprovals:
    """An approval system that can be asked by keyword alone."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def request_approval(
        self, *, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        """Keep the question and answer it."""
        self.asked.append(
            {"prompt": prompt, "options": options, "timeout": timeout, "default": default}
        )
        return self.answer


@requirement("STWO-960")
@pytest.mark.parametrize(("answer", "action"), [("Allow", "continue"), ("Deny", "deny")])
async def test_the_coordinator_asks_as_the_block_does(answer: str, action: str) -> None:
    approvals: Any = _KeywordApprovals(answer)
    coordinator = ModuleCoordinator(approval_system=approvals)
    question = ask(None, approval_timeout=9, approval_default="allow")
    names = {"result": question, "coordinator": coordinator, "HookResult": HookResult}

    by_block = await run_body("S2:960", names)
    by_coordinator = await coordinator.process_hook_result(question, TOOL_PRE, "security")

    assert by_block.action == action
    assert (by_coordinator.action, by_coordinator.reason) == (by_block.action, by_block.reason)
    stock = {"prompt": "Allow this operation?", "options": ["Allow", "Deny"]}
    assert approvals.asked == [{**stock, "timeout": 9, "default": "allow"}] * 2


@requirement("STWO-960")
async def test_an_answer_that_nobody_offered_denies() -> None:
    approvals: Any = Approvals("whatever")
    coordinator = ModuleCoordinator(approval_system=approvals)

    processed = await coordinator.process_hook_result(ask("Run it?"), TOOL_PRE)

    assert (processed.action, processed.reason) == ("deny", "User denied: Run it?")


@requirement("STWO-985")
@pytest.mark.parametrize(("role", "appended"), [("tool", True), ("user", False)])
async def test_an_ephemeral_injection_is_in_the_current_request_alone(
    role: str, appended: bool
) -> None:
    coordinator = ModuleCoordinator()
    bound = await ModuleLoader().load("context-simple", {})
    await bound(coordinator)
    context = coordinator.get_mounted("context")
    history: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "tool": "bash"}]},
        {"role": "tool", "content": "done", "tool_call_id": "1"},
    ]
    if role == "user":
        history.append({"role": "user", "content": "done"})
    await context.set_messages(history)
    model = _Model()
    reminder = inject("remember", ephemeral=True, append_to_last_tool_result=True)
    names = {"coordinator": coordinator, "context": context, "provider": model}

    await run_block("S2:985", {"hook_result": reminder, **names})

    (asked,) = model.asked
    if appended:
        assert asked[-1]["content"] == "done\n\nremember"
    else:
        assert asked[-1] == {"role": "system", "content": "remember"}
        assert asked[-2]["content"] == "done"
    stored = await context.get_messages()
    assert [message["content"] for message in stored] == [each["content"] for each in history]
    assert "remember" not in str(stored)
