"""Tests of children that their parent waits for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.testing import MockProvider, wait_for

HANGS = {"text": "Now I wait.", "delay_seconds": 3600}


async def test_the_answer_of_an_agent_is_the_result(build: Any) -> None:
    root = await build(agents={"poet": {"description": "Writes verses."}})

    result = await root.call("task", prompt="A verse, please.", agent="poet")

    assert (result.success, result.output) == (True, "Done.")
    assert "- poet: Writes verses." in root.coordinator.get("tools", "task").description


async def test_an_agent_is_told_its_instruction_and_knows_nothing_else(
    build: Any, plant: Any
) -> None:
    model = MockProvider()

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("providers", model, name="other")

    plant("provider-other", mount)
    poet = {"providers": [{"module": "provider-other"}], "system": {"instruction": "Rhyme."}}
    root = await build(agents={"poet": poet})

    await root.call("task", prompt="A verse.", agent="poet")

    request = model.complete.call_args.args[0]
    assert [(each.role, each.content) for each in request.messages] == [
        ("system", "Rhyme."),
        ("user", "A verse."),
    ]


async def test_an_unknown_agent_is_refused_with_the_known_ones(build: Any) -> None:
    root = await build(agents={"poet": {}})

    result = await root.call("task", prompt="Go.", agent="pilot")

    assert not result.success
    assert "Known: poet." in result.output
    assert root.told("started") == []


async def test_a_hung_child_returns_its_partial_work_at_its_deadline(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    digger = says(asks("probe"), HANGS, tools=[{"module": "tool-probe"}])
    root = await build(agents={"digger": digger})

    result = await root.call("task", prompt="Dig.", agent="digger", timeout_seconds=0.2)

    assert not result.success
    assert result.error["stop_reason"] == "deadline"
    assert "I call probe." in result.output
    assert "- probe: The probe found 42." in result.output
    assert root.told("finished")[0]["stop_reason"] == "deadline"
    assert any("did not come to its end" in line for line in root.screen.lines)


@pytest.mark.parametrize("phase", ["turn", "mount"])
async def test_a_child_that_does_not_stop_is_left_behind_at_its_deadline(
    build: Any, deaf: Any, plant: Any, phase: str
) -> None:
    async def wait_in_mount(coordinator: Any, config: dict[str, Any]) -> None:
        await deaf.execute(hooks=coordinator.hooks)

    plant("hooks-deaf", wait_in_mount)
    loop = {"session": {"orchestrator": {"module": "loop-deaf"}}}
    agent = loop if phase == "turn" else {"hooks": [{"module": "hooks-deaf"}]}
    root = await build(agents={"deaf": agent})

    result = await root.call("task", prompt="Go.", agent="deaf", timeout_seconds=0.1)

    assert result.error["stop_reason"] == "deadline"
    assert len(root.told("abandoned")) == 1
    assert any("it is abandoned" in line for line in root.screen.lines)
    deaf.release.set()


@pytest.mark.attack("V4")
async def test_a_child_that_was_left_behind_gets_no_further_call(build: Any, deaf: Any) -> None:
    root = await build(agents={"deaf": {"session": {"orchestrator": {"module": "loop-deaf"}}}})
    await root.call("task", prompt="Go.", agent="deaf", timeout_seconds=0.1)

    deaf.release.set()
    async with asyncio.timeout(120):
        late = [await deaf.answers.get() for _ in range(2)]

    assert [answer.action for answer in late] == ["deny", "deny"]
    assert "stopped" in late[0].reason


async def test_the_hold_on_a_child_denies_when_it_fails(build: Any, deaf: Any) -> None:
    root = await build(agents={"deaf": {"session": {"orchestrator": {"module": "loop-deaf"}}}})
    deaf.release.set()

    await root.call("task", prompt="Go.", agent="deaf")

    sound, broken = deaf.answers.get_nowait(), deaf.answers.get_nowait()
    assert (sound.action, broken.action) == ("continue", "deny")


async def test_a_child_that_waits_while_mounting_ends_at_its_deadline(
    build: Any, plant: Any
) -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    plant("tool-late", mount)
    root = await build(agents={"late": {"tools": [{"module": "tool-late"}]}})

    result = await root.call("task", prompt="Go.", agent="late", timeout_seconds=0.1)

    assert result.error["stop_reason"] == "deadline"
    assert root.told("abandoned") == []


async def test_a_child_that_fails_says_why_and_what_it_had(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    failing = says(
        asks("probe"), {"error": "AuthenticationError"}, tools=[{"module": "tool-probe"}]
    )
    root = await build(agents={"failing": failing})

    result = await root.call("task", prompt="Go.", agent="failing")

    assert result.error["stop_reason"] == "error"
    assert "scripted failure" in result.output
    assert "The probe found 42." in result.output
    assert len(root.told("failed")) == 1
    assert any("error" in line for line in root.screen.lines)


async def test_a_child_that_does_not_mount_says_why(build: Any) -> None:
    root = await build(agents={"broken": {"session": {"orchestrator": {"module": "no-such"}}}})

    result = await root.call("task", prompt="Go.", agent="broken")

    assert not result.success
    assert "no-such" in result.output


async def test_a_turn_that_its_limit_ended_is_marked_as_incomplete(
    build: Any, asks: Any, says: Any, probe: Any
) -> None:
    loop = {"module": "loop-basic", "config": {"max_iterations": 1}}
    short = says(asks("probe"), tools=[{"module": "tool-probe"}], session={"orchestrator": loop})
    root = await build(agents={"short": short})

    result = await root.call("task", prompt="Go.", agent="short")

    assert result.error["stop_reason"] == "limit"


async def test_a_cancelled_call_ends_its_child(build: Any, says: Any) -> None:
    root = await build(agents={"slow": says(HANGS)})
    call = asyncio.create_task(root.call("task", prompt="Go.", agent="slow"))
    assert await wait_for(lambda: bool(root.told("started")), timeout=120)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert root.told("finished")[0]["stop_reason"] == "interrupted"
    assert "interrupted" in (await root.call("task_status")).output


async def test_cancelling_the_root_at_once_ends_the_child_of_a_running_turn(
    build: Any, asks: Any, says: Any
) -> None:
    agents = {"slow": says(HANGS)}
    root = await build(**says(asks("task", prompt="Go.", agent="slow")), agents=agents)
    turn = asyncio.create_task(root.session.execute("Start."))
    assert await wait_for(lambda: bool(root.told("started")), timeout=120)

    await root.coordinator.request_cancel(immediate=True)
    async with asyncio.timeout(120):
        await turn

    assert await wait_for(lambda: bool(root.told("finished")), timeout=120)
    assert root.told("finished")[0]["stop_reason"] in ("cancelled", "interrupted")


async def test_an_answer_survives_a_cleanup_that_hangs(
    build: Any, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        return asyncio.Event().wait

    monkeypatch.setattr("amplifier_kit.children.child._CLEANUP_SECONDS", 0.1)
    plant("tool-late", mount)
    root = await build(
        {"heartbeat_seconds": 0.1}, agents={"late": {"tools": [{"module": "tool-late"}]}}
    )

    result = await root.call("task", prompt="Go.", agent="late")

    assert (result.success, result.output) == (True, "Done.")


async def test_a_history_that_cannot_be_read_is_no_reason_to_wait(build: Any, plant: Any) -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        coordinator.register_contributor("session.cost", "late", asyncio.Event().wait)
        await asyncio.Event().wait()

    plant("hooks-late", mount)
    root = await build(agents={"late": {"hooks": [{"module": "hooks-late"}]}})

    result = await root.call("task", prompt="Go.", agent="late", timeout_seconds=0.1)

    assert result.error["stop_reason"] == "deadline"
    assert root.told("finished")[0]["cost_usd"] is None


async def test_many_children_at_once_each_have_their_own_answer(build: Any, says: Any) -> None:
    agents = {f"agent-{n}": says(f"Answer {n}.") for n in range(8)}
    root = await build(agents=agents)

    calls = (root.call("task", prompt="Go.", agent=name) for name in agents)
    results = await asyncio.gather(*calls)

    assert [result.output for result in results] == [f"Answer {n}." for n in range(8)]
