"""Cancelling turns in every state they can be in, with all that is below them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runtime_stage import Stage, plan_with
from signals_stage import Hold, Scene

from amplifier_core.session import AmplifierSession
from amplifier_runtime.database.database import Database
from amplifier_runtime.turns.claims import Claim
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun


@pytest.fixture
def scene(database: Database, url: str, tmp_path: Path) -> Scene:
    return Scene(database, url, tmp_path)


async def test_a_turn_that_never_ran_is_cancelled_without_a_worker(scene: Scene) -> None:
    first = await scene.submit(plan_with("loop-basic"))
    second = await scene.client.submit("s", "again", idempotency_key="k2")
    third = await scene.client.submit("s", "more", idempotency_key="k3")
    assert (await scene.signals.cancel(second.turn_id)).state == "cancelled"
    assert (await scene.client.turn(first.turn_id)).state == "ready"
    assert (await scene.signals.cancel(first.turn_id)).state == "cancelled"
    assert (await scene.client.turn(third.turn_id)).state == "ready"


async def test_a_finished_turn_stays_as_it_is(scene: Scene) -> None:
    async with scene.worker(Stage(scene.trace)):
        turn = await scene.submit(plan_with("loop-basic"))
        await scene.result(turn)
        assert (await scene.signals.cancel(turn.turn_id, immediate=True)).state == "done"


async def test_a_running_turn_finishes_its_step_when_it_is_asked_to_stop(scene: Scene) -> None:
    hold = Hold("begin pay")
    async with scene.worker(Stage(scene.trace, hold)) as worker:
        turn = await scene.submit(plan_with("loop-basic"))
        await hold.reached.wait()
        await scene.signals.cancel(turn.turn_id)
        token = worker.runner.runs[turn.turn_id].session.coordinator.cancellation
        await scene.watch.look()
        assert token.is_graceful
        hold.opened.set()
        assert (await scene.result(turn)).state == "cancelled"
    assert scene.trace.lines("effect pay") == ["effect pay s"]
    assert scene.trace.lines("model") == ["model s 0"]
    assert "receipt" in str(await scene.client.messages("s"))


async def test_a_signal_that_could_not_be_read_is_read_at_the_next_look(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Hold("begin pay")
    async with scene.worker(Stage(scene.trace, hold)) as worker:
        turn = await scene.submit(plan_with("loop-basic"))
        await hold.reached.wait()
        failed = asyncio.Event()

        async def fail(self: object) -> None:
            failed.set()
            raise OSError("The database is away.")

        with monkeypatch.context() as broken:
            broken.setattr("amplifier_runtime.signals.watcher._TurnSignals.listen", fail)
            await scene.signals.cancel(turn.turn_id)
            await failed.wait()
        token = worker.runner.runs[turn.turn_id].session.coordinator.cancellation
        assert not token.is_graceful
        await scene.watch.look()
        assert token.is_graceful
        hold.opened.set()
        assert (await scene.result(turn)).state == "cancelled"


@pytest.mark.parametrize("place", ["begin pay", "model 0"])
async def test_a_running_turn_is_interrupted_when_it_has_to_stop_at_once(
    scene: Scene, place: str
) -> None:
    hold = Hold(place)
    async with scene.worker(Stage(scene.trace, hold)):
        turn = await scene.submit(plan_with("loop-basic"))
        await hold.reached.wait()
        await scene.signals.cancel(turn.turn_id, immediate=True)
        assert (await scene.result(turn)).state == "cancelled"
    assert scene.trace.lines("effect pay") == []
    roles = [message["role"] for message in await scene.client.messages("s")]
    assert roles.count("tool") == (2 if place == "begin pay" else 0)


async def test_a_loop_that_lets_the_interruption_through_is_cancelled_as_well(
    scene: Scene,
) -> None:
    hold = Hold("model 0")

    class Stubborn:
        async def execute(self, prompt: str, context: Any, providers: Any, **rest: Any) -> str:
            await context.add_message({"role": "user", "content": prompt})
            await hold("model 0")
            return "never"

    class Replace(TurnPart):
        async def attach(self, run: TurnRun) -> None:
            run.session.coordinator.mount_points["orchestrator"] = Stubborn()

    async with scene.worker(Stage(scene.trace), Replace()):
        turn = await scene.submit(plan_with("loop-basic"))
        await hold.reached.wait()
        await scene.signals.cancel(turn.turn_id, immediate=True)
        finished = await scene.result(turn)
    assert (finished.state, finished.runs) == ("cancelled", 1)


@pytest.mark.slow
async def test_a_turn_between_two_workers_ends_where_its_journal_does(scene: Scene) -> None:
    hold = Hold("begin pay")
    turn = await scene.submit(plan_with("loop-basic"))
    async with scene.worker(Stage(scene.trace, hold)) as worker:
        await hold.reached.wait()
        worker.runner.runs[turn.turn_id].stop("drain")
        hold.opened.set()
    assert (await scene.client.turn(turn.turn_id)).state == "ready"
    assert (await scene.signals.cancel(turn.turn_id)).state == "ready"
    async with scene.worker(Stage(scene.trace)):
        finished = await scene.result(turn)
    assert (finished.state, finished.runs) == ("cancelled", 2)
    history = await scene.client.messages("s")
    assert [message.get("content") for message in history[2:]] == ["42", "receipt"]
    assert scene.trace.lines("model") == ["model s 0"]


async def test_whoever_was_given_work_is_cancelled_too(scene: Scene) -> None:
    holds = {"s": Hold("model 0"), "child": Hold("model 0")}

    class Held(Stage):
        async def prepare(self, run: TurnRun) -> None:
            self._reached = holds[run.claim.session_id]
            await super().prepare(run)

    def opened(claim: Claim) -> AmplifierSession:
        return AmplifierSession(claim.plan, session_id=claim.session_id)

    store = scene.client._store  # pyright: ignore[reportPrivateUsage] - what children are made by
    async with scene.worker(Held(scene.trace), open_session=opened):
        turn = await scene.submit(plan_with("loop-basic"))
        for name in ("child", "idle"):
            await scene.client.create_session(name, plan_with("loop-basic"))
        child = await store.submit(
            "t", "child", "help", idempotency_key="c", parent_turn_id=turn.turn_id
        )
        grandchild = await store.submit(
            "t", "child", "help", idempotency_key="g", parent_turn_id=child.turn_id
        )
        for hold in holds.values():
            await hold.reached.wait()
        await scene.signals.cancel(turn.turn_id, immediate=True)
        for each in (turn, child, grandchild):
            assert (await scene.result(each)).state == "cancelled"
