"""Whoever reads the log of a session learns of its questions and of what became of them, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from event_stage import all_entries
from runtime_stage import Stage, Trace, TracedTool, plan_with
from signals_stage import AskUser, Hold, Scene

from amplifier_core.models import ToolResult
from amplifier_runtime.database.database import Database
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun


async def test_a_question_and_its_answer_are_in_the_log_once_whatever_runs_it_takes(
    database: Database, url: str, tmp_path: Path
) -> None:
    scene, reader = Scene(database, url, tmp_path), LogReader(database)
    parts = (SessionLog(database), Stage(scene.trace), AskUser("pay"))
    async with scene.worker(*parts):
        turn = await scene.submit(plan_with("loop-basic"))
        await scene.until_state(turn, "parked")
    # Handed over before anybody answers: the next run finds the question where it was put.
    async with scene.worker(*parts):
        [approval] = await scene.asked()
        [asked] = [each for each in await all_entries(reader, "s") if each.name == "approval.asked"]
        assert asked.data == {
            "approval_id": approval.approval_id,
            "tool_call_id": "call_2",
            "prompt": "Go on?",
            "options": approval.options,
            "default": "deny",
            "expires_at": approval.expires_at,
        }
        await scene.signals.answer(approval.approval_id, "Allow", by="ann")
        await scene.result(turn)
    entries = [
        each
        for each in await all_entries(reader, "s")
        if each.name in ("approval.asked", "approval")
    ]
    assert [each.name for each in entries] == ["approval.asked", "approval"]
    assert entries[1].data["approval_id"] == approval.approval_id
    assert (entries[1].data["decision"], entries[1].data["by"]) == ("Allow", "ann")


class AskingTool(TracedTool):
    """Asks two questions, and is held between them."""

    def __init__(self, run: TurnRun, hold: Hold) -> None:
        super().__init__("pay", "idempotent", Trace(Path()), "s")
        self._run = run
        self._hold = hold

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        await self._ask("First?")
        await self._hold("between")
        await self._ask("Second?")
        return ToolResult(output="receipt")

    async def _ask(self, prompt: str) -> None:
        system = self._run.session.coordinator.approval_system
        assert system is not None
        await system.request_approval(prompt, ["Allow", "Deny"], 1_000.0, "deny")


class AskTwice(TurnPart):
    """Mounts it in place of the tool that pays."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    async def attach(self, run: TurnRun) -> None:
        coordinator = run.session.coordinator
        await coordinator.unmount("tools", "pay")
        await coordinator.mount("tools", AskingTool(run, self._hold), name="pay")


async def test_each_question_of_one_call_is_in_the_log_though_its_worker_left_between_them(
    database: Database, url: str, tmp_path: Path
) -> None:
    scene, reader, hold = Scene(database, url, tmp_path), LogReader(database), Hold("between")
    parts = (SessionLog(database), Stage(scene.trace), AskTwice(hold))
    async with scene.worker(*parts, drain_seconds=0.0):
        turn = await scene.submit(plan_with("loop-basic"))
        [first] = await scene.asked()
        await scene.signals.answer(first.approval_id, "Allow", by="ann")
        async with asyncio.timeout(120):
            await hold.reached.wait()
    hold.opened.set()
    async with scene.worker(*parts):
        [second] = await scene.asked()
        await scene.signals.answer(second.approval_id, "Allow", by="ann")
        await scene.result(turn)
    entries = [
        each
        for each in await all_entries(reader, "s")
        if each.name in ("approval.asked", "approval")
    ]
    assert [(each.name, each.data["approval_id"]) for each in entries] == [
        ("approval.asked", first.approval_id),
        ("approval", first.approval_id),
        ("approval.asked", second.approval_id),
        ("approval", second.approval_id),
    ]
