"""Tests of children that work while their parent goes on."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core.testing import MockProvider, wait_for

HANGS = {"text": "Now I wait.", "delay_seconds": 3600}


async def test_a_background_task_is_started_listed_and_read(build: Any) -> None:
    root = await build()

    started = await root.call("task", prompt="Go.", background=True)
    result = await root.call("task_result", handle="task-1", wait_seconds=5)

    assert "task-1" in started.output
    assert (result.success, result.output) == (True, "Done.")
    assert (await root.call("task_status")).output.startswith("task-1: completed")


async def test_a_task_that_still_runs_says_so_and_goes_on(build: Any, says: Any) -> None:
    root = await build(agents={"slow": says(HANGS)})
    await root.call("task", prompt="Go.", agent="slow", background=True)

    result = await root.call("task_result", handle="task-1", wait_seconds=0.05)

    assert result.success
    assert "Still running. task-1 slow: running" in result.output


async def test_a_cancelled_task_gives_what_it_has(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    digger = says(asks("probe"), HANGS, tools=[{"module": "tool-probe"}])
    root = await build(agents={"digger": digger})
    await root.call("task", prompt="Dig.", agent="digger", background=True)
    assert await wait_for(lambda: probe.calls > 0, timeout=120)

    result = await root.call("task_cancel", handle="task-1")
    again = await root.call("task_cancel", handle="task-1")

    assert "The probe found 42." in result.output
    assert again.output == result.output
    assert root.told("finished")[0]["stop_reason"] == "cancelled"


async def test_a_background_task_ends_at_its_deadline_unasked(build: Any, says: Any) -> None:
    root = await build({"timeout_seconds": 0.1}, agents={"slow": says(HANGS)})

    await root.call("task", prompt="Go.", agent="slow", background=True)

    assert await wait_for(lambda: bool(root.told("finished")), timeout=120)
    assert root.told("finished")[0]["stop_reason"] == "deadline"


async def test_background_tasks_end_with_their_parent_while_its_guards_still_stand(
    build: Any, says: Any, plant: Any
) -> None:
    order: list[str] = []

    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        return lambda: order.append("guard gone") if coordinator.parent_id is None else None

    plant("hooks-guard", mount)
    root = await build(agents={"slow": says(HANGS)}, hooks=[{"module": "hooks-guard"}])

    async def note(event: str, data: dict[str, Any]) -> None:
        order.append(data["stop_reason"])

    root.coordinator.hooks.register("task:finished", note)
    await root.call("task", prompt="Go.", agent="slow", background=True)

    async with asyncio.timeout(120):
        await root.session.cleanup()

    assert order == ["parent_ended", "guard gone"]


async def test_no_task_is_started_when_the_session_has_ended(build: Any) -> None:
    root = await build()
    task = root.coordinator.get("tools", "task")
    await root.session.cleanup()

    result = await task.execute({"prompt": "Go."})

    assert "has ended" in result.output


async def test_the_model_hears_once_that_a_background_task_has_ended(
    build: Any, plant: Any
) -> None:
    model = MockProvider()

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("providers", model, name="other")

    plant("provider-other", mount)
    root = await build(providers=[{"module": "provider-other"}])
    await root.call("task", prompt="Go.", background=True)
    assert await wait_for(lambda: bool(root.told("finished")), timeout=120)
    model.complete.reset_mock()

    await root.session.execute("What now?")
    await root.session.execute("And now?")

    requests = [str(call.args[0].messages) for call in model.complete.call_args_list]
    assert ["task-1: completed" in request for request in requests] == [True, False]


async def test_an_unknown_handle_is_answered_with_the_known_ones(build: Any) -> None:
    root = await build()
    await root.call("task", prompt="Go.")

    for tool in ("task_status", "task_result", "task_cancel"):
        result = await root.call(tool, handle="task-9")
        assert not result.success
        assert "Known: task-1." in result.output
