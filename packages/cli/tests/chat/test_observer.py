"""What the chat shows of the events of a session."""

from __future__ import annotations

from typing import Any

from amplifier_cli.chat.live_view import Scene
from amplifier_cli.chat.observer import Observer, Usage
from amplifier_core.hooks import HookRegistry


async def no_results() -> dict[str, Any]:
    return {}


async def test_what_an_agent_does_is_shown_below_the_call_that_started_it() -> None:
    scene = Scene(lambda: None)
    observer = Observer(scene, lambda item: None, lambda data: None, no_results, Usage())
    hooks = HookRegistry()
    observer.attach(hooks)
    for call_id in ("c1", "c2"):
        call: dict[str, Any] = {"tool_name": "task", "tool_call_id": call_id, "tool_input": {}}
        await hooks.emit("tool:pre", call)

    progress = {"agent": "reviewer", "steps": 2, "last_tool": "grep"}
    for call_id in ("c2", "of a call of a sub-agent", None):
        await hooks.emit("task:progress", {**progress, "parent_tool_call_id": call_id})

    shown = {call_id: running.written for call_id, running in scene.tools.items()}
    assert shown == {"c1": "", "c2": "reviewer: 2 steps, last grep\n"}


async def test_a_call_that_is_refused_before_it_starts_is_shown_once() -> None:
    shown: list[Any] = []
    scene = Scene(lambda: None)
    observer = Observer(scene, shown.append, lambda data: None, no_results, Usage())
    hooks = HookRegistry()
    observer.attach(hooks)
    call: dict[str, Any] = {"tool_name": "write_file", "tool_call_id": "c1", "tool_input": {}}
    failure = {"type": "RefusedError", "message": "`.git` is protected"}

    for _ in range(2):
        await hooks.emit("tool:error", {**call, "error": failure})

    [item] = shown
    assert (item.name, item.state) == ("write_file", "failed")
    assert "`.git` is protected" in str(item)
    assert scene.tools == {}
