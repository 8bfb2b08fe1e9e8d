"""The last request explained: what was in it and from whom, what it cost, and why it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from amplifier_kit.tokens import CHARS_PER_TOKEN


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


_DECISIONS = ("approval:granted", "approval:denied", "approval:required")


class Part(NamedTuple):
    """One part of a request: who put it there, and what it takes.

    `tokens` is an estimate by length, scaled to what the provider reports for the whole request.
    `role` is that of a message, or `tool_spec`. `cached` says whether the provider can have read
    it from its cache; None when it does not tell.
    """

    role: str
    origin: str
    chars: int
    tokens: int
    cached: bool | None
    value: Any


class Decision(NamedTuple):
    """What was decided about a tool call, and by which rule or person."""

    seq: int
    tool: str
    tool_call_id: str
    decision: str
    reason: str


class Explanation(NamedTuple):
    """Everything about the last model call of a session, and the turn it belongs to."""

    request: SentRequest
    parts: list[Part]
    usage: dict[str, Any]
    decisions: list[Decision]
    stop_reason: str
    why: str


def explain(records: Iterable[Any], call: str | None = None) -> Explanation | None:
    """Return the explanation of the last request, or of `call`; None when there is none."""
    known = list(records)
    sent = [each for each in requests_in(known) if call is None or each.call == call]
    if not sent:
        return None
    request = sent[-1]
    usage, finish_reason = _outcome(known, request.call)
    ending = _ending(known, request.turn, finish_reason)
    decisions = _decisions(known, request.turn)
    return Explanation(request, _parts(request, known, usage), usage, decisions, *ending)


def _parts(request: SentRequest, records: list[Any], usage: dict[str, Any]) -> list[Part]:
    origins = _origins(records)
    pieces: list[tuple[str, str, Any]] = []
    for digest, message in zip(request.digests, request.messages, strict=True):
        role = str(message.get("role"))
        pieces += _pieces(role, message, origins.get(digest))
    modules = _modules(records)
    for tool in request.tools:
        owner = modules.get(tool.get("name", ""), "a module")
        pieces.append(("tool_spec", f"tool `{tool.get('name')}` of {owner}", tool))
    lengths = [len(_text(value)) for _, _, value in pieces]
    total: int = usage.get("input_tokens") or sum(lengths) // CHARS_PER_TOKEN
    scale = total / max(1, sum(lengths))
    parts = [
        Part(role, origin, chars, round(chars * scale), None, value)
        for (role, origin, value), chars in zip(pieces, lengths, strict=True)
    ]
    return _with_cache(parts, usage.get("cache_read_tokens"))


def _with_cache(parts: list[Part], read: int | None) -> list[Part]:
    """Return the parts with those marked that a cache of so many tokens, from the start, covers."""
    if read is None:
        return parts
    # Vendors put the tools before the messages.
    in_order = sorted(range(len(parts)), key=lambda at: parts[at].role != "tool_spec")
    marked = [*parts]
    seen = 0
    for at in in_order:
        seen += parts[at].tokens
        marked[at] = parts[at]._replace(cached=seen <= read)
    return marked


def _pieces(role: str, message: dict[str, Any], stored: Any) -> list[tuple[str, str, Any]]:
    """Return a message in the pieces it was made of, each with its origin."""
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
    whose = {"user": "the person", "assistant": "the model", "system": "the app"}.get(role, role)
    return [(role, f"{whose}, in turn {stored}", content)]


def _instructions(role: str, content: str, parts: list[Any]) -> list[tuple[str, str, Any]]:
    pieces: list[tuple[str, str, Any]] = []
    at = 0
    for part in parts:
        pieces.append((role, str(part["origin"]), content[at : at + part["chars"]]))
        at += part["chars"] + len("\n\n")
    return pieces or [(role, "the bundle", content)]


def _origins(records: list[Any]) -> dict[str, int]:
    """Return the turn in which each stored message came, by digest."""
    return {
        each.data["digest"]: each.data.get("turn", 0)
        for each in records
        if each.kind == "message" and each.data.get("digest")
    }


def _modules(records: list[Any]) -> dict[str, str]:
    inventories = [each.data for each in records if each.kind == "mounted"]
    return {each["own_name"]: each["module"] for known in inventories for each in known["tools"]}


def _outcome(records: list[Any], call: str) -> tuple[dict[str, Any], str | None]:
    for record in records:
        if record.kind == "model.result" and record.data["call"] == call:
            response: dict[str, Any] = record.data.get("response") or {}
            return response.get("usage") or {}, response.get("finish_reason")
    return {}, None


def _decisions(records: list[Any], turn: int) -> list[Decision]:
    """Return what was decided in a turn about tool calls, by rule or by a person."""
    found: list[Decision] = []
    running = 0
    for record in records:
        if record.kind == "prompt":
            running = record.data["turn"]
        elif running == turn and record.kind == "event" and record.data["name"] in _DECISIONS:
            facts = record.data["data"]
            tool = str(facts.get("tool_name"))
            call_id = str(facts.get("tool_call_id"))
            verdict = record.data["name"].partition(":")[2]
            found.append(Decision(record.seq, tool, call_id, verdict, str(facts.get("reason"))))
    return found


def _ending(records: list[Any], turn: int, finish_reason: str | None) -> tuple[str, str]:
    for record in records:
        if record.kind == "turn.ended" and record.data["turn"] == turn:
            reason = record.data["stop_reason"]
            error: dict[str, Any] = record.data.get("error") or {}
            if error:
                return reason, f"{error['type']}: {error['message']}"
            if finish_reason:
                told = f"the provider reports `{finish_reason}`"
            else:
                told = ""
            return reason, _WHY.get(reason, told) or told
    return "running", "the turn has not ended in the record"


_WHY = {
    "limit": "the step limit is reached",
    "deadline": "the time is used up",
    "stuck": "the same calls were made again and again",
    "denied": "a hook denied the request",
    "cancelled": "somebody cancelled the turn",
    "invalid_output": "the answer does not fit its schema",
}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
