"""Explains a request: what was in it, who added it, what it cost, and why the turn stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from amplifier_journal.readings.requests import Requests, SentRequest
from amplifier_kit.tokens import CHARS_PER_TOKEN

_DECISIONS = ("approval:granted", "approval:denied", "approval:required")


class Part(NamedTuple):
    """One part of a request: who added it, and its size.

    `tokens` is an estimate by length, scaled to what the provider reports for the whole request.
    `role` is that of a message, or `tool_spec`. `cached` is whether the provider can have read it
    from its cache; None if it does not report that.
    """

    role: str
    origin: str
    chars: int
    tokens: int
    cached: bool | None
    value: Any


class Decision(NamedTuple):
    """A decision about a tool call, with the rule or the user that decided."""

    seq: int
    tool: str
    tool_call_id: str
    decision: str
    reason: str


class Explanation(NamedTuple):
    """The explanation of one model call, and of the turn it belongs to."""

    request: SentRequest
    parts: list[Part]
    usage: dict[str, Any]
    decisions: list[Decision]
    stop_reason: str
    why: str


class Explanations:
    """Collects what explains requests, record by record."""

    def __init__(self) -> None:
        self._requests = Requests()
        # The turn in which a stored message was added, by its digest.
        self._origins: dict[str, int] = {}
        # The module of each tool.
        self._modules: dict[str, str] = {}
        # The answer of each model call.
        self._responses: dict[str, dict[str, Any]] = {}
        # Decisions by rules or the user, and the end of the turn, by turn.
        self._decisions: dict[int, list[Decision]] = {}
        self._endings: dict[int, dict[str, Any]] = {}
        self._turn = 0

    def take(self, record: Any) -> None:
        """Add one record, in the order of the log."""
        self._requests.take(record)
        data: dict[str, Any] = record.data
        if record.kind == "prompt":
            self._turn = data["turn"]
        elif record.kind == "message" and data.get("digest"):
            self._origins[data["digest"]] = data.get("turn", 0)
        elif record.kind == "mounted":
            self._modules |= {each["own_name"]: each["module"] for each in data["tools"]}
        elif record.kind == "model.result":
            self._responses[data["call"]] = data.get("response") or {}
        elif record.kind == "event" and data["name"] in _DECISIONS:
            self._decisions.setdefault(self._turn, []).append(_decision(record))
        elif record.kind == "turn.ended":
            self._endings[data["turn"]] = data

    def get(self, call: str | None = None) -> Explanation | None:
        """Return the explanation of a call, or of the last one; None if there is none."""
        request = self._requests.get(call)
        if request is None:
            return None
        response = self._responses.get(request.call) or {}
        usage: dict[str, Any] = response.get("usage") or {}
        return Explanation(
            request,
            self._parts(request, usage),
            usage,
            list(self._decisions.get(request.turn, [])),
            *_ending(self._endings.get(request.turn), response.get("finish_reason")),
        )

    def _parts(self, request: SentRequest, usage: dict[str, Any]) -> list[Part]:
        pieces: list[tuple[str, str, Any]] = []
        for digest, message in zip(request.digests, request.messages, strict=True):
            role = str(message.get("role"))
            pieces += _pieces(role, message, self._origins.get(digest))
        for tool in request.tools:
            owner = self._modules.get(tool.get("name", ""), "a module")
            pieces.append(("tool_spec", f"tool `{tool.get('name')}` of {owner}", tool))
        lengths = [len(_text(value)) for _, _, value in pieces]
        total: int = usage.get("input_tokens") or sum(lengths) // CHARS_PER_TOKEN
        scale = total / max(1, sum(lengths))
        parts = [
            Part(role, origin, chars, round(chars * scale), None, value)
            for (role, origin, value), chars in zip(pieces, lengths, strict=True)
        ]
        return _with_cache(parts, usage.get("cache_read_tokens"))


def explain(records: Iterable[Any], call: str | None = None) -> Explanation | None:
    """Return the explanation of `call`, or of the last request; None if there is none."""
    explanations = Explanations()
    for record in records:
        explanations.take(record)
    return explanations.get(call)


def _with_cache(parts: list[Part], read: int | None) -> list[Part]:
    """Return the parts, marked by whether the first `read` tokens of the request cover them."""
    if read is None:
        return parts
    # Vendors put the tools before the messages, and a cache covers a prefix.
    in_order = sorted(range(len(parts)), key=lambda at: parts[at].role != "tool_spec")
    marked = [*parts]
    seen = 0
    for at in in_order:
        seen += parts[at].tokens
        marked[at] = parts[at]._replace(cached=seen <= read)
    return marked


def _pieces(role: str, message: dict[str, Any], stored: Any) -> list[tuple[str, str, Any]]:
    """Return the pieces that a message was composed of, each with its origin."""
    metadata: dict[str, Any] = message.get("metadata") or {}
    content: Any = message.get("content")
    if metadata.get("source") == "bundle" and isinstance(content, str):
        return _instructions(role, content, metadata.get("parts") or [])
    if metadata.get("source") == "hook":
        return [(role, f"hook `{metadata.get('hook_name')}` at {metadata.get('event')}", content)]
    if stored is None:
        return [(role, "added to this request only, by a hook, the loop or the memory", content)]
    if role == "tool":
        return [(role, f"result of `{message.get('name')}` in turn {stored}", content)]
    whose = {"user": "the user", "assistant": "the model", "system": "the app"}.get(role, role)
    return [(role, f"{whose}, in turn {stored}", content)]


def _instructions(role: str, content: str, parts: list[Any]) -> list[tuple[str, str, Any]]:
    pieces: list[tuple[str, str, Any]] = []
    at = 0
    for part in parts:
        pieces.append((role, str(part["origin"]), content[at : at + part["chars"]]))
        # The bundle joins its parts with an empty line.
        at += part["chars"] + len("\n\n")
    return pieces or [(role, "the bundle", content)]


def _decision(record: Any) -> Decision:
    facts: dict[str, Any] = record.data["data"]
    return Decision(
        record.seq,
        str(facts.get("tool_name")),
        str(facts.get("tool_call_id")),
        record.data["name"].partition(":")[2],
        str(facts.get("reason")),
    )


def _ending(ended: dict[str, Any] | None, finish_reason: str | None) -> tuple[str, str]:
    """Return the stop reason of a turn, and its explanation."""
    if ended is None:
        return "running", "the turn has not ended in the record"
    reason = ended["stop_reason"]
    error: dict[str, Any] = ended.get("error") or {}
    if error:
        return reason, f"{error['type']}: {error['message']}"
    if reason in _WHY:
        return reason, _WHY[reason]
    return reason, f"the provider reports `{finish_reason}`" if finish_reason else ""


_WHY = {
    "limit": "the step limit is reached",
    "deadline": "the time is used up",
    "stuck": "the same calls were made again and again",
    "denied": "a hook denied the request",
    "budget": "the budget is used up",
    "cancelled": "somebody cancelled the turn",
    "invalid_output": "the answer does not fit its schema",
}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
