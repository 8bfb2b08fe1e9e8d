"""The judge of a pair of kills: what is wrong with what its workers have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from crash_pair_run import FURTHER
from crash_program import repeated

from amplifier_core import events
from amplifier_runtime.log.log_rows import SUPERSEDED
from amplifier_runtime.turns.steps import OUTCOME_UNKNOWN
from amplifier_runtime.turns.turn_run import RESUMED

Facts = dict[str, Any]


# What a turn says only because it was interrupted.
_OF_CRASHES = frozenset({RESUMED, SUPERSEDED})
_ANSWER = "price 42, paid"


def judge(facts: Facts, whole: Facts) -> list[str]:
    """Return everything that is wrong; `whole` is what is there when nothing happens."""
    rules: tuple[Callable[[Facts, Facts], Iterator[str]], ...] = (
        _both_turns_are_answered,
        _each_turn_pays_once,
        _no_kept_call_is_repeated,
        _each_question_is_asked_then_answered_once,
        _the_log_is_the_same,
        _no_money_is_counted_twice,
    )
    return [wrong for rule in rules for wrong in rule(facts, whole)]


def _both_turns_are_answered(facts: Facts, whole: Facts) -> Iterator[str]:
    outcomes = [(turn["state"], turn["answer"]) for turn in facts["turns"]]
    if outcomes != [("done", _ANSWER)] * 2:
        yield f"the turns came to {outcomes}"
    if facts["repairs"]:
        yield f"the history needs repair: {facts['repairs']}"


def _each_turn_pays_once(facts: Facts, whole: Facts) -> Iterator[str]:
    for lines, which in zip(_by_turn(facts["trace"]), ("killed", "further"), strict=True):
        paid = sum(line.startswith("effect pay") for line in lines)
        if paid != 1:
            yield f"the {which} turn paid {paid} times"


def _no_kept_call_is_repeated(facts: Facts, whole: Facts) -> Iterator[str]:
    lines = [line.replace("place ", "boundary ", 1) for line in _by_turn(facts["trace"])[0]]
    if again := repeated(lines):
        yield f"{again} model calls were made again though their answers were kept"


def _by_turn(trace: list[str]) -> tuple[list[str], list[str]]:
    place = trace.index(FURTHER)
    return trace[:place], trace[place:]


def _each_question_is_asked_then_answered_once(facts: Facts, whole: Facts) -> Iterator[str]:
    rows = {each["approval_id"]: each["state"] for each in facts["questions"]}
    said = [each for each in facts["log"] if each["name"] in ("approval.asked", "approval")]
    for approval_id in sorted({each["approval_id"] for each in said} | set(rows)):
        names = [each["name"] for each in said if each["approval_id"] == approval_id]
        if names != ["approval.asked", "approval"]:
            yield f"the log says {names} of question {approval_id}"
        if rows.get(approval_id) != "answered":
            yield f"question {approval_id} is {rows.get(approval_id)}"


def _the_log_is_the_same(facts: Facts, whole: Facts) -> Iterator[str]:
    seqs = [each["seq"] for each in facts["log"]]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"the numbers of the log are {seqs}"
    for turn, sound in zip(facts["turns"], whole["turns"], strict=False):
        names = _names(facts, turn["turn_id"])
        wanted = _names(whole, sound["turn_id"])
        for name in (events.EXECUTION_START, "turn.ended"):
            if names[name] != 1:
                yield f"the log of a turn has {name} {names[name]} times"
        # A turn whose payment became unknown checks and may pay again, so it says more.
        more = Counter[str]() if names[OUTCOME_UNKNOWN] else names - wanted
        less = wanted - names
        if more or less:
            yield f"the log has too much {dict(more)} and too little {dict(less)}"


def _names(facts: Facts, turn_id: str) -> Counter[str]:
    of_turn = [each["name"] for each in facts["log"] if each["turn_id"] == turn_id]
    return Counter(name for name in of_turn if name not in _OF_CRASHES)


def _no_money_is_counted_twice(facts: Facts, whole: Facts) -> Iterator[str]:
    (account,) = facts["accounts"]
    asked = sum(line.startswith("model ") for line in facts["trace"])
    if account["call_used"] != asked:
        yield f"{account['call_used']} model calls were charged, {asked} were made"
    for unit, charged in (("usd", "usd_charged"), ("token", "tokens_charged")):
        total = sum(each[charged] or 0 for each in facts["holds"])
        if account[f"{unit}_used"] != total:
            yield f"the account has used {account[f'{unit}_used']} {unit}, its calls {total}"
    held = {unit: account[f"{unit}_held"] for unit in ("usd", "token", "call")}
    if any(held.values()) or any(each["state"] == "open" for each in facts["holds"]):
        yield f"the account still has {held} set aside"
