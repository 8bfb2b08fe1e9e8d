"""Whoever reads the log of a session learns of its questions and of what became of them, once."""

from __future__ import annotations

from pathlib import Path

from event_stage import all_entries
from runtime_stage import Stage, plan_with
from signals_stage import AskUser, Scene

from amplifier_runtime.asking import ANSWERED, ASKED
from amplifier_runtime.database import Database
from amplifier_runtime.event_reading import LogReader
from amplifier_runtime.events import EventLog


async def test_a_question_and_its_answer_are_in_the_log_once_whatever_runs_it_takes(
    database: Database, url: str, tmp_path: Path
) -> None:
    scene, reader = Scene(database, url, tmp_path), LogReader(database)
    parts = (EventLog(database), Stage(scene.trace), AskUser("pay"))
    async with scene.worker(*parts):
        turn = await scene.submit(plan_with("loop-basic"))
        await scene.until_state(turn, "parked")
    # Handed over before anybody answers: the next run finds the question where it was put.
    async with scene.worker(*parts):
        [approval] = await scene.asked()
        [asked] = [each for each in await all_entries(reader, "s") if each.name == ASKED]
        assert asked.data == {
            "approval_id": approval.approval_id,
            "prompt": "Go on?",
            "options": approval.options,
            "expires_at": approval.expires_at,
        }
        await scene.signals.answer(approval.approval_id, "Allow", by="ann")
        await scene.result(turn)
    entries = [each for each in await all_entries(reader, "s") if each.name in (ASKED, ANSWERED)]
    assert [each.name for each in entries] == [ASKED, ANSWERED]
    assert entries[1].data == {
        "approval_id": approval.approval_id,
        "state": "answered",
        "answer": "Allow",
        "answered_by": "ann",
    }
