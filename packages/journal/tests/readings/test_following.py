"""Readings as folds: they are asked at any moment, and continue with the next record."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.store import SessionStore
from amplifier_journal.memory import MemoryLog
from amplifier_journal.readings.explanation import Explanations, explain
from amplifier_journal.readings.requests import Requests, requests_in
from amplifier_journal.readings.spending import Spending, spending
from amplifier_journal.readings.state import SessionState, state_of
from amplifier_journal.readings.timeline import Timeline, timeline
from end_to_end.recorded_sessions import NAMES, record

REPOSITORY = Path(__file__).parents[4]


@pytest.mark.parametrize("name", NAMES)
async def test_a_reading_that_follows_a_log_says_what_one_of_all_records_says(
    name: str, tmp_path: Path
) -> None:
    store = SessionStore(tmp_path / "home")
    records = list(store.read(await record(name, store, tmp_path)).records())
    state, times, took, explanations = SessionState(), Timeline(), Spending(), Explanations()

    for at, each in enumerate(records, start=1):
        for reading in (state, times, took, explanations):
            reading.take(each)
        assert state == state_of(records[:at])
        assert times.spans == timeline(records[:at])
        assert took.leaves == spending(records[:at]).leaves
        assert took.by_module() == spending(records[:at]).by_module()
        assert explanations.get() == explain(records[:at])


async def test_what_follows_a_state_does_not_change_it(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "home")
    records = list(store.read(await record("sub_agents", store, tmp_path)).records())
    for cut in range(len(records)):
        before = state_of(records[:cut])
        kept = deepcopy(before)

        assert state_of(records[cut:], before) == state_of(records)
        assert before == kept


def log_of(*requests: dict[str, Any]) -> MemoryLog:
    """Return a log with a part for each letter, and a call for each request."""
    log = MemoryLog("s")
    log.append("session.opened", {})
    for letter in "abcdef":
        log.append("part", {"digest": letter, "value": {"role": "user", "content": letter}})
    for number, request in enumerate(requests, start=1):
        who = {"provider": "mock", "module": "provider-mock"}
        log.append("model.call", {"call": f"1.{number}", "turn": 1, **who, "request": request})
    return log


def texts(log: MemoryLog) -> list[str]:
    found = requests_in(log.records())
    return ["".join(each["content"] for each in sent.messages) for sent in found]


def test_a_request_counts_from_the_one_before_it_unless_it_names_another() -> None:
    log = log_of(
        {"same": 0, "then": ["a", "b"]},
        {"same": 1, "then": ["c", "d"]},
        {"of": "1.1", "same": 2, "then": ["e"]},
        {"of": "1.2", "same": 3, "then": []},
        {"same": 2, "then": ["f"]},
        {"of": None, "same": 0, "then": ["f"]},
        {"same": 0, "then": ["a"]},
    )

    assert texts(log) == ["ab", "acd", "abe", "acd", "acf", "f", "a"]


def test_a_request_that_counts_from_one_that_is_lost_has_only_what_is_its_own() -> None:
    log = log_of({"same": 0, "then": ["a"]}, {"of": "1.9", "same": 1, "then": ["b"]})

    assert texts(log) == ["a", "b"]


def test_nothing_is_shared_with_a_request_of_an_earlier_opening() -> None:
    log = log_of({"same": 0, "then": ["a"]})
    log.append("session.opened", {})
    who = {"provider": "mock", "module": "provider-mock"}
    facts = {"call": "2.1", "turn": 2, **who, "request": {"same": 1, "then": ["b"]}}
    log.append("model.call", facts)

    assert texts(log) == ["a", "b"]


def test_each_request_can_be_asked_for_by_its_call() -> None:
    requests = Requests()
    for each in log_of({"same": 0, "then": ["a"]}, {"same": 1, "then": ["b"]}).records():
        requests.take(each)

    assert requests.calls == ["1.1", "1.2"]
    backwards = [requests.get(call) for call in ("1.2", "1.1", None, "1.3")]
    assert [sent and sent.digests for sent in backwards] == [("a", "b"), ("a",), ("a", "b"), None]


def test_an_open_question_is_a_span_that_its_decision_ends() -> None:
    log = MemoryLog("s")
    log.append("prompt", {"text": "Go.", "turn": 1})
    asked = {"prompt": "Allow?", "options": ["Allow", "Deny"], "tool_call_id": "call_1"}
    log.append("approval.asked", asked)
    (_, waiting) = timeline(log.records())
    log.append("approval", {**asked, "decision": "Deny", "seconds": 0.0})
    (_, decided) = timeline(log.records())

    assert (waiting.name, waiting.ok, waiting.parent) == ("waiting", None, "turn 1")
    assert (decided.name, decided.ok, decided.start) == ("Deny", False, waiting.start)


def test_a_record_costs_the_same_in_a_short_and_in_a_long_log() -> None:
    # A ratio, because other tests run meanwhile; `make bench B=journal` has the seconds too.
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.journal", "ratio"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
