"""Tests of what observers hear, what the loop acts on, and what happens when redaction fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.errors import ModuleValidationError
from amplifier_core.message_models import TextBlock
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_kit.notices import show
from amplifier_module_hooks_redaction import mount
from end_to_end.secret_examples import EXAMPLES, hidden_part

Open = Callable[..., Awaitable[Any]]

KEY = "sk-ant-" + "a1B2c3D4" * 5
every_kind = pytest.mark.parametrize("kind", EXAMPLES)


@pytest.mark.attack("K1")
@every_kind
async def test_no_observer_hears_any_kind_of_secret(open_house: Open, kind: str) -> None:
    harness = await open_house()
    example = EXAMPLES[kind]

    await harness.emit("tool:post", {"result": {"success": True, "output": f"\n{example}\n; end"}})
    await harness.emit("tool:error", {"error": {"type": "E", "msg": f"refused: {example}"}})
    await harness.emit("provider:retry", {"url": f"https://example.org/?q={example}", example: 1})
    await harness.emit("llm:response", {"nested": [{"deep": [example]}]})
    await harness.emit("prompt:submit", {"prompt": f"use {example} please"})

    assert len(harness.heard) == 5
    assert hidden_part(kind).replace("\n", "\\n") not in harness.everything


@pytest.mark.attack("K1")
@every_kind
async def test_no_line_for_the_person_shows_a_secret(open_house: Open, kind: str) -> None:
    harness = await open_house()

    show(harness.coordinator, f"refused:\n{EXAMPLES[kind]}\n; end", source="provider-x")

    [line] = harness.screen.lines
    assert line.startswith("warning: refused:")
    assert hidden_part(kind) not in line


@pytest.mark.attack("K1")
async def test_a_line_that_cannot_be_searched_is_withheld(open_house: Open) -> None:
    harness = await open_house()
    break_redaction(harness)

    show(harness.coordinator, f"refused: {KEY}", source="provider-x")

    assert harness.screen.lines == [
        "warning: This could not be searched for secrets (TypeError): it is withheld."
    ]


@pytest.mark.attack("K1")
@every_kind
async def test_no_observer_hears_a_secret_in_two_pieces(open_house: Open, kind: str) -> None:
    harness = await open_house()
    example = EXAMPLES[kind]
    middle = len(example) - len(hidden_part(kind)) // 2
    identity = {"request_id": "r", "block_index": 0}

    for text in (f"it is {example[:middle]}", f"{example[middle:]}; done"):
        await harness.emit("llm:stream_block_delta", {**identity, "text": text})
    await harness.emit("llm:stream_block_end", identity)

    texts = "".join(data["text"] for data in harness.told("llm:stream_block_delta"))
    assert hidden_part(kind) not in texts
    assert texts.startswith("it is ")
    assert texts.endswith(" done")
    assert [event for event, _ in harness.heard][-1] == "llm:stream_block_end"


@pytest.mark.attack("K1")
async def test_the_sessions_own_keys_are_never_heard(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENDOR_API_KEY", "own key, odd/1")
    harness = await open_house()
    harness.coordinator.register_capability("secrets.known", ["app-value-88"])
    await harness.emit("execution:start", {})

    await harness.emit("tool:error", {"error": "own key, odd/1 and app-value-88"})

    assert (
        harness.told("tool:error")[0]["error"] == "[REDACTED:VENDOR_API_KEY] and [REDACTED:secret]"
    )


async def test_events_without_secrets_pass_as_they_are(open_house: Open) -> None:
    harness = await open_house()
    result = ToolResult(output="fine")

    answer = await harness.emit("tool:post", {"result": result, "usage": {"input_tokens": 3}})

    assert answer.action == "continue"
    assert answer.data is not None
    assert answer.data["result"] is result
    assert harness.screen.lines == []


async def test_the_model_reads_a_result_without_its_secrets_and_the_person_is_told(
    open_house: Open,
) -> None:
    harness = await open_house()
    result = ToolResult(output=f"key: {KEY}", content=[TextBlock(text=f"see {KEY}")])

    answer = await harness.emit("tool:post", {"result": result, "tool_result": result})

    left = answer.data["result"]
    assert isinstance(left, ToolResult)
    assert left.output == "key: [REDACTED:anthropic-key]"
    assert left.content == [TextBlock(text="see [REDACTED:anthropic-key]")]
    assert any(
        "a tool's result" in line and "anthropic-key" in line for line in harness.screen.lines
    )


@pytest.mark.attack("K1")
@pytest.mark.parametrize("event", ["tool:selecting", "tool:pre"])
async def test_a_tool_call_with_a_secret_is_refused_and_heard_by_nobody(
    open_house: Open, event: str
) -> None:
    harness = await open_house(events=["tool:selecting"])
    call = {"tool_name": "bash", "tool_call_id": "1", "tool_input": {"command": f"curl x?k={KEY}"}}

    answer = await harness.emit(event, call)

    assert answer.action == "deny"
    assert "environment variable" in answer.reason
    assert harness.told(event) == []
    assert harness.told("redaction:refused")[0]["kinds"] == {"anthropic-key": 1}
    assert KEY not in harness.everything + answer.reason
    assert any("`bash` was refused" in line for line in harness.screen.lines)


async def test_a_tool_call_that_would_write_a_marker_is_refused(open_house: Open) -> None:
    harness = await open_house()
    call = {"tool_name": "write_file", "tool_input": {"content": "KEY=[REDACTED:anthropic-key]"}}

    answer = await harness.emit("tool:pre", call)

    assert answer.action == "deny"
    assert "destroy the original" in answer.reason


@pytest.mark.parametrize("event", ["tool:selecting", "tool:pre"])
async def test_a_guess_neither_changes_nor_refuses_a_tool_call(
    open_house: Open, event: str
) -> None:
    harness = await open_house(events=["tool:selecting"])
    call = {"tool_name": "write_file", "tool_input": {"content": "password=hunter22x"}}

    answer = await harness.emit(event, call)

    assert answer.action == "continue"
    assert answer.data["tool_input"] is call["tool_input"]


async def test_tool_calls_pass_when_the_person_says_so(open_house: Open) -> None:
    harness = await open_house(secrets_in_tool_input="pass")

    answer = await harness.emit("tool:pre", {"tool_input": {"command": KEY}})

    assert answer.action == "continue"
    assert harness.told("tool:pre")[0]["tool_input"] == {"command": KEY}


@pytest.mark.attack("H1")
@pytest.mark.parametrize(
    "event", ["tool:selecting", "tool:pre", "tool:post", "prompt:submit", "provider:request"]
)
async def test_when_redaction_fails_the_loop_is_told_no(open_house: Open, event: str) -> None:
    harness = await open_house(events=["tool:selecting"])
    break_redaction(harness)

    answer = await harness.emit(event, {"tool_input": "private", "result": "private"})

    assert answer.action == "deny"
    assert "private" not in harness.everything
    assert harness.told("redaction:failed")[0]["event"] == event
    assert any("it is withheld" in line for line in harness.screen.lines)


@pytest.mark.attack("H1")
async def test_when_redaction_fails_observers_hear_that_and_nothing_else(open_house: Open) -> None:
    harness = await open_house()
    break_redaction(harness)

    for _ in range(3):
        await harness.emit("llm:response", {"response": "private", "session_id": "s"})

    heard = harness.told("llm:response")
    assert len(heard) == 3
    assert heard[0].pop("timestamp")
    assert heard[0] == {
        "session_id": "s",
        "parent_id": None,
        "withheld": "redaction failed: TypeError",
    }
    assert "private" not in harness.everything
    assert len(harness.told("redaction:failed")) == 3
    assert sum("it is withheld" in line for line in harness.screen.lines) == 1


@pytest.mark.attack("K1")
async def test_what_an_observer_announces_in_turn_is_searched_too(open_house: Open) -> None:
    harness = await open_house()
    harness.watch("plan:start")

    async def echo(event: str, data: dict[str, Any]) -> None:
        await harness.hooks.emit("plan:start", {**data, "said": KEY})

    harness.hooks.register("llm:stream_block_delta", echo)
    await harness.hooks.emit("llm:stream_block_delta", {"request_id": "r", "text": "half"})
    await harness.hooks.emit("llm:stream_block_end", {"request_id": "r"})

    said = [(data["text"], data["said"]) for data in harness.told("plan:start")]
    assert said == [("", "[REDACTED:anthropic-key]"), ("half", "[REDACTED:anthropic-key]")]


async def test_data_that_is_no_mapping_is_searched_too(open_house: Open) -> None:
    harness = await open_house()

    await harness.emit("plan:start", f"text with {KEY}")

    assert harness.told("plan:start") == [{"data": "text with [REDACTED:anthropic-key]"}]


async def test_it_runs_before_observers_that_came_first_and_asked_to_be_first() -> None:
    coordinator = MockCoordinator()
    heard: list[Any] = []
    coordinator.hooks.register("tool:error", lambda event, data: heard.append(data), priority=-999)  # pyright: ignore[reportUnknownLambdaType] - untyped by contract
    await mount(coordinator)

    await coordinator.hooks.emit("tool:error", {"error": KEY})

    assert heard[0]["error"] == "[REDACTED:anthropic-key]"


async def test_a_child_without_the_module_is_guarded_by_its_parents() -> None:
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock"}],
        "hooks": [{"module": "hooks-redaction"}],
    }
    heard: list[Any] = []
    async with AmplifierSession(plan) as parent, parent.fork({"hooks": []}) as child:
        child.coordinator.hooks.register("tool:error", lambda event, data: heard.append(data))  # pyright: ignore[reportUnknownLambdaType] - untyped by contract
        await child.coordinator.hooks.emit("tool:error", {"error": KEY})

    assert heard[0]["error"] == "[REDACTED:anthropic-key]"
    assert heard[0]["session_id"] == child.session_id


@pytest.mark.attack("K1")
async def test_a_whole_turn_leaves_no_secret_in_events_or_in_the_history() -> None:
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [
            {
                "module": "provider-mock",
                "config": {
                    "stream": True,
                    "script": [{"tool_calls": [{"name": "look", "arguments": {}}]}, "Done."],
                },
            }
        ],
        "hooks": [{"module": "hooks-redaction"}],
    }
    heard: list[Any] = []
    session = AmplifierSession(plan)
    async with session:
        coordinator = session.coordinator
        _ = coordinator.mount("tools", MockTool("look", f"the key is {KEY}"))
        for event in coordinator.hooks.list_handlers():
            coordinator.hooks.register(event, lambda event, data: heard.append(data))  # pyright: ignore[reportUnknownLambdaType] - untyped by contract
        await session.execute(f"my key is {KEY}, look")
        history = await coordinator.get_mounted("context").get_messages()

    assert len(heard) > 10
    assert KEY not in str(heard)
    assert KEY not in str(history)
    assert str(history).count("[REDACTED:anthropic-key]") == 2


async def test_a_large_event_is_searched_beside_the_event_loop(open_house: Open) -> None:
    harness = await open_house()
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.001)

    beating = asyncio.create_task(beat())
    async with asyncio.timeout(120):
        await harness.emit("tool:error", {"error": "word " * 400_000 + KEY})
    beating.cancel()

    assert harness.told("tool:error")[0]["error"].endswith("[REDACTED:anthropic-key]")
    assert beats > 2


async def test_a_small_event_costs_little(open_house: Open) -> None:
    harness = await open_house()
    data = {"tool_name": "x", "text": "y " * 250, "facts": list(range(20))}

    started = time.thread_time()
    for _ in range(300):
        await harness.hooks.emit("tool:error", data)

    assert (time.thread_time() - started) / 300 < 0.002


async def test_the_end_of_the_module_is_the_end_of_its_listening(open_house: Open) -> None:
    harness = await open_house()

    harness.stop()

    names = {name for them in harness.hooks.list_handlers().values() for name in them}
    assert names == {"observer"}


async def test_an_unknown_key_stops_the_mount_by_name() -> None:
    with pytest.raises(ModuleValidationError, match="`pattern_file` is not a valid key"):
        await mount(MockCoordinator(), {"pattern_file": "x"})


def break_redaction(harness: Any) -> None:
    """Give the module a value to search for that is no text."""
    redaction = harness.stop.__self__
    redaction._scrubber.known = redaction._certain.known = {7: "X"}
