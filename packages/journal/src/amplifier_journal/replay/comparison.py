"""Compares two runs of a session, and reports where they differ."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from amplifier_journal.readings.plan_changes import plan_changes
from amplifier_journal.readings.requests import SentRequest, requests_in
from amplifier_journal.readings.state import state_of

if TYPE_CHECKING:
    from amplifier_journal.log import LogReader

T = TypeVar("T")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-[0-9a-f]{8})*\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_CLOCK = frozenset({"timestamp", "seconds", "at", "since", "began", "started_at", "ended_at"})
_CLOCK_ENDS = ("_ms", "_seconds", "_at")
# Ids that are new in every run and may have any form.
_FRESH = frozenset({"request_id", "session_id", "parent_id", "child_session_id", "grant_id"})


class Normalizer:
    """Removes from the data of one run what differs in every run: times and random ids."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def data(self, value: Any) -> Any:
        """Return the data of a message or request without times, and with numbered ids."""
        return self._walk(value, drop_clock=False)

    def event(self, value: Any) -> Any:
        """Return the data of an event, also without fields that have times and durations."""
        return self._walk(value, drop_clock=True)

    def _walk(self, value: Any, *, drop_clock: bool) -> Any:
        if isinstance(value, str):
            # Shorter texts have no room for a time or an id.
            if len(value) > 9:
                return _TIME.sub("<time>", _UUID.sub(self._name, value))
            return value
        if isinstance(value, list):
            return [self._walk(each, drop_clock=drop_clock) for each in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        items = cast("dict[str, Any]", value).items()
        return {
            key: self._id(each)
            if key in _FRESH and isinstance(each, str)
            else self._walk(each, drop_clock=drop_clock)
            for key, each in items
            if key != "timestamp" and not (drop_clock and _is_clock(key))
        }

    def _name(self, match: re.Match[str]) -> str:
        return self._id(match[0])

    def _id(self, value: str) -> str:
        # Numbered and not dropped: both runs have to use the same id in the same places.
        return self._ids.setdefault(value, f"<id {len(self._ids) + 1}>")


def _is_clock(key: str) -> bool:
    return key in _CLOCK or key.endswith(_CLOCK_ENDS)


# Emitted by a timer, the app or the process that runs a turn, and not by what a session does in its
# turns. A denial is in the result of the call, which is compared; logs of earlier versions do not
# have the event. So is the output of a command, of which a guard holds the last word back until the
# call has ended.
_UNCOMPARED = (
    ":heartbeat",
    ":progress",
    "session:start",
    "session:resume",
    "session:end",
    "tool:denied",
    "tool:output",
    "turn:resumed",
    "turn:diverged",
)
_LONGEST_DIFF = 60
_SIDES = ("recorded", "replayed")


class Difference(NamedTuple):
    """One place where two runs differ: the record's number, its turn, and what changed."""

    kind: str
    turn: int
    seq: int
    about: str
    diff: str

    def __str__(self) -> str:
        head = f"turn {self.turn}, record {self.seq}: {self.about}"
        if self.diff:
            return f"{head}\n{self.diff}"
        return head


class _Fact(NamedTuple):
    """The part of a record that is compared."""

    kind: str
    turn: int
    seq: int
    about: str
    value: Any


def diff(a: LogReader, b: LogReader) -> list[Difference]:
    """Return how session `b` differs from `a`: plan, messages, tools, requests, events, answers."""
    before = list(a.records())
    after = list(b.records())
    changes = plan_changes(state_of(before).plan, state_of(after).plan)
    plan = [Difference("plan", 0, 0, each, "") for each in changes]
    return [*plan, *compare(before, after)]


def compare(
    before: list[Any],
    after: list[Any],
    *,
    since: int = 0,
    open_ended: bool = False,
    paired_only: bool = False,
) -> list[Difference]:
    """Return how the turns of the second run differ from those of the first, from `since` on.

    Compared are messages, tool inputs, requests, events and answers. The numbers are those of the
    first run's records; a message that differs is reported once. With `open_ended` the first run
    was cut short, and what the second has beyond it does not count. With `paired_only` the second
    run may have been cut short too, so what only one of them has does not count.
    """
    found: list[Difference] = []
    old_turns = _in_turns(before, since)
    new_turns = _in_turns(after)
    is_child = any(e.kind == "session.opened" and e.data.get("parent_id") for e in before)
    if not open_ended:
        # Not for a run that was cut short: the events that it lacks would shift all others.
        old_turns, new_turns = _call_by_call(old_turns), _call_by_call(new_turns)
    old, new = (_facts(each, is_child=is_child) for each in (old_turns, new_turns))
    told: set[str] = set()
    # Messages first: one that differs is not reported again for each request that has it.
    for kind in ("message", "tool input", "answer", "event"):
        pairs = zip_longest(old.get(kind, ()), new.get(kind, ()))
        for was, now in _that_count(pairs, open_ended, paired_only):
            found += _differences(was, now)
            told |= _texts_of(was, now) if kind == "message" else set()
    # One for each run, because ids are numbered in the order in which a run has them.
    normals = Normalizer(), Normalizer()
    old_requests = _requests(before, old_turns)
    new_requests = _requests(after, new_turns)
    if _absent_hooks(before, after):
        stored = _stored(before)
    else:
        stored = None
    sent = zip_longest(old_requests, new_requests)
    for was, now in _that_count(sent, open_ended, paired_only):
        if was is not None and now is not None and stored is not None:
            was = _without_absent(was, now, stored)
        found += request_differences(was, now, normals, told)
    return sorted(found, key=lambda each: each.seq)


def _that_count(
    pairs: Iterable[tuple[T | None, T | None]], open_ended: bool, paired_only: bool
) -> Iterator[tuple[T | None, T | None]]:
    """Yield the pairs that `compare` has to look at."""
    for was, now in pairs:
        is_pair = was is not None and now is not None
        if is_pair or not (paired_only or (was is None and open_ended)):
            yield was, now


def _in_turns(records: list[Any], since: int = 0) -> list[Any]:
    """Return the records inside of turns: between turns the app acts, not the session."""
    inside = list[Any]()
    is_running = False
    for record in records:
        is_running = is_running or record.kind == "prompt"
        if is_running and record.seq >= since:
            inside.append(record)
        is_running = is_running and record.kind not in ("turn.ended", "session.opened")
    return inside


def _absent_hooks(before: list[Any], after: list[Any]) -> set[str]:
    """Return the handlers that only the first run had: those of modules that are mocked."""
    ours, theirs = (
        {
            name
            for record in records
            if record.kind == "mounted"
            for names in record.data.get("hooks", {}).values()
            for name in names
        }
        for records in (before, after)
    )
    return ours - theirs


def _stored(records: list[Any]) -> set[str]:
    return {each.data["digest"] for each in records if each.kind == "message"}


def _without_absent(was: SentRequest, now: SentRequest, stored: set[str]) -> SentRequest:
    """Return a request without the messages that absent hooks added to this request only.

    What the hooks of a mocked module add is taken as given, like its results.
    """
    known = [_text(each) for each in now.messages]
    kept = [
        message
        for digest, message in zip(was.digests, was.messages, strict=True)
        if digest in stored or _text(message) in known
    ]
    if len(kept) == len(now.messages):
        return was._replace(messages=kept)
    return was


def _requests(records: list[Any], in_turns: list[Any]) -> list[SentRequest]:
    wanted = {each.seq for each in in_turns}
    return [each for each in requests_in(records) if each.seq in wanted]


def _facts(records: list[Any], *, is_child: bool) -> dict[str, list[_Fact]]:
    facts: dict[str, list[_Fact]] = {}
    normal = Normalizer()
    turn = 0
    for record in records:
        if record.kind == "prompt":
            turn = record.data.get("turn", turn)
        fact = _fact(record, turn, normal)
        if fact is None:
            continue
        known = facts.setdefault(fact.kind, [])
        # In a child, the guards of its parent emit the same events as its own; a replay has only
        # its own.
        is_again = (
            is_child and fact.kind == "event" and bool(known) and known[-1].value == fact.value
        )
        if not is_again:
            known.append(fact)
    return facts


def _call_by_call(records: list[Any]) -> list[Any]:
    """Return the records with the events of parallel tool calls sorted by call.

    Which of two parallel calls is asked about or ends first is chance, and no difference.
    """
    ordered = records.copy()
    events = [at for at, record in enumerate(records) if _is_compared_event(record)]
    for is_of_calls, group in groupby(events, lambda at: _tool_call_of(records[at]) != ""):
        if is_of_calls:
            places = list(group)
            for place, at in zip(
                places, sorted(places, key=lambda at: _tool_call_of(records[at])), strict=True
            ):
                ordered[place] = records[at]
    return ordered


def _is_compared_event(record: Any) -> bool:
    if record.kind != "event" or record.data.get("inside"):
        return False
    return not record.data["name"].endswith(_UNCOMPARED)


def _tool_call_of(record: Any) -> str:
    data: Any = record.data["data"]
    if not isinstance(data, dict):
        return ""
    return str(cast("dict[str, Any]", data).get("tool_call_id") or "")


def _fact(record: Any, turn: int, normal: Normalizer) -> _Fact | None:
    data = record.data
    kind = record.kind
    if kind == "message":
        message = normal.data(data["message"])
        about = f"the {message.get('role')} message"
        return _Fact("message", turn, record.seq, about, message)
    if kind == "messages":
        value = normal.data(data["messages"])
        return _Fact("message", turn, record.seq, "the messages that were set", value)
    if kind == "tool.call":
        value = {"tool": data["tool"], "input": normal.data(data["input"])}
        return _Fact("tool input", turn, record.seq, f"the input of `{data['tool']}`", value)
    if kind == "turn.ended":
        outcome = {key: data.get(key) for key in ("stop_reason", "answer")}
        error: dict[str, Any] = data.get("error") or {}
        failure = {key: error.get(key) for key in ("type", "message") if error}
        value = normal.data({**outcome, **failure})
        return _Fact("answer", turn, record.seq, "how the turn ended", value)
    if _is_compared_event(record):
        value = {"event": data["name"], "data": normal.event(data["data"])}
        return _Fact("event", turn, record.seq, f"the event {data['name']}", value)
    return None


def _differences(was: _Fact | None, now: _Fact | None) -> list[Difference]:
    if was is None or now is None:
        fact = was or now
        if fact is None:
            return []
        about = f"{fact.about} {'is missing' if now is None else 'is new'}"
        shown = _lines(fact.value)
        diff = "\n".join(f"{'-' if now is None else '+'}{line}" for line in shown[:_LONGEST_DIFF])
        return [Difference(fact.kind, fact.turn, fact.seq, about, diff)]
    if was.value == now.value:
        return []
    diff = unified(was.value, now.value)
    return [Difference(was.kind, was.turn, was.seq, f"{was.about} differs", diff)]


def request_differences(
    was: SentRequest | None,
    now: SentRequest | None,
    normals: tuple[Normalizer, Normalizer],
    told: set[str],
) -> list[Difference]:
    """Return how a request differs, but for messages in `told`; `normals` are of the two runs."""
    if was is None or now is None:
        one = was or now
        if one is None:
            return []
        about = f"a request to `{one.provider}` {'is missing' if now is None else 'is new'}"
        return [Difference("request", one.turn, one.seq, about, "")]
    old, new = normals
    found: list[Difference] = []

    def note(about: str, before: Any, after: Any) -> None:
        if before != after:
            about = f"{about} of the request to `{was.provider}` differs"
            diff = unified(before, after)
            found.append(Difference("request", was.turn, was.seq, about, diff))

    for number, pair in enumerate(zip_longest(was.messages, now.messages), 1):
        one = old.data(pair[0])
        other = new.data(pair[1])
        if _text(one) + _text(other) not in told:
            note(f"message {number}", one, other)
            told.add(_text(one) + _text(other))
    note("the provider", was.provider, now.provider)
    note("the list of tools", old.data(was.tools), new.data(now.tools))
    note("a setting", old.data([was.fields, was.options]), new.data([now.fields, now.options]))
    return found


def _texts_of(was: _Fact | None, now: _Fact | None) -> set[str]:
    if was is None or now is None:
        return set()
    return {_text(was.value) + _text(now.value)}


def unified(before: Any, after: Any) -> str:
    """Return the difference of two values as a unified diff."""
    sides = _lines(before), _lines(after)
    lines = list(difflib.unified_diff(*sides, *_SIDES, n=2, lineterm=""))
    more = len(lines) - _LONGEST_DIFF
    return "\n".join(lines if more <= 0 else [*lines[:_LONGEST_DIFF], f"... {more} more lines"])


def _lines(value: Any) -> list[str]:
    if isinstance(value, str):
        text = value
    else:
        text = _text(value, indent=2)
    return [line for each in text.splitlines() for line in each.split("\\n")]


def _text(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)
