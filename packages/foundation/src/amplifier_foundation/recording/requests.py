"""Writing model requests: what a request shares with the one before is not written again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from amplifier_foundation.recording.plain import digest_of, plain, plain_model

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
