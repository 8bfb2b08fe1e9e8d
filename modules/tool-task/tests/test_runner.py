"""Tests of children that a runner of the app's own has, instead of this process."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.effects import declaration_of
from amplifier_core.testing import MockProvider
from contract.requirements import requirement

LIMITS = {"max_depth": 3, "max_children": 8, "max_total": 64}


class Elsewhere:
    """Runs nothing: what became of each child is what the test says."""

    def __init__(self, limits: dict[str, int] | None = None) -> None:
        self.limits = limits
        self.orders: list[dict[str, Any]] = []
        self.waits: list[tuple[str, float | None]] = []
        self.stopped: list[str] = []
        self.unread: list[dict[str, Any]] = []
        self.ends: dict[str, Any] = {"stop_reason": "completed", "answer": "Done."}
        self.refuses: str | None = None

    def child(self, order: dict[str, Any], **facts: Any) -> dict[str, Any]:
        number = self.orders.index(order) + 1
        known = {"agent": order["agent"], "background": order["background"], "seconds": 1.5}
        return {"handle": f"task-{number}", "child_session_id": f"c{number}", **known, **facts}

    async def start(self, order: dict[str, Any]) -> dict[str, Any] | str:
        if self.refuses:
            return self.refuses
        self.orders.append(order)
        return self.child(order)

    async def tasks(self) -> list[dict[str, Any]]:
        return [self.child(order) for order in self.orders]

    async def wait(self, handle: str, seconds: float | None) -> dict[str, Any]:
        self.waits.append((handle, seconds))
        order = self.orders[int(handle.removeprefix("task-")) - 1]
        return self.child(order, **(self.ends if seconds != 0 else {}))

    async def stop(self, handle: str) -> None:
        self.stopped.append(handle)
        self.ends = {"stop_reason": "cancelled", "messages": [{"role": "tool", "content": "42"}]}

    async def news(self) -> list[dict[str, Any]]:
        unread, self.unread = self.unread, []
        return unread


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """A runner that every session of the test is offered before its modules mount."""
    runner = Elsewhere()
    initialize = AmplifierSession.initialize

    async def offer(self: AmplifierSession) -> None:
        self.coordinator.register_capability("task.runner", runner)
        await initialize(self)

    monkeypatch.setattr(AmplifierSession, "initialize", offer)
    return runner


async def test_a_child_is_ordered_with_all_that_a_runner_needs(
    build: Any, elsewhere: Elsewhere
) -> None:
    poet: dict[str, Any] = {"system": {"instruction": "Rhyme."}, "tools": []}
    root = await build(agents={"poet": poet})

    result = await root.call("task", prompt="A verse.", agent="poet", timeout_seconds=9)

    assert (result.success, result.output) == (True, "Done.")
    assert elsewhere.waits == [("task-1", None)]
    assert elsewhere.orders == [
        {
            "prompt": "A verse.",
            "instruction": "Rhyme.",
            "agent": "poet",
            "background": False,
            "seconds": 9,
            "depth": 1,
            "overlay": {"tools": [], "hooks": []},
            "limits": LIMITS,
        }
    ]
    assert [each["child_session_id"] for each in root.told("started")] == ["c1"]
    assert root.told("finished")[0]["stop_reason"] == "completed"
    # A call that is repeated finds its child: nothing has to be asked of a person.
    assert declaration_of(root.coordinator.get("tools", "task")).effect == "idempotent"


async def test_a_child_in_the_background_is_listed_read_and_stopped_by_its_runner(
    build: Any, elsewhere: Elsewhere
) -> None:
    root = await build()

    started = await root.call("task", prompt="Go.", background=True)
    still = await root.call("task_result", handle="task-1")
    listed = await root.call("task_status")
    one = await root.call("task_status", handle="task-1")
    stopped = await root.call("task_cancel", handle="task-1")

    assert "task-1 runs" in started.output
    assert still.output == "Still running. task-1: running, 1.5 s"
    assert listed.output == one.output == "task-1: running, 1.5 s"
    assert elsewhere.stopped == ["task-1"]
    assert "task-1 is incomplete: cancelled" in stopped.output
    assert "- tool: 42" in stopped.output
    assert any("did not come to its end" in line for line in root.screen.lines)


async def test_a_child_that_fails_elsewhere_says_why(build: Any, elsewhere: Elsewhere) -> None:
    elsewhere.ends = {"stop_reason": "error", "error": "no such loop"}
    root = await build()

    result = await root.call("task", prompt="Go.")

    assert result.error["stop_reason"] == "error"
    assert "no such loop" in result.output
    assert len(root.told("failed")) == 1


async def test_what_a_runner_refuses_is_said(build: Any, elsewhere: Elsewhere) -> None:
    elsewhere.refuses = "All are busy."
    root = await build()

    refused = await root.call("task", prompt="Go.")
    unknown = await root.call("task", prompt="Go.", agent="pilot")
    nowhere = await root.call("task_result", handle="task-9")

    assert "All are busy." in refused.output
    assert "Known: none." in unknown.output
    assert "Known: none." in nowhere.output
    assert [each["reason"] for each in root.told("refused")][0] == "All are busy."
    assert root.told("started") == []


async def test_the_model_hears_of_children_that_ended_elsewhere(
    build: Any, elsewhere: Elsewhere, plant: Any
) -> None:
    model = MockProvider()

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("providers", model, name="other")

    plant("provider-other", mount)
    root = await build(providers=[{"module": "provider-other"}])
    await root.call("task", prompt="Go.", background=True)
    elsewhere.unread = [elsewhere.child(elsewhere.orders[0], stop_reason="completed")]

    await root.session.execute("What now?")
    await root.session.execute("And now?")

    requests = [str(call.args[0].messages) for call in model.complete.call_args_list]
    assert ["task-1: completed" in request for request in requests] == [True, False]


@pytest.mark.attack("V4")
async def test_a_child_elsewhere_cannot_widen_the_limits_above_it(
    build: Any, elsewhere: Elsewhere
) -> None:
    elsewhere.limits = {"max_depth": 2, "max_children": 1, "max_total": 4}
    root = await build({"max_depth": 9, "max_children": 9, "max_total": 99})

    await root.call("task", prompt="Go.")

    assert elsewhere.orders[0]["limits"] == elsewhere.limits


async def test_children_elsewhere_do_not_end_with_the_process(
    build: Any, elsewhere: Elsewhere
) -> None:
    root = await build()
    await root.call("task", prompt="Go.", background=True)

    await root.session.cleanup()

    assert elsewhere.stopped == []


@requirement("AGENT-5")
async def test_a_spawned_agent_is_ordered_from_the_runner_with_a_key_of_its_own(
    build: Any, elsewhere: Elsewhere
) -> None:
    root = await build(agents={"poet": {"tools": []}})
    spawn = root.coordinator.get_capability("agents.spawn")

    assert await spawn("poet", "A verse.") == "Done."
    assert await spawn("poet", "Another verse.") == "Done."
    assert await spawn("poet", "A verse.") == "Done."

    keys = [order["key"] for order in elsewhere.orders]
    assert keys[0] == keys[2] != keys[1]
    assert [order["prompt"] for order in elsewhere.orders][:2] == ["A verse.", "Another verse."]
    assert len(root.told("started")) == len(root.told("finished")) == 3


@requirement("AGENT-5", "AGENT-7")
async def test_what_a_runner_refuses_or_ends_is_raised_to_the_module_that_spawns(
    build: Any, elsewhere: Elsewhere
) -> None:
    root = await build(agents={"poet": {"tools": []}})
    spawn = root.coordinator.get_capability("agents.spawn")

    elsewhere.ends = {"stop_reason": "error", "error": "no such loop"}
    with pytest.raises(RuntimeError, match="no such loop"):
        await spawn("poet", "A verse.")
    elsewhere.refuses = "All are busy."
    with pytest.raises(RuntimeError, match="All are busy"):
        await spawn("poet", "A verse.")


@requirement("AGENT-6")
async def test_a_session_too_deep_orders_nothing_from_its_runner(
    build: Any, elsewhere: Elsewhere
) -> None:
    elsewhere.limits = {"max_depth": 0, "max_children": 1, "max_total": 4}
    root = await build(agents={"poet": {"tools": []}})

    with pytest.raises(RuntimeError, match="may be nested 0 deep"):
        await root.coordinator.get_capability("agents.spawn")("poet", "A verse.")

    assert elsewhere.orders == []
