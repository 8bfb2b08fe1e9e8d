"""Killed at two boundaries of a turn that asks, the turn and the session end as they should."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash_pair_judge import judge

from amplifier_core import events

PROGRAM = Path(__file__).parent / "crash_pairs.py"
SAMPLE = 8

Facts = dict[str, Any]


@pytest.mark.slow
@pytest.mark.attack("review M16")
@pytest.mark.parametrize("answer", ["late", "early"])
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_turn_that_asks_survives_two_kills(database: str, answer: str) -> None:
    given = ("--database", database, "--answer", answer, "--sample", str(SAMPLE))
    command = [sys.executable, str(PROGRAM), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    row = [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]
    boundaries, pairs, wrong = map(int, row[3:6])
    assert row[:3] == [database, "loop-basic", answer]
    assert boundaries > 25
    assert pairs >= SAMPLE / 4
    assert wrong == 0


def whole() -> Facts:
    """Return what two turns leave that nothing happens to."""
    names = (events.EXECUTION_START, "approval.asked", "approval", "turn.ended")
    said = [(turn, name) for turn in ("one", "two") for name in names]
    return {
        "turns": [
            {"turn_id": turn, "state": "done", "answer": "price 42, paid"}
            for turn in ("one", "two")
        ],
        "repairs": [],
        "log": [
            {
                "seq": seq,
                "turn_id": turn,
                "name": name,
                "approval_id": f"of {turn}" if name in ("approval.asked", "approval") else None,
            }
            for seq, (turn, name) in enumerate(said, start=1)
        ],
        "questions": [
            {"approval_id": f"of {turn}", "state": "answered"} for turn in ("one", "two")
        ],
        "accounts": [
            {
                "call_used": 2,
                "usd_used": 2,
                "token_used": 4,
                "usd_held": 0,
                "token_held": 0,
                "call_held": 0,
            }
        ],
        "holds": [{"usd_charged": 1, "tokens_charged": 2, "state": "settled"}] * 2,
        "trace": [
            "model s 0",
            "place after llm:1",
            "effect pay s",
            "further",
            "model s 0",
            "effect pay s",
        ],
    }


def lose_the_question(facts: Facts) -> None:
    del facts["log"][1]
    for number, each in enumerate(facts["log"], start=1):
        each["seq"] = number


def answer_before_asking(facts: Facts) -> None:
    log = facts["log"]
    log[1]["name"], log[2]["name"] = "approval", "approval.asked"


def answer_twice(facts: Facts) -> None:
    facts["log"].append({**facts["log"][2], "seq": 9})


def leave_the_question_open(facts: Facts) -> None:
    facts["questions"][0]["state"] = "open"


def end_twice(facts: Facts) -> None:
    facts["log"].append({**facts["log"][3], "seq": 9})


def say_less(facts: Facts) -> None:
    facts["log"].pop()


def tear_the_log(facts: Facts) -> None:
    facts["log"][-1]["seq"] = 20


def pay_twice(facts: Facts) -> None:
    facts["trace"].insert(0, "effect pay s")


def do_not_pay_in_the_further_turn(facts: Facts) -> None:
    facts["trace"].pop()


def ask_the_model_again(facts: Facts) -> None:
    facts["trace"].insert(2, "model s 0")
    facts["accounts"][0]["call_used"] = 3


def charge_a_call_twice(facts: Facts) -> None:
    facts["accounts"][0]["call_used"] = 3


def spend_more_than_the_calls(facts: Facts) -> None:
    facts["accounts"][0]["usd_used"] = 3


def keep_money_aside(facts: Facts) -> None:
    facts["accounts"][0]["token_held"] = 1


def fail_the_further_turn(facts: Facts) -> None:
    facts["turns"][1]["state"] = "failed"


def break_the_history(facts: Facts) -> None:
    facts["repairs"].append("a call without a result")


def test_the_judge_of_a_pair_finds_nothing_wrong_where_nothing_is() -> None:
    assert judge(whole(), whole()) == []


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lose_the_question, "the log says ['approval']"),
        (answer_before_asking, "the log says ['approval', 'approval.asked']"),
        (answer_twice, "the log says ['approval.asked', 'approval', 'approval']"),
        (leave_the_question_open, "is open"),
        (end_twice, "has turn.ended 2 times"),
        (say_less, "too little"),
        (tear_the_log, "the numbers of the log"),
        (pay_twice, "the killed turn paid 2 times"),
        (do_not_pay_in_the_further_turn, "the further turn paid 0 times"),
        (ask_the_model_again, "1 model calls were made again"),
        (charge_a_call_twice, "3 model calls were charged, 2 were made"),
        (spend_more_than_the_calls, "its calls 2"),
        (keep_money_aside, "set aside"),
        (fail_the_further_turn, "the turns came to"),
        (break_the_history, "needs repair"),
    ],
)
def test_the_judge_of_a_pair_finds(harm: Callable[[Facts], None], complaint: str) -> None:
    facts = copy.deepcopy(whole())
    harm(facts)
    assert any(complaint in wrong for wrong in judge(facts, whole()))
