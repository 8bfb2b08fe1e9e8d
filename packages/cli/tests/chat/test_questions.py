"""Questions to the user, as the keys answer them."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from amplifier_cli.chat.approvals import TerminalApprovals
from amplifier_cli.chat.live_view import OpenQuestion, Scene
from amplifier_cli.render.pieces import Decision, Shown
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_journal.readings.items import Question


class Desk:
    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self._asked = asyncio.Event()
        self.scene = Scene(lambda: None)
        self.approvals = TerminalApprovals(self.scene, self._put)

    async def wait_for_question(self) -> OpenQuestion:
        async with asyncio.timeout(120):
            await self._asked.wait()
        self._asked.clear()
        assert self.scene.asks is not None
        return self.scene.asks

    def _put(self, item: Shown) -> None:
        self.shown.append(item)
        if isinstance(item, Question):
            self._asked.set()


async def test_a_question_is_denied_unless_chosen_otherwise() -> None:
    desk = Desk()
    options = ["Allow once", "Allow always", "Deny"]
    asking = asyncio.create_task(desk.approvals.request_approval("Allow?", options, 5, "deny"))
    asks = await desk.wait_for_question()
    assert options[asks.chosen] == "Deny"
    asks.answer.set_result("Allow once")
    assert await asking == "Allow once"
    assert desk.shown == [Question("Allow?", tuple(options)), Decision("Allow once")]
    assert desk.scene.asks is None


async def test_silence_is_no_answer() -> None:
    desk = Desk()
    with pytest.raises(ApprovalTimeoutError):
        await desk.approvals.request_approval("Allow?", ["Allow", "Deny"], 0.01, "deny")
    assert desk.shown[-1] == Decision("no answer in time")


async def test_a_question_is_withdrawn_with_its_turn() -> None:
    desk = Desk()
    asking = asyncio.create_task(desk.approvals.request_approval("?", ["Allow", "Deny"], 5, "deny"))
    await desk.wait_for_question()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert desk.shown[-1] == Decision("withdrawn")
    assert desk.scene.questions == []


async def test_a_second_question_waits_for_its_turn() -> None:
    desk = Desk()
    ask = desk.approvals.request_approval
    both = [asyncio.create_task(ask(f"{n}?", ["Allow", "Deny"], 5, "deny")) for n in (1, 2)]
    for task, prompt, said in zip(both, ("1?", "2?"), ("Allow", "Deny"), strict=True):
        asks = await desk.wait_for_question()
        assert asks.question.prompt == prompt
        asks.answer.set_result(said)
        assert await task == said


async def test_the_time_of_a_question_starts_when_it_is_shown() -> None:
    desk = Desk()
    ask = desk.approvals.request_approval
    first = asyncio.create_task(ask("1?", ["Allow", "Deny"], 5, "deny"))
    second = asyncio.create_task(ask("2?", ["Allow", "Deny"], 0.2, "deny"))
    shown = await desk.wait_for_question()
    await asyncio.sleep(0.3)
    assert not second.done()
    shown.answer.set_result("Allow")
    await first

    asks = await desk.wait_for_question()

    assert asks.question.prompt == "2?"
    assert asks.until > monotonic()
    asks.answer.set_result("Allow")
    assert await second == "Allow"
