"""Approvals on a worker in this process: asked once, decided once, acted on once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime_stage import Stage, plan_with, until
from signals_stage import AskUser, Scene, guarded_plan

from amplifier_runtime.database.database import Database
from amplifier_runtime.errors import AlreadyDecidedError, NotFoundError
from amplifier_runtime.signals.signals import Approval, Signals
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun


@pytest.fixture
def scene(database: Database, url: str, tmp_path: Path) -> Scene:
    return Scene(database, url, tmp_path)


Asking = tuple[Callable[[str, Path], dict[str, Any]], list[Any], str]
ASK_USER: Asking = (lambda loop, folder: plan_with(loop), [AskUser("pay")], "Allow")
GUARD: Asking = (guarded_plan, [], "Allow once")


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming"])
@pytest.mark.parametrize("asking", [ASK_USER, GUARD], ids=["ask_user", "hooks-approval"])
async def test_an_approved_call_runs_once_and_the_wait_holds_no_process(
    scene: Scene, tmp_path: Path, asking: Asking, loop: str
) -> None:
    plan, parts, yes = asking
    async with scene.worker(Stage(scene.trace), *parts) as worker:
        turn = await scene.submit(plan(loop, tmp_path))
        parked = await scene.until_state(turn, "parked")
        assert parked.reason == "approval"
        # The worker lets go a moment after the row says so.
        await until(lambda: not worker.runner.runs)
        assert scene.trace.lines("effect") == ["effect price s"]
        (approval,) = await scene.signals.approvals()
        assert yes in approval.options
        decided = await scene.signals.answer(approval.approval_id, yes, by="ann")
        assert decided.outcome == f"`{yes}` by ann"
        finished = await scene.result(turn)
    assert (finished.answer, finished.runs) == ("price 42, paid", 2)
    assert sorted(scene.trace.lines("effect")) == ["effect pay s", "effect price s"]
    assert scene.trace.lines("model") == ["model s 0", "model s 2"]
    assert await scene.signals.approvals() == []


@pytest.mark.parametrize("asking", [ASK_USER, GUARD], ids=["ask_user", "hooks-approval"])
async def test_a_denied_call_never_runs(scene: Scene, tmp_path: Path, asking: Asking) -> None:
    plan, parts, _ = asking
    async with scene.worker(Stage(scene.trace), *parts):
        turn = await scene.submit(plan("loop-basic", tmp_path))
        (approval,) = await scene.asked()
        await scene.signals.answer(approval.approval_id, "Deny", by="ann")
        await scene.result(turn)
    assert scene.trace.lines("effect pay") == []
    assert "Denied by hook" in str(await scene.client.messages("s"))


async def test_of_two_answers_at_once_exactly_one_counts(scene: Scene) -> None:
    async with scene.worker(Stage(scene.trace), AskUser("pay")):
        turn = await scene.submit(plan_with("loop-basic"))
        (approval,) = await scene.asked()
        said = {"ann": "Allow", "bob": "Deny"}
        outcomes = await asyncio.gather(
            *(scene.signals.answer(approval.approval_id, said[by], by=by) for by in said),
            return_exceptions=True,
        )
        (won,) = [each for each in outcomes if isinstance(each, Approval)]
        (lost,) = [each for each in outcomes if isinstance(each, AlreadyDecidedError)]
        assert lost.outcome == won.outcome
        await scene.result(turn)
        assert len(scene.trace.lines("effect pay")) == (won.answer == "Allow")
        again = await scene.signals.answer(
            approval.approval_id, said[won.answered_by or ""], by=won.answered_by or ""
        )
        assert again == won


async def test_only_an_option_is_an_answer(scene: Scene) -> None:
    async with scene.worker(Stage(scene.trace), AskUser("pay")):
        await scene.submit(plan_with("loop-basic"))
        (approval,) = await scene.asked()
        with pytest.raises(ValueError, match="takes `Allow`, `Deny`"):
            await scene.signals.answer(approval.approval_id, "yes", by="ann")
        assert (await scene.signals.approval(approval.approval_id)).state == "open"


@pytest.mark.parametrize(("default", "paid"), [("deny", 0), ("allow", 1)])
async def test_an_answer_that_comes_too_late_does_not_count(
    scene: Scene, default: Any, paid: int
) -> None:
    async with scene.worker(Stage(scene.trace), AskUser("pay", timeout=0.3, default=default)):
        turn = await scene.submit(plan_with("loop-basic"))
        (approval,) = await scene.asked()
        await scene.result(turn)
    with pytest.raises(AlreadyDecidedError, match="expired"):
        await scene.signals.answer(approval.approval_id, "Allow", by="ann")
    assert len(scene.trace.lines("effect pay")) == paid


async def test_all_questions_of_a_step_are_there_at_once_and_each_has_its_own_answer(
    scene: Scene,
) -> None:
    async with scene.worker(Stage(scene.trace), AskUser("price", "pay")):
        turn = await scene.submit(plan_with("loop-basic"))
        await scene.until_state(turn, "parked")
        first, second = await scene.signals.approvals("s")
        await scene.signals.answer(second.approval_id, "Deny", by="ann")
        await scene.until_state(turn, "parked", runs=2)
        assert await scene.signals.approvals("s") == [first]
        await scene.signals.answer(first.approval_id, "Allow", by="ann")
        await scene.result(turn)
    done = {"effect price s", "effect pay s"}
    assert len(scene.trace.lines("effect")) == 1
    assert set(scene.trace.lines("effect")) < done
    assert len(scene.trace.lines("model s 0")) == 1


async def test_an_answer_that_comes_while_the_turn_unwinds_is_not_lost(scene: Scene) -> None:
    answered = asyncio.Event()

    async def reached(place: str) -> None:
        if place == "begin price":
            await answered.wait()

    async with scene.worker(Stage(scene.trace, reached), AskUser("pay")):
        turn = await scene.submit(plan_with("loop-basic"))
        (approval,) = await scene.asked()
        assert (await scene.client.turn(turn.turn_id)).state == "running"
        await scene.signals.answer(approval.approval_id, "Allow", by="ann")
        answered.set()
        finished = await scene.result(turn)
    assert finished.answer == "price 42, paid"
    assert sorted(scene.trace.lines("effect")) == ["effect pay s", "effect price s"]


async def test_a_tool_that_asks_while_it_runs_waits_where_it_is(scene: Scene) -> None:
    class AskInside(TurnPart):
        async def prepare(self, run: TurnRun) -> None:
            system = run.session.coordinator
            tool = system.get_mounted("tools")["pay"]
            execute = tool.execute

            async def ask_first(input: dict[str, Any]) -> Any:
                approvals: Any = system.approval_system
                said = await approvals.request_approval("Really?", ["Allow", "Deny"], 60.0, "deny")
                return await execute(input) if said == "Allow" else "not paid at all"

            tool.execute = ask_first

    async with scene.worker(Stage(scene.trace), AskInside()):
        turn = await scene.submit(plan_with("loop-basic"))
        (approval,) = await scene.asked()
        assert (await scene.client.turn(turn.turn_id)).state == "running"
        await scene.signals.answer(approval.approval_id, "Allow", by="ann")
        finished = await scene.result(turn)
    assert (finished.answer, finished.runs) == ("price 42, paid", 1)
    assert len(scene.trace.lines("effect pay")) == 1


async def test_a_parked_turn_whose_question_is_cancelled_ends_with_what_it_did(
    scene: Scene,
) -> None:
    async with scene.worker(Stage(scene.trace), AskUser("pay")):
        turn = await scene.submit(plan_with("loop-basic"))
        behind = await scene.client.submit("s", "again", idempotency_key="k2")
        await scene.until_state(turn, "parked")
        (approval,) = await scene.signals.approvals("s")
        await scene.signals.cancel(turn.turn_id)
        with pytest.raises(AlreadyDecidedError, match="withdrawn"):
            await scene.signals.answer(approval.approval_id, "Allow", by="ann")
        assert (await scene.result(turn)).state == "cancelled"
        history = await scene.client.messages("s")
        assert [message["role"] for message in history] == ["user", "assistant", "tool", "tool"]
        assert history[2]["content"] == "42"
        (next_question,) = await scene.asked()
        assert next_question.turn_id == behind.turn_id
    assert scene.trace.lines("effect pay") == []


async def test_another_tenant_finds_none_of_it(scene: Scene) -> None:
    async with scene.worker(Stage(scene.trace), AskUser("pay")):
        turn = await scene.submit(plan_with("loop-basic"))
        (approval,) = await scene.asked()
        await scene.until_state(turn, "parked")
        other = Signals(scene.database, "other")
        calls = (
            other.approvals("s"),
            other.approval(approval.approval_id),
            other.answer(approval.approval_id, "Allow", by="eve"),
            other.cancel(turn.turn_id),
            other.steer("s", "listen to me"),
        )
        for call in calls:
            with pytest.raises(NotFoundError):
                await call
        assert await other.approvals() == []
        assert await scene.signals.approvals() == [approval]
        assert (await scene.client.turn(turn.turn_id)).state == "parked"
