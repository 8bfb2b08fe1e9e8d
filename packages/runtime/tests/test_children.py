"""Children as turns of their own, on a worker in this process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from amplifier_core.models import HookResult
from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of, execute
from amplifier_runtime.database.store import Turn
from amplifier_runtime.worker.worker import Worker, WorkerSettings

Plant = Callable[[str, Callable[..., Awaitable[Any]]], None]
SLOW = {"text": "Now I wait.", "delay_seconds": 3600}


def says(*script: Any, **sections: Any) -> dict[str, Any]:
    """Return the part of a plan whose model plays `script` by what it has been answered so far."""
    config = {"steps": list(script)}
    return {"providers": [{"module": "provider-steps", "config": config}], **sections}


def asks(tool: str, *, id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"id": id, "name": tool, "arguments": arguments}]}


def plan(*script: Any, config: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [{"module": "tool-task", "config": config or {}}],
        **says(*script),
        **sections,
    }


def worker(url: str, *, concurrency: int = 8, grace_seconds: float = 10.0) -> Worker:
    parts = [Children(look_seconds=0.05, grace_seconds=grace_seconds)]
    return Worker(
        WorkerSettings(
            url, concurrency=concurrency, poll_seconds=0.02, drain_seconds=0.2, parts=parts
        )
    )


async def submit(client: Client, given: dict[str, Any], session: str = "root") -> str:
    await client.create_session(session, given)
    turn = await client.submit(session, "Start.", idempotency_key="k")
    return turn.turn_id


async def finished(client: Client, turn_id: str, seconds: float = 120.0) -> Turn:
    async with asyncio.timeout(seconds):
        return await client.result(turn_id)


async def rows(database: Database, sql: str, **values: Any) -> list[dict[str, Any]]:
    return await database.run(lambda c: [dict(row) for row in all_of(c, sql, **values)])


async def until(database: Database, sql: str, **values: Any) -> None:
    """Wait until there is such a row."""
    async with asyncio.timeout(120):
        while not await rows(database, sql, **values):  # noqa: ASYNC110 - a worker sets no events
            await asyncio.sleep(0.02)


async def tool_results(client: Client, session: str = "root") -> list[str]:
    messages = await client.messages(session)
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    def add(module_id: str, mount: Callable[..., Awaitable[Any]]) -> None:
        module = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        module.__dict__["mount"] = mount
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return add


async def test_a_child_is_a_turn_of_its_own_and_its_parent_holds_no_place_meanwhile(
    url: str, database: Database
) -> None:
    agents = {"poet": says("Roses are red.", system={"instruction": "Rhyme."})}
    client = Client(database, "t")
    turn_id = await submit(
        client, plan(asks("task", prompt="A verse.", agent="poet"), "Here: {0}", agents=agents)
    )
    # One place: a parent that kept it while it waits would wait for ever.
    async with worker(url, concurrency=1):
        turn = await finished(client, turn_id)
    assert turn.answer == "Here: Roses are red."
    assert turn.runs == 2
    [child] = await rows(database, "SELECT * FROM turns WHERE parent_turn_id = :t", t=turn_id)
    assert (child["state"], child["answer"], child["tenant_id"]) == ("done", "Roses are red.", "t")
    history = await client.messages(child["session_id"])
    assert [(each["role"], each["content"]) for each in history[:2]] == [
        ("system", "Rhyme."),
        ("user", "A verse."),
    ]


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming"])
async def test_parallel_children_each_have_their_own_answer_and_wake_their_parent_once(
    url: str, database: Database, loop: str
) -> None:
    agents = {f"a{n}": says({"text": f"Answer {n}.", "delay_seconds": 0.2}) for n in range(4)}
    calls = [
        {"id": f"c{n}", "name": "task", "arguments": {"prompt": "Go.", "agent": f"a{n}"}}
        for n in range(4)
    ]
    given = plan({"tool_calls": calls}, "{0} {1} {2} {3}", agents=agents)
    given["session"]["orchestrator"] = loop
    client = Client(database, "t")
    turn_id = await submit(client, given)
    async with worker(url):
        turn = await finished(client, turn_id)
    assert turn.answer == "Answer 0. Answer 1. Answer 2. Answer 3."
    # Perhaps once more, when the first of them ends while the parent is being put aside.
    assert turn.runs in (2, 3)
    assert len(await rows(database, "SELECT 1 FROM children")) == 4


async def test_a_background_child_is_started_listed_told_of_and_read(
    url: str, database: Database
) -> None:
    agents = {"poet": says("Roses are red.")}
    script = [
        asks("task", prompt="A verse.", agent="poet", background=True),
        asks("task_result", id="c2", handle="task-1", wait_seconds=30),
        asks("task_status", id="c3"),
        "{1}",
    ]
    client = Client(database, "t")
    turn_id = await submit(client, plan(*script, agents=agents))
    async with worker(url):
        turn = await finished(client, turn_id)
    assert turn.answer == "Roses are red."
    results = await tool_results(client)
    assert "task-1 runs" in results[0]
    assert results[2].startswith("task-1 poet: completed")


async def test_a_wait_that_is_over_says_that_the_child_still_runs(
    url: str, database: Database
) -> None:
    script = [
        asks("task", prompt="Go.", agent="slow", background=True),
        asks("task_result", id="c2", handle="task-1", wait_seconds=0.3),
        asks("task_cancel", id="c3", handle="task-1"),
        "{1} | {2}",
    ]
    client = Client(database, "t")
    turn_id = await submit(client, plan(*script, agents={"slow": says(SLOW)}))
    async with worker(url):
        turn = await finished(client, turn_id)
    assert turn.answer is not None
    still, stopped = turn.answer.split(" | ")
    assert "Still running. task-1 slow" in still
    assert "task-1 is incomplete: cancelled" in stopped
    [child] = await rows(database, "SELECT stop_reason FROM children")
    assert child["stop_reason"] == "cancelled"


async def test_the_model_hears_of_a_background_child_that_ended_in_an_earlier_turn(
    url: str, database: Database
) -> None:
    agents = {"poet": says("Roses are red.")}
    script = [asks("task", prompt="A verse.", agent="poet", background=True), "Started."]
    client = Client(database, "t")
    async with worker(url):
        await finished(client, await submit(client, plan(*script, agents=agents)))
        await until(database, "SELECT 1 FROM children WHERE stop_reason IS NOT NULL")
        heard: list[str | None] = []
        for key in ("second", "third"):
            turn = await client.submit("root", "news?", idempotency_key=key)
            heard.append((await finished(client, turn.turn_id)).answer)
    assert heard[0] is not None
    assert "task-1 poet: completed" in heard[0]
    assert heard[1] == ""


async def test_a_child_ends_at_its_deadline_and_its_parent_reads_what_it_had(
    url: str, database: Database
) -> None:
    script = [asks("task", prompt="Go.", agent="slow", timeout_seconds=0.3), "{0}"]
    client = Client(database, "t")
    turn_id = await submit(client, plan(*script, agents={"slow": says(SLOW)}))
    async with worker(url):
        turn = await finished(client, turn_id)
    assert turn.answer is not None
    assert "task-1 is incomplete: deadline" in turn.answer


async def test_a_child_that_nobody_runs_ends_at_its_deadline_all_the_same(
    url: str, database: Database
) -> None:
    script = [asks("task", prompt="Go.", agent="slow", timeout_seconds=0.3), "{0}"]
    given = plan(*script, agents={"slow": {**says(SLOW), "tools": []}})
    client = Client(database, "t")
    turn_id = await submit(client, given)
    async with worker(url):
        await until(database, "SELECT 1 FROM children")
        # As after too many crashes: it waits for an operator.
        sql = (
            "UPDATE turns SET state = 'parked', reason = 'crashed', worker_id = NULL "
            "WHERE parent_turn_id = :t"
        )
        await database.run(lambda c: execute(c, sql, t=turn_id))
        turn = await finished(client, turn_id)
    assert turn.answer is not None
    assert "deadline" in turn.answer


async def test_a_child_that_does_not_stop_is_cut_off_and_its_parent_goes_on(
    url: str, database: Database, plant: Plant
) -> None:
    release = asyncio.Event()

    class Deaf:
        async def execute(self, **given: Any) -> str:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("orchestrator", Deaf())

    plant("loop-deaf", mount)
    agents = {"deaf": {"session": {"orchestrator": "loop-deaf"}}}
    script = [asks("task", prompt="Go.", agent="deaf", timeout_seconds=0.1), "{0}"]
    client = Client(database, "t")
    turn_id = await submit(client, plan(*script, agents=agents))
    async with worker(url, grace_seconds=0.5):
        turn = await finished(client, turn_id)
        release.set()
    assert turn.answer is not None
    assert "deadline" in turn.answer
    [child] = await rows(database, "SELECT state, answer FROM turns WHERE parent_turn_id <> ''")
    assert (child["state"], child["answer"]) == ("cancelled", None)


async def test_a_child_that_fails_says_why(url: str, database: Database) -> None:
    agents = {"broken": {"session": {"orchestrator": "no-such"}}}
    client = Client(database, "t")
    turn_id = await submit(
        client, plan(asks("task", prompt="Go.", agent="broken"), "{0}", agents=agents)
    )
    async with worker(url):
        turn = await finished(client, turn_id)
    assert turn.answer is not None
    assert "error" in turn.answer
    assert "no-such" in turn.answer


async def test_depth_breadth_and_total_hold_for_the_whole_tree(
    url: str, database: Database
) -> None:
    both = {
        "tool_calls": [
            {"id": f"c{n}", "name": "task", "arguments": {"prompt": "Go."}} for n in range(2)
        ]
    }
    config = {"max_depth": 2, "max_total": 5}
    client = Client(database, "t")
    turn_id = await submit(client, plan(both, "Done.", config=config))
    async with worker(url):
        await finished(client, turn_id, 30)
    children = await rows(database, "SELECT depth, parent_session_id FROM children")
    assert len(children) == 5
    assert sorted(each["depth"] for each in children) == [1, 1, 2, 2, 2]
    trees = await rows(database, "SELECT started FROM trees")
    assert trees == [{"started": 5}]


async def test_no_more_children_run_at_once_than_allowed(url: str, database: Database) -> None:
    wide = {"module": "tool-task", "config": {"max_children": 9}}
    agents = {"slow": says(SLOW), "wide": {"tools": [wide]}}
    calls = [
        asks("task", id=f"c{n}", prompt="Go.", agent="slow", background=True) for n in range(3)
    ]
    client = Client(database, "t")
    turn_id = await submit(client, plan(*calls, "{2}", config={"max_children": 2}, agents=agents))
    async with worker(url):
        turn = await finished(client, turn_id)
        assert turn.answer is not None
        assert "2 tasks are running" in turn.answer


@pytest.mark.attack("V4")
async def test_a_guard_of_the_root_denies_in_a_grandchild_whatever_the_agents_plans_say(
    url: str, database: Database, plant: Plant
) -> None:
    seen: list[str] = []

    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        async def guard(event: str, data: dict[str, Any]) -> HookResult:
            if data.get("tool_name") == "task_status" and config.get("strict"):
                seen.append(coordinator.session_state.get("note", ""))
                return HookResult(action="deny", reason="the root forbids it")
            return HookResult()

        if config.get("strict"):
            coordinator.session_state["note"] = coordinator.session_id
        return coordinator.hooks.register("tool:pre", guard, name="guard", on_error="deny")

    plant("hooks-guard", mount)
    weaker = {"hooks": [{"module": "hooks-guard", "config": {"strict": False}}]}
    agents = {
        "child": says(asks("task", prompt="Go.", agent="grandchild"), "{0}", **weaker),
        "grandchild": says(asks("task_status"), "{0}", **weaker),
    }
    hooks = [{"module": "hooks-guard", "config": {"strict": True}}]
    client = Client(database, "t")
    turn_id = await submit(
        client, plan(asks("task", prompt="Go.", agent="child"), "{0}", agents=agents, hooks=hooks)
    )
    async with worker(url):
        turn = await finished(client, turn_id)
        assert turn.answer == "Denied by hook: the root forbids it"
        # Nor does it help to ask the grandchild directly.
        [grandchild] = await rows(database, "SELECT session_id FROM children WHERE depth = 2")
        again = await client.submit(grandchild["session_id"], "Again.", idempotency_key="x")
        assert (await finished(client, again.turn_id)).answer == turn.answer
    assert seen == ["root", "root"]


async def test_cancelling_a_parent_in_the_database_ends_its_children(
    url: str, database: Database
) -> None:
    client = Client(database, "t")
    given = plan(asks("task", prompt="Go.", agent="slow"), "{0}", agents={"slow": says(SLOW)})
    turn_id = await submit(client, given)
    parked = "SELECT 1 FROM turns WHERE turn_id = :t AND state = 'parked' AND reason = 'child'"
    async with worker(url):
        await until(database, parked, t=turn_id)
        sql = "UPDATE turns SET state = 'cancelled' WHERE turn_id = :t"
        await database.run(lambda c: execute(c, sql, t=turn_id))
        await until(database, "SELECT 1 FROM children WHERE stop_reason = 'cancelled'")
    [child] = await rows(database, "SELECT state FROM turns WHERE parent_turn_id = :t", t=turn_id)
    assert child["state"] == "cancelled"


class Editor:
    """A tool that has agents write: two with tasks of their own, and one of them once more."""

    name = "edit"
    description = "Has agents write."
    effect = "idempotent"

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> str:
        spawn = self._coordinator.get_capability("agents.spawn")
        return " ".join([await spawn("poet", task) for task in ("One.", "Two.", "One.")])


async def test_each_agent_that_one_call_spawns_is_a_child_of_its_own(
    url: str, database: Database, plant: Plant
) -> None:
    """The tool runs again from its start whenever one of them has ended, and finds them all."""

    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", Editor(coordinator))

    plant("tool-editor", mount)
    tools = [{"module": "tool-task"}, {"module": "tool-editor"}]
    client = Client(database, "t")
    turn_id = await submit(
        client, plan(asks("edit"), "{0}", tools=tools, agents={"poet": says("Roses.")})
    )

    async with worker(url):
        turn = await finished(client, turn_id)

    assert turn.answer == "Roses. Roses. Roses."
    ordered = await rows(database, "SELECT prompt FROM turns WHERE parent_turn_id = :t", t=turn_id)
    assert sorted(each["prompt"] for each in ordered) == ["One.", "One.", "Two."]
