"""The state of a session that its records add up to, for continuing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from amplifier_journal.readings.spending import cost_of_result, is_unpriced

__all__ = ["SessionState", "state_of"]


@dataclass
class SessionState:
    """The conversation and everything else that survives the process that recorded it.

    `was_rewound` is set if the user rewound the messages, and not if the context replaced them.
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
    # An ordered set of session ids: a child that was resumed is recorded again.
    children: dict[str, None] = field(default_factory=dict[str, None])
    first_prompt: str | None = None
    # Calls that only called other models; their cost is that of those calls.
    composite_calls: set[str] = field(default_factory=set[str], repr=False)

    def take(self, record: Any) -> None:
        """Add one record, in the order of the log."""
        take = _TAKERS.get(record.kind)
        if take is not None:
            take(self, record.data)

    def copy(self) -> SessionState:
        """Return a copy that further records can be added to without changing this one."""
        return replace(
            self,
            messages=[*self.messages],
            digests={*self.digests},
            values={**self.values},
            children={**self.children},
            composite_calls={*self.composite_calls},
        )


def state_of(records: Iterable[Any], before: SessionState | None = None) -> SessionState:
    """Return the state after the records, which may be any prefix of a log.

    With `before`, they are the ones that follow that state.
    """
    state = SessionState() if before is None else before.copy()
    for record in records:
        state.take(record)
    return state


def _opened(state: SessionState, data: dict[str, Any]) -> None:
    state.openings += 1
    state.plan = data.get("plan")
    state.config_digest = data.get("config_digest")


def _prompt(state: SessionState, data: dict[str, Any]) -> None:
    state.turns = max(state.turns, data.get("turn") or 0)
    if state.first_prompt is None:
        state.first_prompt = data.get("text")


def _message(state: SessionState, data: dict[str, Any]) -> None:
    state.messages.append(data["message"])
    state.was_rewound = False
    if data.get("digest"):
        state.digests.add(data["digest"])


def _messages(state: SessionState, data: dict[str, Any]) -> None:
    state.messages = list(data["messages"])
    state.was_rewound = data.get("reason") == "rewind"


def _part(state: SessionState, data: dict[str, Any]) -> None:
    state.digests.add(data["digest"])


def _model_call(state: SessionState, data: dict[str, Any]) -> None:
    if data.get("inside"):
        state.composite_calls.add(data["inside"])


def _model_result(state: SessionState, data: dict[str, Any]) -> None:
    if data.get("call") in state.composite_calls:
        return
    cost = cost_of_result(data)
    if cost is not None:
        state.cost_usd = cost + (state.cost_usd or 0)
    state.unpriced_calls += is_unpriced(data)


def _state(state: SessionState, data: dict[str, Any]) -> None:
    state.values = data.get("values") or {}


def _child(state: SessionState, data: dict[str, Any]) -> None:
    state.children[data["session_id"]] = None


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
