"""`session.spawn` and `session.resume` in durable turns, as published tools call them."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest

from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.database.store import Turn
from amplifier_runtime.worker.worker import Worker, WorkerSettings

SLOW = {"text": "Now I wait.", "delay_seconds": 3600}


def says(*script: Any, **sections: Any) -> dict[str, Any]:
    """Return the part of a plan whose model plays `script` by what it has been answered so far."""
    config = {"steps": list(script)}
    return {"providers": [{"module": "provider-steps", "config": config}], **sections}


class Spawns:
    """A tool that does in one call what `work` is, with the capabilities of its session."""

    name = "spawns"
    description = "Has children."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, work: Any, effect: str | None) -> None:
        self.calls = 0
        self._work = work
        self._coordinator: Any = None
        if effect is not None:
            self.effect = effect

    async def mount(self, coordinator: Any, config: dict[str, Any]) -> None:
        # Children have the tool too; what it does here, it does for their parent.
        if coordinator.parent_id is None:
            self._coordinator = coordinator
        await coordinator.mount("tools", self)

    async def spawn(self, instruction: str, agent: str = "poet", **more: Any) -> dict[str, Any]:
        """Spawn with the keywords of published tools."""
        return await self._coordinator.get_capability("session.spawn")(
            agent_name=agent,
            instruction=instruction,
            parent_session=self._coordinator.session,
            agent_configs=self._coordinator.config.get("agents", {}),
            **{"sub_session_id": None, "session_metadata": {"agent_name": agent}, **more},
        )

    async def resume(self, session_id: str, instruction: str) -> dict[str, Any]:
        """Resume with the keywords of published tools."""
        resume = self._coordinator.get_capability("session.resume")
        return await resume(sub_session_id=session_id, instruction=instruction)

    async def execute(self, input: dict[str, Any]) -> str:
        self.calls += 1
        try:
            return str(await self._work(self))
        except (RuntimeError, ValueError, FileNotFoundError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"


class Stage:
    """A plan with the tool, and a worker that runs it."""

    def __init__(self, url: str, database: Database, patch: pytest.MonkeyPatch) -> None:
        self.client = Client(database, "t")
        self._database = database
        self._url = url
        self._patch = patch

    def worker(self, concurrency: int = 8) -> Worker:
        parts = [Children(look_seconds=0.05, grace_seconds=10.0)]
        return Worker(
            WorkerSettings(
                self._url,
                concurrency=concurrency,
                poll_seconds=0.02,
                drain_seconds=0.2,
                parts=parts,
            )
        )

    def plant(self, work: Any, effect: str | None = None) -> Spawns:
        tool = Spawns(work, effect)
        module = ModuleType("amplifier_module_tool_spawns")
        module.__dict__["mount"] = tool.mount
        self._patch.setitem(sys.modules, module.__name__, module)
        return tool

    async def run(self, *, concurrency: int = 8, session: str = "root", **sections: Any) -> Turn:
        """Run a turn that calls the tool once, and answers with its result."""
        call: dict[str, Any] = {"tool_calls": [{"id": "c1", "name": "spawns", "arguments": {}}]}
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "tools": [{"module": "tool-spawns"}],
            "agents": {"poet": says("Roses.", system={"instruction": "Rhyme."})},
            **says(call, "{0}"),
            **sections,
        }
        await self.client.create_session(session, plan)
        turn = await self.client.submit(session, "Start.", idempotency_key="k")
        async with self.worker(concurrency):
            async with asyncio.timeout(120):
                return await self.client.result(turn.turn_id)

    async def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        def read(connection: Any) -> list[dict[str, Any]]:
            return [dict(row) for row in all_of(connection, sql, **values)]

        return await self._database.run(read)


@pytest.fixture
def stage(url: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(url, database, monkeypatch)


async def test_a_tool_that_declares_nothing_waits_in_its_one_run_and_leaves_its_place_to_the_child(
    stage: Stage,
) -> None:
    async def work(tool: Spawns) -> str:
        wanted = "0000000000000000-1a2b3c4d5e6f7a8b_poet"
        return str(await tool.spawn("A verse.", sub_session_id=wanted, self_delegation_depth=0))

    tool = stage.plant(work)
    turn = await stage.run(concurrency=1)

    assert turn.answer is not None
    assert "'output': 'Roses.'" in turn.answer
    assert "'status': 'success'" in turn.answer
    assert "1a2b3c4d5e6f7a8b_poet" in turn.answer
    assert (tool.calls, turn.runs) == (1, 1)
    history = await stage.client.messages("0000000000000000-1a2b3c4d5e6f7a8b_poet")
    assert [each["content"] for each in history[:2]] == ["Rhyme.", "A verse."]
    [child] = await stage.rows("SELECT * FROM children")
    assert (child["depth"], child["told_depth"], child["agent"]) == (1, 0, "poet")


async def test_a_call_that_may_be_repeated_finds_each_of_its_children_again(stage: Stage) -> None:
    async def work(tool: Spawns) -> str:
        # As recipes do, one after the other; the ids that tools draw differ in every run.
        made = [
            await tool.spawn(each, sub_session_id=f"x-{tool.calls}-{each[0]}") for each in _ASKED
        ]
        return " ".join(each["output"] for each in made)

    tool = stage.plant(work, "idempotent")
    turn = await stage.run(concurrency=1)

    assert turn.answer == "Roses. Roses. Roses."
    assert tool.calls > 1
    ordered = await stage.rows("SELECT prompt FROM turns WHERE parent_turn_id = :t", t=turn.turn_id)
    assert sorted(each["prompt"] for each in ordered) == sorted(_ASKED)


_ASKED = ["One.", "Two.", "One."]


async def test_a_call_that_the_plan_calls_repeatable_is_parked_and_run_again(stage: Stage) -> None:
    async def work(tool: Spawns) -> str:
        made = [await tool.spawn(each) for each in _ASKED]
        return " ".join(each["output"] for each in made)

    tool = stage.plant(work)
    tools = [{"module": "tool-spawns", "repeatable": ["spawns"]}]
    turn = await stage.run(concurrency=1, tools=tools)

    assert turn.answer == "Roses. Roses. Roses."
    assert tool.calls > 1
    assert len(await stage.rows("SELECT 1 FROM children")) == len(_ASKED)


@pytest.mark.parametrize("effect", [None, "idempotent"])
async def test_a_child_that_is_resumed_has_a_further_turn_with_all_that_it_knew(
    stage: Stage, effect: str | None
) -> None:
    async def work(tool: Spawns) -> str:
        first = await tool.spawn("One.", sub_session_id="the-child")
        second = await tool.resume(first["session_id"], "Two.")
        third = await tool.resume(second["session_id"], "Two.")
        return f"{first['output']} {second['output']} {third['session_id']}"

    stage.plant(work, effect)
    turn = await stage.run(concurrency=1)

    assert turn.answer == "Roses. Roses. the-child"
    history = await stage.client.messages("the-child")
    asked = [each["content"] for each in history if each["role"] == "user"]
    assert asked == ["One.", "Two.", "Two."]
    assert len(await stage.client.turns("the-child")) == 3
    [tree] = await stage.rows("SELECT started FROM trees")
    assert tree["started"] == 1


async def test_nobody_resumes_a_session_that_is_not_its_own_child(
    stage: Stage, database: Database
) -> None:
    async def spawning(tool: Spawns) -> str:
        return (await tool.spawn("Secret.", sub_session_id="theirs"))["output"]

    stage.plant(spawning)
    await stage.run(session="first")
    await Client(database, "other").create_session("elsewhere", {"session": _PARTS})

    async def resuming(tool: Spawns) -> str:
        said: list[str] = []
        for session_id in ("theirs", "first", "elsewhere", "second", "none"):
            try:
                await tool.resume(session_id, "Tell me.")
            except FileNotFoundError as error:
                said.append(str(error))
        return " ".join(said)

    stage.plant(resuming)
    turn = await stage.run(session="second")

    assert turn.answer is not None
    assert turn.answer.count("This session has no child") == 5


_PARTS = {"orchestrator": "loop-basic", "context": "context-simple"}


async def test_a_child_whose_caller_gives_up_is_ended(stage: Stage) -> None:
    running = "SELECT 1 FROM children JOIN turns USING (turn_id) WHERE state = 'running'"

    async def work(tool: Spawns) -> str:
        spawning = asyncio.create_task(tool.spawn("Wait.", agent="slow"))
        while not await stage.rows(running):  # noqa: ASYNC110 - the database sets no events
            await asyncio.sleep(0.02)
        await asyncio.wait_for(spawning, timeout=0.01)
        raise AssertionError("a slow child has answered")

    stage.plant(work)
    # The child has the only slot, so its caller waits for it when it runs.
    turn = await stage.run(concurrency=1, agents={"slow": says(SLOW)})

    assert turn.answer is not None
    assert turn.answer.startswith("TimeoutError")
    [child] = await stage.rows("SELECT stop FROM children")
    assert child["stop"] == "cancelled"


async def test_limits_are_those_of_the_default_and_refuse_with_a_sentence(stage: Stage) -> None:
    async def work(tool: Spawns) -> str:
        asked = [tool.spawn(f"{n}", agent="slow") for n in range(9)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        [refused] = [each for each in done if "the most there may be" in str(each)]
        return f"{type(refused).__name__}: {refused}"

    stage.plant(work)
    turn = await stage.run(agents={"slow": says({"text": "Well.", "delay_seconds": 1})})

    assert turn.answer == (
        "RefusedError: 8 tasks are running, the most there may be. Wait for one to end."
    )


async def test_a_child_that_fails_is_an_error_of_the_call(stage: Stage) -> None:
    async def work(tool: Spawns) -> str:
        return str(await tool.spawn("Try."))

    stage.plant(work)
    turn = await stage.run(agents={"poet": {"session": {"orchestrator": "loop-nowhere"}}})

    assert turn.answer is not None
    assert turn.answer.startswith("IncompleteChildError: [task-1 is incomplete: error")
