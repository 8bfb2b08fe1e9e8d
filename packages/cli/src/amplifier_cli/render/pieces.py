"""Split the items of a session into the parts that are shown, with their wording."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from amplifier_cli.render.markdown import blocks_of
from amplifier_cli.render.plain import duration
from amplifier_journal.readings.items import (
    Answer,
    Cancellation,
    Child,
    Fork,
    Gap,
    HookFailure,
    Item,
    Level,
    Notice,
    Question,
    Retry,
    Rewind,
    TurnEnd,
)

_CUT_SHORT = "The process ended here. What was said and done is kept."
_ENDINGS = {
    "cancelled": "Stopped. What was said and done is kept.",
    "limit": "The turn came to its limit of steps.",
    "deadline": "The turn came to the end of its time.",
    "stuck": "The turn was ended: the model repeated itself.",
    "budget": "The turn came to the end of its budget.",
    "truncated": "The answer was cut by the provider.",
    "filtered": "The answer was filtered by the provider.",
    "invalid_output": "The answer does not have the form that was asked for.",
}


@dataclass(frozen=True)
class Decision:
    """The answer to the question before it."""

    text: str


@dataclass(frozen=True)
class Ending:
    """How a turn ended, if not with a plain answer."""

    text: str
    level: Level = "warning"


Shown: TypeAlias = Item | Decision | Ending


def pieces(item: Shown) -> list[Shown]:
    """Return the parts in which an item is shown: an answer block by block."""
    match item:
        case Answer():
            return [Answer(block) for block in blocks_of(item.text)]
        case Question(decision=str(decision)):
            return [replace(item, decision=None), Decision(decision)]
        case TurnEnd():
            return _ending(item)
        case Gap():
            return [Ending(_CUT_SHORT)]
        case Retry():
            wait = "" if item.seconds is None else f" in {duration(item.seconds)}"
            return [Notice(f"{item.error_type}: trying again{wait}.", "warning", "provider")]
        case HookFailure():
            line = f"{item.handler} failed on {item.event}: {item.error}"
            return [Notice(line, "warning", "hooks")]
        case Rewind():
            return [Notice(f"Taken back to record {item.at}: {item.what}.")]
        case Fork():
            return [Notice(f"A copy of {item.session_id} continues here.")]
        case Child() | Cancellation():
            # Visible by its consequence: the result of a call, the end of the turn.
            return []
        case _:
            return [item]


def _ending(item: TurnEnd) -> list[Shown]:
    """Return what to show at the end of a turn, beyond what was shown while it ran."""
    if item.stop_reason in _ENDINGS:
        return [Ending(_ENDINGS[item.stop_reason])]
    if item.error is None:
        return []
    facts: Any = item.error
    if isinstance(facts, dict):
        named = cast("dict[str, Any]", facts)
        facts = f"{named.get('type', 'Error')}: {named.get('message', '')}"
    return [Ending(f"The turn failed. {facts}", "error")]
