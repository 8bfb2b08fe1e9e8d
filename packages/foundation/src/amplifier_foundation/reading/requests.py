"""Model requests as they were sent, put together again from their parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["SentRequest", "requests_in"]


class SentRequest(NamedTuple):
    """One request: where it stands in the log, to whom it went, and all of it."""

    seq: int
    call: str
    turn: int
    provider: str
    module: str
    inside: str | None
    messages: list[dict[str, Any]]
    digests: list[str]
    tools: list[dict[str, Any]]
    fields: dict[str, Any]
    options: dict[str, Any]
    # How many of the first messages are those of the request before.
    same: int


def requests_in(records: Iterable[Any]) -> list[SentRequest]:
    """Return every request of a session, in order."""
    parts: dict[str, Any] = {}
    before: list[str] = []
    found: list[SentRequest] = []
    for record in records:
        data = record.data
        if record.kind == "part":
            parts[data["digest"]] = data["value"]
        elif record.kind == "message" and data.get("digest"):
            parts[data["digest"]] = data["message"]
        elif record.kind == "session.opened":
            before = []
        elif record.kind == "model.call":
            request = data["request"]
            digests = [*before[: request["same"]], *request["then"]]
            before = digests
            tools: dict[str, Any] = parts.get(request.get("tools") or "") or {}
            found.append(
                SentRequest(
                    record.seq,
                    data["call"],
                    data["turn"],
                    data["provider"],
                    data["module"],
                    data.get("inside"),
                    [parts.get(each) or _lost(each) for each in digests],
                    digests,
                    tools.get("tools") or [],
                    request.get("fields") or {},
                    request.get("options") or {},
                    request["same"],
                )
            )
    return found


def _lost(digest: str) -> dict[str, Any]:
    """Return what stands for a part whose record is damaged."""
    return {"role": "unknown", "content": f"[part {digest} is not in the log]"}
