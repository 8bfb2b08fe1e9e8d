"""Tests of the types of events: the names are all there, and what is required is really given."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, get_args

from amplifier_core import AmplifierSession, HookResult, MockTool, ToolCall
from amplifier_core.event_payloads import PAYLOADS, EventName, ToolPreData, TypedHandler
from amplifier_core.events import ALL_EVENTS
from amplifier_core.hooks import HookRegistry
from contract.doubles import Listener, raising
from contract.installer import Installer
from contract.turns import loop

# By the providers' contract; no constant of the kernel names them.
STREAM = ["start", "delta", "end"]


def test_the_literal_has_every_event_in_its_order() -> None:
    assert list(get_args(EventName)) == ALL_EVENTS


def test_a_type_is_one_of_an_event_that_exists() -> None:
    streamed = {f"llm:stream_block_{each}" for each in STREAM} | {"llm:stream_aborted"}

    assert set(PAYLOADS) <= {*ALL_EVENTS, *streamed}


async def test_the_events_of_a_session_have_what_their_types_require(installed: Installer) -> None:
    tools = [{"module": f"tool-{name}"} for name in ("works", "fails", "missing")]
    plan = installed.basics(tools=tools)
    called = [ToolCall(id=name, name=name, arguments={}) for name in ("works", "fails")]
    installed.provider.answers = [called, "Done."]
    installed.object("loop-test", "orchestrator", await loop())
    broken = MockTool("fails")
    broken.execute.side_effect = RuntimeError("broken")
    installed.object("tool-works", "tools", MockTool("works"))
    installed.object("tool-fails", "tools", broken)
    session = AmplifierSession(plan, parent_id="parent")
    heard = Listener()
    for event in PAYLOADS:
        session.coordinator.hooks.register(event, heard)
    session.coordinator.hooks.register("prompt:submit", raising(ValueError("no")), name="broken")

    await session.initialize()
    await session.execute("hi")
    session.coordinator.cancellation.request_graceful()
    await session.execute("hi")
    await session.cleanup()

    assert {
        event: missing for event, data in heard.calls if (missing := _required(event) - set(data))
    } == {}
    assert set(heard.events) >= {
        "session:fork",
        "session:start",
        "session:end",
        "prompt:submit",
        "execution:end",
        "provider:request",
        "provider:response",
        "tool:pre",
        "tool:post",
        "tool:error",
        "orchestrator:complete",
        "cancel:requested",
        "cancel:completed",
        "module:load_failed",
        "hook:failed",
    }


async def test_a_handler_may_name_the_data_that_it_gets() -> None:
    async def check(event: str, data: ToolPreData) -> HookResult:
        return HookResult(action="deny", reason=data["tool_name"])

    typed: TypedHandler[ToolPreData] = check
    registry = HookRegistry()
    registry.register("tool:pre", typed)

    denied = await registry.emit("tool:pre", {"tool_name": "bash", "tool_input": {}})

    assert denied.reason == "bash"


def test_using_the_kernel_does_not_load_the_types() -> None:
    program = (
        "import sys; from amplifier_core import AmplifierSession, events; "
        "assert 'amplifier_core.event_payloads' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def _required(event: str) -> frozenset[str]:
    payload: Any = PAYLOADS[event]
    return payload.__required_keys__
