"""Words for a turn that runs: heard at its next step or by the next turn, never lost or twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime_stage import plan_with
from signals_stage import AskUser, Hold, Scene, Talk

from amplifier_runtime.database.database import Database


@pytest.fixture
def scene(database: Database, url: str, tmp_path: Path) -> Scene:
    return Scene(database, url, tmp_path)


@pytest.mark.parametrize("place", ["begin price", "model 0", "model 2"])
async def test_the_next_step_hears_it_once(scene: Scene, place: str) -> None:
    hold = Hold(place)
    async with scene.worker(Talk(scene.trace, hold)):
        turn = await scene.submit(plan_with("loop-streaming"))
        await hold.reached.wait()
        for _ in range(2):
            await scene.signals.steer("s", "cheap", steer_id="one")
        await scene.signals.steer("s", "red")
        await scene.watch.look()
        hold.opened.set()
        finished = await scene.result(turn)
    assert finished.answer == "buy|cheap|red"
    said = [line.removeprefix("model s ") for line in scene.trace.lines("model")]
    assert said == {
        "model 2": ["0 buy", "1 buy", "2 buy", "2 buy|cheap|red"],
    }.get(place, ["0 buy", "1 buy|cheap|red", "2 buy|cheap|red"])


async def test_a_loop_that_cannot_be_steered_hears_it_with_the_next_prompt(scene: Scene) -> None:
    hold = Hold("model 0")
    async with scene.worker(Talk(scene.trace, hold)):
        turn = await scene.submit(plan_with("loop-basic"))
        await hold.reached.wait()
        await scene.signals.steer("s", "cheap")
        hold.opened.set()
        assert (await scene.result(turn)).answer == "buy"
        second = await scene.client.submit("s", "more", idempotency_key="k2")
        assert (await scene.result(second)).answer == "buy|cheap|more"
        third = await scene.client.submit("s", "end", idempotency_key="k3")
        assert (await scene.result(third)).answer == "buy|cheap|more|end"


async def test_what_is_said_to_a_session_at_rest_waits_for_its_next_turn(scene: Scene) -> None:
    await scene.client.create_session("s", plan_with("loop-streaming"))
    await scene.signals.steer("s", "cheap")
    with pytest.raises(ValueError, match="nothing"):
        await scene.signals.steer("s", "  ")
    async with scene.worker(Talk(scene.trace, Hold("nowhere"))):
        turn = await scene.submit(plan_with("loop-streaming"))
        assert (await scene.result(turn)).answer == "cheap|buy"


async def test_a_turn_that_is_run_again_hears_everything_at_the_same_place(scene: Scene) -> None:
    """Said at the beginning, at a step, and while the turn is parked."""
    hold = Hold("model 0")
    await scene.client.create_session("s", plan_with("loop-streaming"))
    await scene.signals.steer("s", "first")
    async with scene.worker(Talk(scene.trace, hold), AskUser("price")):
        turn = await scene.submit(plan_with("loop-streaming"))
        await hold.reached.wait()
        await scene.signals.steer("s", "second")
        await scene.watch.look()
        hold.opened.set()
        for said in ("third", "fourth"):
            (approval,) = await scene.asked()
            await scene.until_state(turn, "parked")
            await scene.signals.steer("s", said)
            await scene.signals.answer(approval.approval_id, "Allow", by="ann")
        finished = await scene.result(turn)
    assert finished.answer == "first|buy|second|third|fourth"
    assert scene.trace.lines("model") == [
        "model s 0 first|buy",
        "model s 1 first|buy|second|third",
        "model s 2 first|buy|second|third|fourth",
    ]
    assert len(scene.trace.lines("effect price")) == 2
