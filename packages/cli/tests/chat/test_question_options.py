"""The options of a question: which letter takes which, which is suggested, how they are drawn."""

from __future__ import annotations

import asyncio
import math

import pytest

from amplifier_cli.chat.line_renderer import LineRenderer
from amplifier_cli.chat.live_view import OpenQuestion, Scene
from amplifier_cli.question_pages import NEXT_PAGE, letters_of, signed_rows, suggestion
from amplifier_journal.readings.items import Question
from amplifier_kit.questions import Suggestion

SCOPED = [
    "Allow once",
    "Allow `pytest …` (this session)",
    "Allow `pytest …` (this project)",
    "One by one",
    "Deny",
]


@pytest.mark.parametrize(
    ("options", "letters"),
    [
        (["Allow once", "Allow always", "Deny"], {"y": 0, "a": 1, "n": 2}),
        (SCOPED, {"y": 0, "a": 1, "n": 4}),
        (["Allow", "Deny"], {"y": 0, "n": 1}),
        (["Deny", "Allow"], {"y": 1, "n": 0}),
        ([NEXT_PAGE, "Deny"], {"n": 1}),
        (["Yes, ask before changes", "Yes, edit files", "No"], {"y": 0, "n": 2}),
        (["Stop", "Continue"], {"n": 1}),
    ],
)
def test_letters_are_for_what_the_options_do(options: list[str], letters: dict[str, int]) -> None:
    assert letters_of(options) == letters


@pytest.mark.parametrize(
    ("options", "suggests", "suggested"),
    [
        (SCOPED, "once", "Allow once"),
        (SCOPED, "lasting", SCOPED[1]),
        (SCOPED, "deny", "Deny"),
        (["Allow once", "Deny"], "lasting", "Allow once"),
        ([NEXT_PAGE, "Deny"], "deny", NEXT_PAGE),
        (["Stop", "Continue"], "once", "Continue"),
    ],
)
def test_what_enter_takes_at_first(
    options: list[str], suggests: Suggestion, suggested: str
) -> None:
    assert options[suggestion(options, suggests)] == suggested


@pytest.mark.parametrize("is_open", [True, False])
async def test_long_options_are_drawn_one_below_the_other(is_open: bool) -> None:
    scene = Scene(lambda: None)
    scene.obstacle = lambda: "" if is_open else "..."
    answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    asks = OpenQuestion(Question("?", tuple(SCOPED)), math.inf, answer, 0, takes_reason=True)
    scene.questions.append(asks)

    (options,) = scene.parts(20)
    narrow = LineRenderer(styled=False).lines(options, 80)
    wide = LineRenderer(styled=False).lines(options, 200)

    assert len(narrow) == 6
    assert len(wide) == 2
    if is_open:
        assert narrow[1].strip() == "2 Allow `pytest …` (this session) (a)"
        assert narrow[5].strip() == "r deny and say why"


def test_rows_of_a_diff_keep_their_sign_on_the_next_page() -> None:
    page = "Allow?\n↳ of the first line\n  1 + one\n↳ continued\n  name: 5 + 6\n  2 - two\n  3   x"

    assert [sign for _, sign in signed_rows(page, 80)] == ["?", "", "+", "+", "", "-", ""]
