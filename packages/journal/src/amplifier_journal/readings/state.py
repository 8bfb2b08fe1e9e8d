"""Where a session stands: what its records add up to, so that it can go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from amplifier_journal.readings.spending import cost_of_result, is_unpriced

__all__ = ["SessionState", "state_of"]


@dataclass
class SessionState:
    """The conversation and everything else that outlives the process that recorded it.

    `was_rewound` says that the messages were set back on purpose, and not by the memory itself.
    """

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    turns: int = 0
    openings: int = 0
    digests: set[str] = field(default_factory=set[str])
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    plan: dict[str, Any] | None = None
    config_digest: str | None = None
    was_rewound: bool = False
    cost_usd: Decimal | None = None
    unpriced_calls: int = 0
    children: list[str] = field(default_factory=list[str])
    first_prompt: str | None = None


def state_of(records: Iterable[Any], before: SessionState | None = None) -> SessionState:
    """Return what the records add up to; any number of them, from the first on, will do.

    With `before`, they are the ones that follow on it.
    """
    if before is None:
        state = SessionState()
    else:
        state = replace(before, messages=[*before.messages])
    composite = set[str]()
    for record in records:
        take = _TAKERS.get(record.kind)
        if take is not None:
            take(state, record.data, composite)
    return state


def _opened(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    state.openings += 1
    state.plan, state.config_digest = data.get("plan"), data.get("config_digest")


def _prompt(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    state.turns = max(state.turns, data.get("turn") or 0)
    if state.first_prompt is None:
        state.first_prompt = data.get("text")


def _message(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    state.messages.append(data["message"])
    state.was_rewound = False
    if data.get("digest"):
        state.digests.add(data["digest"])


def _messages(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    state.messages = list(data["messages"])
    state.was_rewound = data.get("reason") == "rewind"


def _part(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    state.digests.add(data["digest"])


def _model_call(state: SessionState, data: dict[str, Any], composite: set[str]) -> None:
    if data.get("inside"):
        composite.add(data["inside"])


def _model_result(state: SessionState, data: dict[str, Any], composite: set[str]) -> None:
    if data.get("call") in composite:
        return
    cost = cost_of_result(data)
    if cost is not None:
        state.cost_usd = cost + (state.cost_usd or 0)
    state.unpriced_calls += is_unpriced(data)


def _state(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    state.values = data.get("values") or {}


def _child(state: SessionState, data: dict[str, Any], _: set[str]) -> None:
    # One that was resumed is there once more.
    if data["session_id"] not in state.children:
        state.children.append(data["session_id"])


_TAKERS = {
    "session.opened": _opened,
    "prompt": _prompt,
    "message": _message,
    "messages": _messages,
    "part": _part,
    "model.call": _model_call,
    "model.result": _model_result,
    "state": _state,
    "child": _child,
}
