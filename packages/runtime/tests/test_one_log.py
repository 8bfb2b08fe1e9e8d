"""One log: a session in files and a durable one are recorded alike, and both replay."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from runtime_stage import until
from signals_stage import Scene

from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.store import SessionStore
from amplifier_journal.log import LogReader
from amplifier_journal.records import Record
from amplifier_journal.replay.replayer import replay
from amplifier_runtime.children.children import Children
from amplifier_runtime.database.database import Database
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.log.stored import read_log

LOOPS = ["loop-basic", "loop-streaming"]
# Of the process that runs a turn, which is another one in each way.
_OF_THE_PROCESS = {
    "session:start",
    "session:resume",
    "session:end",
    "session:config",
    "session:fork",
}
_OF_CRASHES = {"turn:resumed", "log.superseded"}
# Ids and times, and what only one of the two has to do with.
_LEFT_OUT = {
    "approval_id", "approvals", "at", "by", "display", "duration_ms", "expires_at", "folder",
    "opening", "plan", "config_digest", "prompt_id", "request_id", "resumed", "seconds",
    "working_dir", "hooks", "of", "same", "child_session_id", "session_id", "parent_id", "digest",
    "then",
}  # fmt: skip
_CALL = re.compile(r"\d+\.[0-9a-f]{12}|\d+\.\d+")


def alike(records: Iterable[Record]) -> list[tuple[str, Any]]:
    """Return what two logs of the same session have in common."""
    names: dict[str, str] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {key: plain(each) for key, each in items if key not in _LEFT_OUT}
        if isinstance(value, list):
            return [plain(each) for each in cast("list[Any]", value)]
        if isinstance(value, str) and _CALL.fullmatch(value):
            return names.setdefault(value, f"call {len(names) + 1}")
        return value

    found: list[tuple[str, Any]] = []
    for record in records:
        name = record.data.get("name", "") if record.kind == "event" else record.kind
        if name not in _OF_THE_PROCESS | _OF_CRASHES:
            found.append((name, plain(record.data)))
    return found


def in_any_order(found: list[tuple[str, Any]]) -> list[str]:
    """Return the same for turns whose parallel calls may end in another order."""
    return sorted(name for name, _ in found)


class Yes:
    """A user who allows everything."""

    async def request_approval(self, prompt: str, options: list[str], *_: Any) -> str:
        return options[0]


async def in_files(
    plan: dict[str, Any],
    folder: Path,
    prompts: list[str],
    during: Callable[[LiveSession], Awaitable[None]] | None = None,
) -> tuple[LogReader, SessionStore]:
    store = SessionStore(folder / "home")
    async with open_live(
        plan, store=store, project=folder, session_id="s", approval_system=Yes()
    ) as live:
        for prompt in prompts:
            running = asyncio.create_task(live.execute(prompt))
            if during is not None:
                await during(live)
            await running
    return store.read("s"), store


async def durable(
    scene: Scene,
    plan: dict[str, Any],
    prompts: list[str],
    during: Callable[[Scene], Awaitable[None]] | None = None,
) -> LogReader:
    log = SessionLog(scene.database)
    await scene.client.create_session("s", plan)
    async with scene.worker(log, Children(look_seconds=0.05)), asyncio.timeout(120):
        for number, prompt in enumerate(prompts):
            turn = await scene.client.submit("s", prompt, idempotency_key=str(number))
            if during is not None:
                await during(scene)
            await scene.result(turn)
    await log.aclose()
    return await read_log(scene.database, "t", "s")


def held_plan(loop: str, folder: Path, **config: Any) -> dict[str, Any]:
    return {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [{"module": "provider-held", "config": {"folder": str(folder), **config}}],
    }


async def check(files: LogReader, stored: LogReader, *, exact: bool = True) -> None:
    """Compare the two, and replay each."""
    ours, theirs = alike(files.records()), alike(stored.records())
    if exact:
        assert theirs == ours
    assert in_any_order(theirs) == in_any_order(ours)
    for log in (files, stored):
        result = await replay(log)
        assert not result.differences, str(result)


@pytest.fixture
def scene(database: Database, url: str, tmp_path: Path) -> Scene:
    return Scene(database, url, tmp_path)


@pytest.mark.parametrize("loop", LOOPS)
async def test_turns_with_parallel_tools(scene: Scene, tmp_path: Path, loop: str) -> None:
    plan = held_plan(loop, tmp_path)
    files, _ = await in_files(plan, tmp_path, ["buy", "buy more"])
    stored = await durable(scene, plan, ["buy", "buy more"])
    await check(files, stored, exact=False)


async def test_an_answer_that_is_streamed(scene: Scene, tmp_path: Path) -> None:
    plan = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [
            {"module": "provider-mock", "config": {"mode": "echo", "stream": True}},
        ],
    }
    files, _ = await in_files(plan, tmp_path, ["Hello.", "Again."])
    stored = await durable(scene, plan, ["Hello.", "Again."])
    await check(files, stored)


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_turn_that_waits_for_an_approval(scene: Scene, tmp_path: Path, loop: str) -> None:
    rules = {"grants_file": str(tmp_path / "grants"), "rules": [{"tool": "pay", "action": "ask"}]}
    hooks = [{"module": "hooks-approval", "config": rules}]
    plan = {**held_plan(loop, tmp_path), "hooks": hooks}
    files, _ = await in_files(plan, tmp_path, ["buy"])

    async def answer(scene: Scene) -> None:
        [approval] = await scene.asked()
        turns = await scene.client.turns("s")
        await scene.until_state(turns[0], "parked")
        await scene.signals.answer(approval.approval_id, approval.options[0], by="ann")

    stored = await durable(scene, plan, ["buy"], answer)
    asked = [each for each in stored.records() if each.kind.startswith("approval")]
    assert [each.kind for each in asked] == ["approval.asked", "approval"]
    assert asked[1].data["by"] == "ann"
    await check(files, stored, exact=False)


async def test_a_turn_that_is_steered(scene: Scene, tmp_path: Path) -> None:
    plan = held_plan("loop-streaming", tmp_path, hold_at="model 0")
    release = tmp_path / "release"

    async def steer(live: LiveSession) -> None:
        await until(lambda: scene.trace.lines("reached s model 0"))
        live.session.coordinator.get_capability("session.steer")("and cheap")
        release.touch()

    files, _ = await in_files(plan, tmp_path, ["buy"], steer)
    release.unlink()

    async def signal(scene: Scene) -> None:
        await until(lambda: len(scene.trace.lines("reached s model 0")) > 2)
        await scene.signals.steer("s", "and cheap")
        await scene.watch.look()
        release.touch()

    stored = await durable(scene, plan, ["buy"], signal)
    await check(files, stored, exact=False)


async def test_a_session_with_children(scene: Scene, tmp_path: Path) -> None:
    call = {
        "id": "call_1",
        "name": "task",
        "arguments": {"agent": "helper", "prompt": "Look."},
    }
    steps = {"steps": [{"tool_calls": [call]}, "{0}"], "by_prompt": {"Look.": ["I looked."]}}
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-steps", "config": steps}],
        "tools": [{"module": "tool-task"}],
        "agents": {"helper": {"description": "Looks."}},
    }
    files, store = await in_files(plan, tmp_path, ["Go."])
    stored = await durable(scene, plan, ["Go."])
    await check(files, stored, exact=False)
    [in_file], [in_database] = (
        [each.data["session_id"] for each in log.records() if each.kind == "child"]
        for log in (files, stored)
    )
    child = await read_log(scene.database, "t", in_database)
    await check(store.read(in_file), child, exact=False)
