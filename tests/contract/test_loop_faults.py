"""Contract of the basic loop: parallel tools, cancellation, and histories that need repair."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession, ToolResult
from amplifier_core.events import ALL_EVENTS
from amplifier_core.testing import EventRecorder, MockContextManager, MockTool
from contract.doubles import Listener, broken_pairs
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement
from contract.turns import Turn, calls, loop


class Slow:
    """A tool that waits for its turn before it answers."""

    description = "Waits."
    input_schema: dict[str, Any] = {}

    def __init__(self, name: str, gate: asyncio.Event, started: asyncio.Event) -> None:
        self.name, self.gate, self.started = name, gate, started

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Wait, then tell the name."""
        self.started.set()
        await self.gate.wait()
        return ToolResult(output=self.name)


class Opening(Slow):
    """A tool that lets a slow one go on."""

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Open the gate once the other one waits at it."""
        await self.started.wait()
        self.gate.set()
        return ToolResult(output=self.name)


@requirement("ORCH-17")
async def test_tools_run_together_and_answer_in_call_order() -> None:
    gate, started = asyncio.Event(), asyncio.Event()
    tools = [Slow("slow", gate, started), Opening("opening", gate, started)]
    turn = Turn(await loop(), calls("slow", "opening", "slow"), "Done.", tools=tools)

    assert await turn.run() == "Done."

    assert turn.results == ["slow", "opening", "slow"]
    stored = [each["tool_call_id"] for each in turn.context.messages if each["role"] == "tool"]
    assert stored == ["call_1", "call_2", "call_3"]


@requirement("ORCH-19", "LAW-22", "LAW-23")
@pytest.mark.parametrize("hanging", ["provider", "one tool", "two tools"])
async def test_an_interrupted_turn_leaves_a_history_that_can_go_on(
    installed: Installer, hanging: str
) -> None:
    never, started = asyncio.Event(), asyncio.Event()

    async def hang(request: Any) -> Any:
        started.set()
        await never.wait()

    names = ["echo", "slow"] if hanging == "two tools" else ["slow"]
    answers = [hang] if hanging == "provider" else [calls(*names)]
    plan = installed.basics(tools=[{"module": "tool-slow"}, {"module": "tool-echo"}])
    installed.provider.answers = [*answers, "Going on."]
    installed.object("tool-slow", "tools", Slow("slow", never, started))
    installed.object("tool-echo", "tools", MockTool("echo"))
    installed.object("loop-test", "orchestrator", await loop())
    session = AmplifierSession(plan)

    async with asyncio.timeout(120):
        await session.initialize()
        turn = asyncio.create_task(session.execute("first"))
        await started.wait()
        await session.coordinator.request_cancel(immediate=True)
        await asyncio.gather(turn, return_exceptions=True)
        assert session.status.status == "cancelled"
        assert broken_pairs(installed.memory.messages) == []
        session.coordinator.cancellation.reset()
        assert await session.execute("second") == "Going on."

    assert broken_pairs(installed.provider.requests[-1].messages) == []
    if hanging == "two tools":
        contents = {
            each["tool_call_id"]: each["content"]
            for each in installed.memory.messages
            if each["role"] == "tool"
        }
        assert contents["call_1"] == "Success"


@requirement("ORCH-19")
async def test_a_graceful_stop_finishes_the_running_tools_first() -> None:
    gate, started = asyncio.Event(), asyncio.Event()
    turn = Turn(await loop(), calls("slow"), "Never.", tools=[Slow("slow", gate, started)])

    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await started.wait()
        assert turn.coordinator.cancellation.running_tool_names == ["slow"]
        turn.coordinator.cancellation.request_graceful()
        gate.set()
        await running

    assert turn.results == ["slow"]
    assert len(turn.provider.requests) == 1
    assert turn.told("cancel:requested")[0]["state"] == "graceful"
    assert turn.coordinator.cancellation.running_tools == set()


ORPHANS: list[dict[str, Any]] = [
    {"role": "user", "content": "before the crash"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "lost", "type": "function", "function": {"name": "bash"}}],
    },
    {"role": "user", "content": "after the crash"},
    {"role": "tool", "tool_call_id": "stray", "content": "whose am I?"},
]


@requirement("ORCH-18", "CTX-12")
async def test_an_orphaned_call_cannot_brick_a_session() -> None:
    turn = Turn(await loop(), "Alive.")
    turn.context.messages = [dict(message) for message in ORPHANS]
    heard = Listener()
    for event in ("context:repaired", "provider:tool_sequence_repaired"):
        turn.hooks.register(event, heard)

    assert await turn.run("still there?") == "Alive."

    assert broken_pairs(turn.provider.requests[0].messages) == []
    assert len(heard.calls) == 1
    assert turn.context.messages[:4] == ORPHANS


_ids = st.sampled_from(["a", "b", "c"])
_texts = st.text(max_size=5)


def _says(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def _result(name: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": text}


def _seed_shape(names: list[str]) -> dict[str, Any]:
    made = [{"id": name, "type": "function", "function": {"name": "t"}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": made}


def _loop_shape(names: list[str]) -> dict[str, Any]:
    made: list[Any] = [{"id": name, "tool": "t", "arguments": {}} for name in names]
    blocks: list[Any] = [
        {"type": "tool_call", "id": name, "name": "t", "input": {}} for name in names
    ]
    return {"role": "assistant", "content": blocks, "tool_calls": made}


_some = st.lists(_ids, min_size=1, max_size=3, unique=True)
_messages = st.one_of(
    st.builds(_says, st.sampled_from(["user", "assistant"]), _texts),
    st.builds(_result, _ids, _texts),
    st.builds(_seed_shape, _some),
    st.builds(_loop_shape, _some),
)
_histories = st.lists(_messages, max_size=12)


async def _sent(history: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Give what a turn on top of `history` sends, without the prompt, and how often it repaired."""
    provider = ScriptedProvider("ok")
    recorder = EventRecorder()
    await (await loop()).execute(
        prompt="prompt",
        context=MockContextManager(list(history)),
        providers={"test": provider},
        tools={},
        hooks=recorder,
    )
    repairs = [event for event, _ in recorder.events if "repaired" in event]
    assert set(repairs) <= set(ALL_EVENTS)
    messages = [message.model_dump(exclude_none=True) for message in provider.requests[0].messages]
    assert messages[-1]["content"] == "prompt"
    return messages[:-1], len(repairs)


@requirement("LAW-26", "ORCH-18")
@given(_histories)
def test_any_history_becomes_a_valid_request(history: list[dict[str, Any]]) -> None:
    async def check() -> None:
        sent, repairs = await _sent(history)
        assert broken_pairs(sent) == []
        assert repairs == (1 if broken_pairs(history) else 0)
        again, more = await _sent(sent)
        assert again == sent
        assert more == 0

    asyncio.run(check())
