"""Writing the log of a session; parts that requests have in common are written once."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any, Protocol

from amplifier_core import events
from amplifier_journal.errors import RecordingFailedError
from amplifier_journal.plain import digest_of, has_long_text, plain, plain_model, shortened
from amplifier_journal.records import Record
from amplifier_kit.calls.block_stream import BLOCK_END, BLOCK_START
from amplifier_kit.explained_error import ExplainedError

logger = logging.getLogger(__name__)

Scrub = Callable[[dict[str, Any]], dict[str, Any]]

# Fields left out of these events: they are in the record of the call that the event is about.
_RECORDED_APART = {
    events.PROVIDER_RESPONSE: ("response",),
    events.CONTENT_BLOCK_END: ("block", "usage"),
    events.TOOL_POST: ("result", "tool_result"),
}


# Progress that is shown live and not recorded; the result is in a record of its own.
_LIVE = frozenset({"tool:heartbeat", BLOCK_START, BLOCK_END})


def is_live(event: str) -> bool:
    """Whether an event only shows progress and is not recorded."""
    return event in _LIVE or event.endswith("delta")


def news_in(event: str, data: dict[str, Any], coordinator: Any, scrub: Scrub) -> dict[str, Any]:
    """Return the data of an event without fields recorded elsewhere or common to all events.

    Long texts are shortened, after secrets are removed: half of a secret would not be recognized.
    """
    own = {"session_id": coordinator.session_id, "parent_id": coordinator.parent_id}
    known = _RECORDED_APART.get(event, ())
    facts = {
        key: value
        for key, value in data.items()
        if key != "timestamp" and key not in known and not (key in own and own[key] == value)
    }
    if has_long_text(facts):
        return shortened(scrub(facts))
    return facts


class LogWriter(Protocol):
    """The write side of a backend: memory, a file or a database."""

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Write one record and return its number.

        One that `is_clean` has been scrubbed and contains no secret.
        """
        ...

    def sync(self) -> None:
        """Make all written records durable; blocks."""
        ...


class LogReader(Protocol):
    """The read side of a backend, for the log of one session."""

    @property
    def session_id(self) -> str:
        """The id of the session."""
        ...

    @property
    def metadata(self) -> dict[str, Any]:
        """Data about the session besides its records, such as its title."""
        ...

    def records(self, after: int = 0) -> Iterator[Record]:
        """Yield the records after number `after`, in order."""
        ...


class FollowedLog(LogReader, Protocol):
    """A log that can also be read while it grows."""

    def tail(self, after: int = 0) -> AsyncGenerator[Record]:
        """Yield the records after number `after`, and then each as it is written."""
        ...


class Log:
    """Writes records; after the first failure, which is kept, no more are written.

    Until `release`, records are held in memory: those of modules that are mounting come after the
    record that opens the session.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._held: list[tuple[str, dict[str, Any], bool]] | None = []
        self.failure: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether records are written immediately."""
        return self._held is None

    def release(self, kind: str, data: dict[str, Any]) -> None:
        """Write the opening record and then all records held so far."""
        held = self._held or []
        self._held = None
        for kind_, data_, is_clean in ((kind, data, False), *held):
            self.write(kind_, data_, is_clean=is_clean)

    def write(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int | None:
        """Write one record; returns its number, or None if it is held or could not be written."""
        if self._held is not None:
            self._held.append((kind, data, is_clean))
            return None
        # Not even if the writer works again: requests could not be rebuilt from a log with a gap.
        if self.failure is not None:
            return None
        try:
            return self._writer.append(kind, data, is_clean=is_clean)
        except (ExplainedError, OSError, ValueError, TypeError) as error:
            logger.exception("record not written kind=%s", kind)
            self.failure = error
            return None

    def sync(self) -> None:
        """Make all written records durable; blocks."""
        if self.failure is None:
            try:
                self._writer.sync()
            except (ExplainedError, OSError) as error:
                logger.exception("log not synced")
                self.failure = error

    def check(self) -> None:
        """Raise RecordingFailedError if the log could not be written."""
        if self.failure is not None:
            raise RecordingFailedError(
                "The session's log cannot be written, so the turn was stopped.",
                why=str(self.failure),
                fix=getattr(self.failure, "fix", "") or "amplifier doctor",
            ) from self.failure


_PARTS = frozenset({"messages", "tools"})


class Write(Protocol):
    """Writes one record; one that `is_clean` was scrubbed before."""

    def __call__(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> Any:
        """Write it."""
        ...


class RequestWriter:
    """Converts requests to records, in which each message and each set of tools is written once.

    `scrub` is applied before a part gets its digest: secrets could be guessed from a digest.
    """

    def __init__(
        self,
        write: Write,
        scrub: Callable[[dict[str, Any]], dict[str, Any]],
        known: Iterable[str] = (),
    ) -> None:
        self._write = write
        self._scrub = scrub
        self._known = set(known)
        # The digests in the log by the digests of unscrubbed values, which must stay in memory.
        self._clean: dict[str, str] = {}
        self._messages: list[Any] = []
        self._digests: list[str] = []
        self._hash = hashlib.sha256()
        self._tools: list[Any] = []
        self._tools_digest: str | None = None
        self._last_call: str | None = None

    def note_stored(self, message: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return a message without secrets, and its digest; requests refer to its own record."""
        clean, digest = self._scrubbed(message, digest_of(message))
        self._known.add(digest)
        return clean, digest

    def forget_clean(self) -> None:
        """Scrub all parts again from now on, because more secrets are known."""
        self._clean.clear()

    def take(self, request: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a request, after writing its new parts."""
        messages: list[Any] = list(getattr(request, "messages", None) or ())
        same = self._shared(messages)
        then = [self._part(plain_model(each)) for each in messages[same:]]
        # A rebuilt message may be equal to the one in its place before.
        while then and same < len(self._digests) and then[0] == self._digests[same]:
            del then[0]
            same += 1
        self._go_on(messages, same, then)
        fields = _fields(request)
        record: dict[str, Any] = {
            "of": self._last_call if same else None,
            "same": same,
            "then": then,
            "tools": self._describe(getattr(request, "tools", None)),
        }
        if fields:
            record["fields"] = fields
        if options:
            record["options"] = plain(options)
        # The hash of the messages is continued from request to request. Hashing all of them again
        # would cost more with every message of the session.
        whole = self._hash.copy()
        whole.update(digest_of([record["tools"], fields, record.get("options")]).encode())
        return {**record, "messages": len(messages), "digest": whole.hexdigest()[:32]}

    def note_sent(self, call: str) -> None:
        """Remember the call id of the last request, which the next one refers to."""
        self._last_call = call

    def _shared(self, messages: list[Any]) -> int:
        """Return how many leading messages are those of the request before."""
        before = self._messages
        # The usual case: messages were only appended. List comparison checks identity first, in C.
        if messages[: len(before)] == before:
            return len(before)
        pairs = enumerate(zip(before, messages, strict=False))
        return next((at for at, (old, new) in pairs if old is not new), len(messages))

    def _go_on(self, messages: list[Any], same: int, then: list[str]) -> None:
        if same < len(self._digests):
            del self._digests[same:]
            self._hash = hashlib.sha256("".join(self._digests).encode())
        self._digests += then
        self._hash.update("".join(then).encode())
        self._messages = messages

    def _describe(self, tools: list[Any] | None) -> str | None:
        if not tools:
            return None
        known = self._tools
        if len(tools) != len(known) or any(a is not b for a, b in zip(tools, known, strict=True)):
            self._tools = list(tools)
            self._tools_digest = self._part({"tools": [plain_model(each) for each in tools]})
        return self._tools_digest

    def _part(self, value: dict[str, Any]) -> str:
        given = digest_of(value)
        digest = self._clean.get(given)
        if digest is None or digest not in self._known:
            clean, digest = self._scrubbed(value, given)
            if digest not in self._known:
                self._known.add(digest)
                self._write("part", {"digest": digest, "value": clean}, is_clean=True)
        return digest

    def _scrubbed(self, value: dict[str, Any], given: str) -> tuple[dict[str, Any], str]:
        clean = self._scrub(value)
        digest = self._clean[given] = given if clean is value else digest_of(clean)
        return clean, digest


def _fields(request: Any) -> dict[str, Any]:
    """Return the fields of a request except messages and tools, without defaults."""
    dump: Any = getattr(request, "model_dump", None)
    if not callable(dump):
        return {"request": str(request)}
    fields: Any = dump(mode="json", exclude=_PARTS, exclude_none=True, exclude_defaults=True)
    return plain(fields)
