"""Questions that the screen cannot show whole, and keys that were not meant for them."""

from __future__ import annotations

import asyncio
import io
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.theme import Theme

from amplifier_cli.chat.approvals import TerminalApprovals
from amplifier_cli.chat.keys import Keys
from amplifier_cli.chat.live_view import OpenQuestion, Scene
from amplifier_cli.question_pages import (
    CONTINUED,
    NEXT_PAGE,
    denial,
    pages_of,
    question_text,
    rows_of,
)
from amplifier_cli.render.drawing import draw
from amplifier_cli.render.pieces import Decision, Shown
from amplifier_core.testing import wait_for
from amplifier_journal.readings.items import Question

OPTIONS = ["Allow once", "Allow always", "Deny"]


def test_a_question_that_fits_is_one_page_as_it_is() -> None:
    assert pages_of("Allow?\n  ls", 80, 24) == ["Allow?\n  ls"]


@pytest.mark.attack("review M2")
@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=300), min_size=1, max_size=60),
    st.integers(1, 120),
    st.integers(1, 60),
)
def test_pages_leave_nothing_out(lines: list[str], columns: int, rows: int) -> None:
    text = question_text("\n".join(lines))
    pages = pages_of("\n".join(lines), columns, rows)
    if len(pages) == 1:
        assert pages == [text]
        return
    first = pages[0].split("\n", 1)[0]
    shown = [first, *(row for page in pages for row in page.split("\n")[2:])]
    assert "\n".join(shown).replace(f"\n{CONTINUED}", "") == text


@pytest.mark.attack("review M2")
@pytest.mark.parametrize("rows", [24, 208, 300, 1_000])
def test_every_line_of_a_question_is_drawn_on_a_screen_of_any_height(rows: int) -> None:
    lines = [f"line {number}" for number in range(500)]
    console = Console(width=80, file=io.StringIO(), theme=Theme({"question": "bold"}))

    for page in pages_of("\n".join(["Allow?", *lines]), 78, rows):
        console.print(draw(Question(page, ("Allow", "Deny"))))

    drawn = cast("io.StringIO", console.file).getvalue().replace("┃ ", "").split("\n")
    assert [each.strip() for each in drawn if each.startswith("line")] == lines


@pytest.mark.attack("review M2")
def test_what_continues_a_line_cannot_pass_for_a_line_of_its_own() -> None:
    forged = "x" * 40 + '  Tool: "read"' + "y" * 60
    rows = rows_of(f"Tool: bash\n  {forged}", 40)

    assert [row for row in rows[2:] if not row.startswith(CONTINUED)] == []
    assert max(map(len, rows)) == 40


@pytest.mark.attack("review M2")
async def test_in_the_chat_a_long_question_is_allowed_on_its_last_page_only() -> None:
    scene, shown = Scene(lambda: None), list[Shown]()
    approvals = TerminalApprovals(scene, shown.append, lambda: (40, 12))
    prompt = "Allow?\n" + "\n".join(f"line {number}" for number in range(30))
    asking = asyncio.create_task(approvals.request_approval(prompt, OPTIONS, 5, "deny"))
    for options, chosen in (
        ([NEXT_PAGE, "Deny"], NEXT_PAGE),
        ([NEXT_PAGE, "Deny"], NEXT_PAGE),
        (OPTIONS, "Deny"),
    ):
        await _turn(scene, shown, options)
        asks = scene.asks
        assert asks is not None
        assert asks.drawn_at is None
        assert asks.question.options[asks.chosen] == chosen
        asks.answer.set_result(options[0])
    assert await asking == "Allow once"
    assert shown[-1] == Decision("Allow once")


async def test_on_a_screen_of_another_size_the_pages_begin_again() -> None:
    scene, shown = Scene(lambda: None), list[Shown]()
    approvals = TerminalApprovals(scene, shown.append, lambda: (40, 12))
    asking = asyncio.create_task(approvals.request_approval("x\n" * 15, OPTIONS, 5, "deny"))
    await _turn(scene, shown, [NEXT_PAGE, "Deny"])
    assert scene.asks is not None
    scene.asks.answer.set_result(NEXT_PAGE)
    await _turn(scene, shown, OPTIONS)
    scene.asks.drawn_at = 0.0
    approvals.show_again()
    await _turn(scene, shown, [NEXT_PAGE, "Deny"])
    scene.asks.answer.set_result("Deny")
    assert await asking == "Deny"


async def test_in_the_chat_a_long_question_can_be_denied_on_every_page() -> None:
    scene, shown = Scene(lambda: None), list[Shown]()
    approvals = TerminalApprovals(scene, shown.append, lambda: (40, 12))
    asking = asyncio.create_task(approvals.request_approval("x\n" * 40, OPTIONS, 5, "deny"))
    await _turn(scene, shown, [NEXT_PAGE, "Deny"])
    assert scene.asks is not None
    scene.asks.answer.set_result("Deny")
    assert await asking == "Deny"


async def _turn(scene: Scene, shown: list[Shown], options: list[str]) -> None:
    """Wait until a page with these options is the last thing shown and can be answered."""

    def is_open() -> bool:
        last = shown[-1] if shown else None
        asks = scene.asks
        fits = isinstance(last, Question) and last.options == tuple(options)
        return fits and asks is not None and not asks.answer.done()

    assert await wait_for(is_open, timeout=120)


class FakeTerminal:
    """What the keys need of a terminal."""

    def __init__(self) -> None:
        self.scene = Scene(lambda: None)
        self.buffer = SimpleNamespace(text="", on_text_changed=[])


@pytest.mark.attack("review M3")
async def test_keys_answer_only_a_question_that_has_been_on_the_screen_for_a_while() -> None:
    terminal: Any = FakeTerminal()
    no_conversation: Any = None
    terminal.buffer.on_text_changed = _Event()
    Keys(terminal, no_conversation, expand=lambda: None, leave=lambda: None, next_mode=lambda: None)
    scene: Scene = terminal.scene
    future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    asks = OpenQuestion(Question("?", tuple(OPTIONS)), monotonic() + 60, future, denial(OPTIONS))
    scene.questions.append(asks)

    assert scene.obstacle() == "..."
    assert scene.note_drawn() is True
    assert scene.obstacle() == "..."
    assert scene.note_drawn() is False
    asks.drawn_at = monotonic() - 60
    assert scene.obstacle() == ""
    terminal.buffer.text = "1"
    assert scene.obstacle() == "for other answers, send or clear the line"


class _Event:
    def __iadd__(self, handler: Any) -> _Event:
        return self
