"""A log in memory: what it keeps, and that readings and replay read it like any other."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_journal.log import LogReader, LogWriter
from amplifier_journal.memory import MemoryLog
from amplifier_journal.readings.state import state_of
from amplifier_journal.recorder import Recorder
from amplifier_journal.replay import replay
from amplifier_kit.secrets.messages import MessageScrubber
from end_to_end.recorded_sessions import call, plan_of


def test_records_are_numbered_from_one_and_read_in_order() -> None:
    log = MemoryLog("s1", {"title": "Hello"})
    writer: LogWriter = log
    reader: LogReader = log

    numbers = [writer.append(kind, {}) for kind in ("prompt", "message", "turn.ended")]
    writer.sync()

    assert numbers == [1, 2, 3]
    assert [(each.seq, each.kind) for each in reader.records(after=1)] == [
        (2, "message"),
        (3, "turn.ended"),
    ]
    assert (reader.session_id, reader.metadata) == ("s1", {"title": "Hello"})


def test_a_record_is_json_and_does_not_change_with_what_it_was_made_of() -> None:
    log = MemoryLog("s1")
    data: dict[str, Any] = {"cost": Decimal("0.10"), "path": ("a", "b")}

    log.append("event", data)
    data["cost"] = None

    (record,) = log.records()
    assert record.data == {"cost": "0.10", "path": ["a", "b"]}
    assert record.at.endswith("Z")


def test_what_json_cannot_hold_is_refused() -> None:
    log = MemoryLog("s1")

    with pytest.raises(ValueError, match="cannot be recorded"):
        log.append("event", {"value": object()})

    assert log.written == []


def test_secrets_are_taken_out_of_what_is_not_clean() -> None:
    log = MemoryLog("s1", scrub=lambda data: dict.fromkeys(data, "[REDACTED]"))

    log.append("event", {"key": "secret"})
    log.append("part", {"key": "clean"}, is_clean=True)

    assert [each.data["key"] for each in log.records()] == ["[REDACTED]", "clean"]


async def test_a_session_that_was_recorded_in_memory_replays() -> None:
    steps = [{"tool_calls": [call("todo")]}, "Nothing is left."]
    session = AmplifierSession(plan_of(steps, tools=({"module": "tool-todo"},)))
    scrubber = MessageScrubber(session.coordinator)
    log = MemoryLog(session.session_id, scrub=scrubber.scrub)
    recorder = Recorder(session.coordinator, log, scrubber)
    await recorder.listen()
    await session.initialize()
    await recorder.attach()

    await recorder.begin_turn("What is left?")
    answer = await session.execute("What is left?")
    await recorder.end_turn(answer, None)
    await session.cleanup()

    assert state_of(log.records()).turns == 1
    assert str(await replay(log)) == "1 turn(s) replayed without a difference."
