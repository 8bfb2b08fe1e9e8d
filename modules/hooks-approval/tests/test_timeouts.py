"""How long a question waits for its answer, and what is left behind when none came."""

from __future__ import annotations

import asyncio
import gc
import json
import math
from typing import Any

import pytest

import amplifier_module_hooks_approval as module
from amplifier_core.models import HookResult
from amplifier_core.testing import wait_for
from amplifier_module_hooks_approval.guard import Guard


async def test_a_question_at_a_terminal_waits_as_long_as_it_takes(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.waits_for_user = True
    asked_for: list[float] = []
    request_approval = ann.request_approval

    async def note(prompt: str, options: list[str], timeout: float, default: str) -> Any:
        asked_for.append(timeout)
        return await request_approval(prompt, options, timeout, default)

    ann.request_approval = note
    harness = await build([calling("bash")], person=ann)

    await harness.run()

    assert asked_for == [math.inf]
    assert len(harness.ran()) == 1


async def test_a_timeout_leaves_no_exception_that_nobody_looked_at(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.gate.clear()
    harness = await build([calling("bash")], person=ann, timeout_seconds=0.02)
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))

    await harness.run()
    await asyncio.sleep(0)
    gc.collect()

    assert unseen == []
    assert any("`timeout_seconds` of hooks-approval" in line for line in harness.screen.lines)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the decision about `write` hang, for which the guard has little time."""
    decide = Guard.decide

    async def hang(guard: Guard, event: str, data: dict[str, Any]) -> HookResult:
        if data["tool_name"] == "write":
            await asyncio.Event().wait()
        return await decide(guard, event, data)

    monkeypatch.setattr(Guard, "decide", hang)
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.05)


@pytest.mark.usefixtures("hanging")
async def test_a_decision_that_hangs_is_denied_although_an_earlier_call_is_parked(
    build: Any, calling: Any
) -> None:
    headless = await build([calling("bash", command="deploy")], headless="park")
    await headless.run()
    assert len(headless.broker.waiting()) == 1
    state = json.loads(json.dumps(headless.coordinator.session_state))
    later = await build([calling("write")], headless="park", state=state)

    await later.run()

    assert len(later.broker.waiting()) == 1
    assert later.ran("write") == []
    assert "no decision after" in str(later.told("hook:failed"))


@pytest.mark.usefixtures("hanging")
async def test_a_decision_that_hangs_is_denied_although_another_call_is_asked_about(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.waits_for_user = True
    ann.gate.clear()
    harness = await build([calling("bash"), calling("write")], person=ann)

    turn = asyncio.create_task(harness.run())
    assert await wait_for(lambda: harness.told("hook:failed"), timeout=120)
    assert len(harness.broker.waiting()) == 1
    ann.gate.set()
    await turn

    assert harness.ran("write") == []
    assert len(harness.ran("bash")) == 1
