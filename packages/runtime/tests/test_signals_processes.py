"""Signals and workers in processes of their own: killed while turns wait, and many that wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from runtime_stage import plan_with, until
from signals_program import main
from signals_stage import Scene
from warm_workers import WarmWorker

from amplifier_runtime.database.database import Database, one_of

logger = logging.getLogger(__name__)

Start = Callable[..., WarmWorker]

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(database: Database, url: str, tmp_path: Path) -> Scene:
    return Scene(database, url, tmp_path)


@pytest.fixture
def start(scene: Scene, tmp_path: Path) -> Generator[Start]:
    workers: list[WarmWorker] = []

    def begin(*arguments: str) -> WarmWorker:
        workers.append(WarmWorker(main, scene.url, tmp_path, *arguments))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()


async def test_an_answer_given_while_no_worker_lives_is_acted_on_by_the_next(
    scene: Scene, start: Start
) -> None:
    worker = start("first")
    turn = await scene.submit(plan_with("loop-streaming"))
    await scene.until_state(turn, "parked")
    worker.kill()
    (approval,) = await scene.signals.approvals("s")
    await scene.signals.answer(approval.approval_id, "Allow", by="ann")
    start("second")
    finished = await scene.result(turn)
    assert (finished.answer, finished.runs, finished.crashes) == ("price 42, paid", 2, 0)
    assert sorted(scene.trace.lines("effect")) == ["effect pay s", "effect price s"]
    assert scene.trace.lines("model") == ["model s 0", "model s 2"]


@pytest.mark.parametrize(
    "place", ["before approval:", "after approval:", "before llm:2", "after llm:2"]
)
async def test_a_worker_killed_around_an_approval_neither_asks_nor_pays_again(
    scene: Scene, start: Start, place: str
) -> None:
    worker = start("first", place)
    turn = await scene.submit(plan_with("loop-basic"))
    (approval,) = await scene.asked()
    await scene.signals.answer(approval.approval_id, "Allow", by="ann")
    await until(lambda: worker.exit_code is not None)
    assert worker.exit_code == 137
    start("second")
    finished = await scene.result(turn)
    assert (finished.answer, finished.crashes) == ("price 42, paid", 1)
    assert len(scene.trace.lines("effect pay")) == 1
    assert len(scene.trace.lines("model s 0")) == 1
    assert await scene.signals.approvals("s") == []


async def test_a_turn_whose_worker_died_is_cancelled_by_the_next_with_what_it_did(
    scene: Scene, start: Start
) -> None:
    worker = start("first", "model 2")
    turn = await scene.submit(plan_with("loop-basic"))
    (approval,) = await scene.asked()
    await scene.signals.answer(approval.approval_id, "Allow", by="ann")
    await until(lambda: scene.trace.lines("first model 2"))
    worker.kill()
    await scene.signals.cancel(turn.turn_id)
    start("second")
    assert (await scene.result(turn)).state == "cancelled"
    history = await scene.client.messages("s")
    assert [message["content"] for message in history[2:]] == ["42", "receipt"]
    assert scene.trace.lines("second model") == []


# It is the same worker that waits for either, and SQLite takes twice as long to be written.
@pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)
async def test_a_thousand_parked_turns_cost_their_worker_nothing(
    scene: Scene, start: Start
) -> None:
    worker = start("only")
    await _park(scene, 0, 200)
    before = _resident(worker)
    await _park(scene, 200, 1_200)
    after = _resident(worker)
    began = time.monotonic()
    questions = await scene.signals.approvals(limit=2_000)
    assert len(questions) == 1_200
    for question in questions:
        await scene.signals.answer(question.approval_id, "Allow", by="ann")
    answered = time.monotonic() - began
    await _until_count(scene, "done", 1_200)
    figures = {
        "KiB before": before,
        "KiB after 1,000 more": after,
        "seconds to answer 1,200": round(answered, 1),
        "seconds until all were done": round(time.monotonic() - began, 1),
    }
    logger.info("parked turns: %s", figures)
    # A thousand turns that wait in memory, as coroutines, take more than 20,000 KiB.
    assert after - before < 10_000, figures
    assert len(scene.trace.lines("effect pay")) == 1_200
    assert len(set(scene.trace.lines("model"))) == len(scene.trace.lines("model")) == 2_400


async def _park(scene: Scene, first: int, last: int) -> None:
    for number in range(first, last):
        await scene.client.create_session(f"s{number}", plan_with("loop-basic"))
        await scene.client.submit(f"s{number}", "buy", idempotency_key="k")
    await _until_count(scene, "parked", last)


async def _until_count(scene: Scene, state: str, count: int) -> None:
    sql = "SELECT COUNT(*) AS many FROM turns WHERE state = :state"
    async with asyncio.timeout(250):
        while True:
            row = await scene.database.run(lambda c: one_of(c, sql, state=state))
            if row is not None and row["many"] == count:
                return
            await asyncio.sleep(0.1)


def _resident(worker: WarmWorker) -> int:
    """Return the KiB that a process holds."""
    status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
