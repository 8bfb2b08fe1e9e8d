"""A short run of chaos, and that the judge finds what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.evidence import Event, Evidence, Kept
from chaos.judge import judge, repeated_calls
from chaos.people import View
from chaos.script import PLAIN, TOOLS, SessionScript, TurnScript, write_script
from chaos.storm import Damage
from chaos.vendor import Ask, next_step

TESTS = Path(__file__).parent.parent


@pytest.mark.fleet
def test_sixty_turns_survive_kills_pauses_and_restarts_of_the_database(tmp_path: Path) -> None:
    # By its seed and what is left in the folder, a run that went wrong can be looked into.
    command = [sys.executable, "-m", "chaos", "--turns", "60", "--seed", "20", "--width", "20"]
    # On a quiet machine it ends before; a busy one needs the calm, and more time.
    limits = ["--most-kills", "40", "--timeout-seconds", "600", "--folder", str(tmp_path)]
    done = subprocess.run(
        [*command, *limits], cwd=TESTS, capture_output=True, text=True, timeout=700, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = dict(re.findall(r"^(.+?)  +(.+)$", done.stdout, re.MULTILINE))
    assert figures["database restarts"] == "fast, immediate"
    assert int(figures["kills"]) >= 5
    assert int(figures["pauses"]) >= 1
    assert int(figures["runs lost in a crash"]) >= 1
    titles, _, cells = [line.strip("|").split("|") for line in done.stdout.splitlines()[-3:]]
    row = {title.strip(): cell.strip() for title, cell in zip(titles, cells, strict=True)}
    assert (row["seed"], row["wrong"], row["kills"]) == ("20", "0", figures["kills"])
    assert row["take-over p99, s"] == figures["take-over p99, s"]


def test_the_same_seed_writes_the_same_script() -> None:
    assert write_script(7, 100, ["a", "b"]) == write_script(7, 100, ["a", "b"])
    assert write_script(7, 100, ["a", "b"]) != write_script(8, 100, ["a", "b"])


def test_the_script_has_every_kind_of_turn_and_sessions_with_and_without_a_limit() -> None:
    sessions = write_script(1, 400, ["a", "b"])
    kinds = Counter(turn.kind for session in sessions for turn in session.turns)
    assert len(kinds) == 4
    assert min(kinds.values()) > 20
    assert {session.call_limit is None for session in sessions} == {True, False}
    assert {session.loop for session in sessions} == {"a", "b"}


def test_the_model_checks_what_became_unknown_and_pays_again_only_if_it_has_to() -> None:
    asked = [{"role": "user", "text": f"3 {TOOLS}", "call_id": None}]
    results = [("3-price", "42"), ("3-stock", "7"), ("3-pay-0", "Outcome unknown: lost")]

    def said(*more: tuple[str, str]) -> tuple[str, list[str]]:
        tools = [{"role": "tool", "text": t, "call_id": c} for c, t in (*results, *more)]
        text, calls = next_step(asked + tools)
        return text, [call["id"] for call in calls]

    assert said()[1] == ["3-check-1"]
    assert said(("3-check-1", "not paid"))[1] == ["3-pay-1"]
    assert said(("3-check-1", "is paid")) == ("3: price 42, stock 7, paid", [])


def whole() -> Evidence:
    """Return what one session with one turn of tools leaves when nothing goes wrong."""
    script = TurnScript(0, TOOLS, is_allowed=True, thought_seconds=0.0)
    view = View(seqs=[1, 2], shown=[1, 2])
    turn = {
        "turn_id": "t", "session_id": "s0000", "idempotency_key": "turn-0", "state": "done",
        "parent_turn_id": None, "prompt": script.prompt, "answer": script.answer, "error": None,
        "reason": None, "crashes": 0, "runs": 1,
    }  # fmt: skip
    account = {f"{unit}_{what}": 1 for unit in ("usd", "token", "call") for what in ("used",)}
    limits = {f"{unit}_limit": 2 for unit in ("usd", "token", "call")}
    held = {f"{unit}_held": 0 for unit in ("usd", "token", "call")}
    said = {"message": {"role": "user", "content": script.prompt}}
    return Evidence(
        sessions=[SessionScript("s0000", "a", "loop-basic", (script,), None)],
        scripts={"t": script},
        complaints=[],
        views={"s0000": view},
        damage=Damage(),
        asks=[Ask(1.0, "q", "s0000", "t", "llm:1:q", 1)],
        effects=[["pay", "t", "0-pay-0", "1"]],
        turns=[turn],
        kept={("t", "llm:1:q"): Kept(1, 2.0)},
        logs={"s0000": [Event(1, "t", "message", said, 1), Event(2, "t", "turn.ended", {}, 2)]},
        histories={"s0000": [{"role": "user", "content": script.prompt}]},
        accounts=[{"account_id": "tree:s0000", **account, **limits, **held}],
        left={"open turns": 0},
    )


def test_the_judge_finds_nothing_wrong_where_nothing_is() -> None:
    assert judge(whole()) == []


def lose_a_turn(found: Evidence) -> None:
    found.turns.clear()


def leave_a_turn_parked(found: Evidence) -> None:
    found.turns[0]["state"] = "parked"


def end_a_turn_twice(found: Evidence) -> None:
    found.logs["s0000"].append(Event(3, "t", "turn.ended", {}, 3))


def answer_otherwise(found: Evidence) -> None:
    found.turns[0]["answer"] = "0: something else"


def repeat_a_kept_call(found: Evidence) -> None:
    found.asks.append(Ask(3.0, "q", "s0000", "t", "llm:1:other", 2))


def pay_twice(found: Evidence) -> None:
    found.effects *= 2


def say_paid_without_paying(found: Evidence) -> None:
    found.effects.clear()


def skip_an_event(found: Evidence) -> None:
    found.views["s0000"].seqs = [2]


def repeat_an_event(found: Evidence) -> None:
    found.views["s0000"].seqs = [1, 1, 2]


def tear_the_log(found: Evidence) -> None:
    found.logs["s0000"].pop(0)


def show_something_twice(found: Evidence) -> None:
    found.views["s0000"].shown = [1, 1]


def log_less_after_a_crash(found: Evidence) -> None:
    other = {**found.turns[0], "turn_id": "u", "parent_turn_id": "t", "crashes": 1}
    sound = {**found.turns[0], "turn_id": "v", "parent_turn_id": "t"}
    found.turns += [other, sound]
    found.effects += [["pay", "u", "c", "1"], ["pay", "v", "c", "1"]]
    ends = [Event(3, "u", "turn.ended", {}, 3), Event(4, "v", "turn.ended", {}, 4)]
    found.logs["s0000-1"] = [Event(1, "v", "prompt", {"turn": 1}, 1), *ends]


def answer_without_asking(found: Evidence) -> None:
    asked = {"approval_id": "a"}
    found.logs["s0000"].insert(1, Event(2, "t", "approval", asked, 2))
    found.logs["s0000"][2] = Event(3, "t", "turn.ended", {}, 3)


def break_the_history(found: Evidence) -> None:
    call: dict[str, Any] = {"id": "c", "name": "pay", "arguments": {}}
    found.histories["s0000"].append({"role": "assistant", "content": "", "tool_calls": [call]})


def say_the_prompt_twice(found: Evidence) -> None:
    found.histories["s0000"] *= 2


def overspend(found: Evidence) -> None:
    found.accounts[0]["token_used"] = 3


def forget_a_hold(found: Evidence) -> None:
    found.accounts[0]["usd_held"] = 1


def call_without_paying(found: Evidence) -> None:
    found.asks.append(Ask(1.0, "p", "s0000-c", "t", "llm:2:p", 1))


def leave_something(found: Evidence) -> None:
    found.left["open turns"] = 1


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lose_a_turn, "is missing"),
        (leave_a_turn_parked, "is parked"),
        (end_a_turn_twice, "2 ends"),
        (answer_otherwise, "answered"),
        (repeat_a_kept_call, "was repeated after"),
        (pay_twice, "2 times"),
        (say_paid_without_paying, "and did not"),
        (skip_an_event, "a reader"),
        (repeat_an_event, "a reader"),
        (tear_the_log, "not contiguous"),
        (show_something_twice, "shown something twice"),
        (log_less_after_a_crash, "too little"),
        (answer_without_asking, "the log says ['approval'] of question a"),
        (break_the_history, "needs repair"),
        (say_the_prompt_twice, "instead of"),
        (overspend, "has used"),
        (forget_a_hold, "still holds"),
        (call_without_paying, "were made"),
        (leave_something, "are left"),
    ],
)
def test_the_judge_finds(harm: Callable[[Evidence], None], complaint: str) -> None:
    found = whole()
    harm(found)
    assert any(complaint in wrong for wrong in judge(found))


def test_a_call_made_again_before_its_outcome_was_kept_is_no_repetition() -> None:
    found: Any = whole()
    found.asks.insert(0, Ask(0.5, "q", "s0000", "t", "llm:1:q", 1))
    assert repeated_calls(found) == ([], [])


def test_a_call_of_a_run_that_was_given_up_is_told_apart() -> None:
    found = whole()
    found.kept = {("t", "llm:1:q"): Kept(3, 2.0)}
    late = Ask(2.5, "q", "s0000", "t", "llm:1:q", 1)
    found.asks.append(late)
    found.accounts[0]["call_used"] = 2
    assert repeated_calls(found) == ([], [late])
    assert judge(found) == []


def test_a_run_that_was_given_up_may_be_late_with_one_call_alone() -> None:
    found = whole()
    found.kept = {("t", key): Kept(3, 2.0) for key in ("llm:1:q", "llm:2:r")}
    found.asks += [
        Ask(2.5, "q", "s0000", "t", "llm:1:q", 1),
        Ask(1.0, "r", "s0000", "t", "llm:2:r", 3),
        Ask(2.6, "r", "s0000", "t", "llm:2:r", 1),
    ]
    found.accounts[0]["call_used"] = 4
    found.accounts[0]["call_limit"] = 5
    assert judge(found) == ["run 1 of turn t made 2 calls after it was given up"]


def test_a_plain_prompt_is_answered_without_tools() -> None:
    asked = [{"role": "user", "text": f"3 {PLAIN}", "call_id": None}]
    assert next_step(asked) == ("3: hello", [])
