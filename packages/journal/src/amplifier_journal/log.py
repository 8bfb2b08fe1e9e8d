"""The log of a session as the recorder writes it; parts that requests share are written once."""

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

# What these carry is in the record of the call that they are about.
_RECORDED_APART = {
    events.PROVIDER_RESPONSE: ("response",),
    events.CONTENT_BLOCK_END: ("block", "usage"),
    events.TOOL_POST: ("result", "tool_result"),
}


# Shown while it happens, and not kept: what came of it is in a record.
_LIVE = frozenset({"tool:heartbeat", BLOCK_START, BLOCK_END})


def is_live(event: str) -> bool:
    """Whether an event only shows progress, so that no record is made of it."""
    return event in _LIVE or event.endswith("delta")


def news_in(event: str, data: dict[str, Any], coordinator: Any, scrub: Scrub) -> dict[str, Any]:
    """Return the data of an event without what is recorded apart, and what every event has.

    Long texts are shortened; secrets are taken out before, because a part of one is not found.
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
    """What a log is written with: memory, a file or a database."""

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Write one record and return its number; written when this returns.

        One that `is_clean` has no secret in it, because it was scrubbed before.
        """
        ...

    def sync(self) -> None:
        """Make durable what was written; blocks."""
        ...


class LogReader(Protocol):
    """What the log of one session is read with."""

    @property
    def session_id(self) -> str:
        """The session that the log is of."""
        ...

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of the session besides its records, such as its title."""
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
    """Writes records; the first failure is kept, and nothing is written after it.

    Until `release` records wait in memory: what modules say while they mount comes behind the
    record that opens the session.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._held: list[tuple[str, dict[str, Any], bool]] | None = []
        self.failure: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether records are written as they come."""
        return self._held is None

    def release(self, kind: str, data: dict[str, Any]) -> None:
        """Write the opening record and everything that waited for it."""
        held = self._held or []
        self._held = None
        for kind_, data_, is_clean in ((kind, data, False), *held):
            self.write(kind_, data_, is_clean=is_clean)

    def write(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int | None:
        """Write one record; returns its number, None when it waits or could not be written."""
        if self._held is not None:
            self._held.append((kind, data, is_clean))
            return None
        if self.failure is not None:
            return None
        try:
            return self._writer.append(kind, data, is_clean=is_clean)
        except (ExplainedError, OSError, ValueError, TypeError) as error:
            logger.exception("record not written kind=%s", kind)
            self.failure = error
            return None

    def sync(self) -> None:
        """Put everything onto the disk; blocks."""
        if self.failure is None:
            try:
                self._writer.sync()
            except (ExplainedError, OSError) as error:
                logger.exception("log not synced")
                self.failure = error

    def check(self) -> None:
        """Raise RecordingFailedError when the log takes no more records."""
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


class Requests:
    """Turns requests into records: each message and each set of tools is written once.

    `scrub` is applied before a part gets its digest, so that no digest tells of a secret.
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
        # By the digest of what was given, which stays in memory: the digest that the log has.
        self._clean: dict[str, str] = {}
        self._messages: list[Any] = []
        self._digests: list[str] = []
        self._hash = hashlib.sha256()
        self._tools: list[Any] = []
        self._tools_digest: str | None = None
        self._last_call: str | None = None

    def note_stored(self, message: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return a message without secrets, and its digest: its own record holds it, no part."""
        clean, digest = self._scrubbed(message, digest_of(message))
        self._known.add(digest)
        return clean, digest

    def forget_clean(self) -> None:
        """Look at everything anew: there may be more secrets to know."""
        self._clean.clear()

    def take(self, request: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a request, after writing the parts that are new."""
        messages: list[Any] = list(getattr(request, "messages", None) or ())
        same = self._shared(messages)
        then = [self._part(plain_model(each)) for each in messages[same:]]
        # A message that was made anew may still be the one it was.
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
        whole = self._hash.copy()
        whole.update(digest_of([record["tools"], fields, record.get("options")]).encode())
        return {**record, "messages": len(messages), "digest": whole.hexdigest()[:32]}

    def note_sent(self, call: str) -> None:
        """Remember as which call the last request was sent: the next one refers to it."""
        self._last_call = call

    def _shared(self, messages: list[Any]) -> int:
        """Return how many of the first messages are those of the request before."""
        before = self._messages
        # The usual case, compared by address and in one go: nothing but more behind.
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
    """Return what a request says besides messages and tools, without what is left to others."""
    dump: Any = getattr(request, "model_dump", None)
    if not callable(dump):
        return {"request": str(request)}
    fields: Any = dump(mode="json", exclude=_PARTS, exclude_none=True, exclude_defaults=True)
    return plain(fields)
