"""A decision that hangs is a denial; a user who thinks about a question is not cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import amplifier_module_hooks_approval as module
from amplifier_core.interfaces import ApprovalResponse
from amplifier_core.testing import wait_for
from amplifier_module_hooks_approval.broker import Broker
from amplifier_module_hooks_approval.handler_limits import within
from amplifier_module_hooks_approval.rules import Call


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a decision take next to no time while nobody is asked."""

    def short(seconds: float, *what: Any) -> Any:
        assert seconds >= 10
        return within(0.01, *what)

    monkeypatch.setattr(module, "within", short)


async def test_a_decision_that_hangs_is_a_denial_that_names_the_guard(
    build: Any, calling: Any
) -> None:
    harness = await build([calling("bash", "c1", command="ls")])

    async def hang(event: str, data: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    harness.coordinator.hooks.register("approval:denied", hang)
    (told,) = await harness.run()

    assert told.startswith("Denied by hook: Guard `hooks-approval` failed on tool:pre")
    assert harness.ran() == []
    (failed,) = harness.told("hook:failed")
    assert (failed["handler"], failed["denied"]) == ("hooks-approval", True)


async def test_a_user_may_think_longer_than_a_decision_may_take(
    build: Any, calling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: asyncio.Future[ApprovalResponse] = asyncio.get_running_loop().create_future()
    looks: list[bool] = []
    is_asking = Broker.is_asking

    def look(broker: Broker, call: Call) -> bool:
        found = is_asking(broker, call)
        looks.append(found)
        return found

    class Client:
        async def request_approval(self, request: Any) -> ApprovalResponse:
            return await answer

    monkeypatch.setattr(Broker, "is_asking", look)
    harness = await build([calling("bash", "c1", command="ls")])
    harness.coordinator.get_capability("approval.register_provider")(Client())

    turn = asyncio.create_task(harness.run())
    assert await wait_for(lambda: len(looks) >= 3, timeout=120)
    answer.set_result(ApprovalResponse(approved=True))
    await turn

    assert set(looks) == {True}
    assert harness.ran() == [{"command": "ls"}]
