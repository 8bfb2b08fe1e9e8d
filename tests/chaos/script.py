"""What is to happen in a run, all of it from one seed: sessions, their turns, what people say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

PLAIN, TOOLS, APPROVAL, CHILDREN = "plain", "tools", "approval", "children"
OUR_LOOPS = ("loop-basic", "loop-streaming")
PUBLISHED_LOOP = "loop-published"

_KINDS = {PLAIN: 2, TOOLS: 5, APPROVAL: 2, CHILDREN: 2}
_TURNS_OF_A_SESSION = 4
_TENANTS = 3
_LIMITED_SHARE = 0.15
_FEWEST_CALLS, _MOST_CALLS = 3, 8
_LONGEST_THOUGHT = 3.0


@dataclass(frozen=True)
class TurnScript:
    """One turn; the rest is about the user who is asked in it."""

    number: int
    kind: str
    is_allowed: bool
    thought_seconds: float

    @property
    def prompt(self) -> str:
        """What the model goes by."""
        return f"{self.number} {self.kind}"

    @property
    def answer(self) -> str:
        """What a turn answers however often it is interrupted."""
        return answer_to(str(self.number), self.kind, is_allowed=self.is_allowed)


@dataclass(frozen=True)
class SessionScript:
    """One session; with a `call_limit`, its tree may call the model so many times."""

    session_id: str
    tenant_id: str
    loop: str
    turns: tuple[TurnScript, ...]
    call_limit: int | None


def answer_to(number: str, kind: str, *, is_allowed: bool = True) -> str:
    """Return the answer to the prompt `number kind`."""
    if kind == PLAIN:
        return f"{number}: hello"
    if kind == CHILDREN:
        return f"{number}: told by two"
    return f"{number}: price 42, stock 7, {'paid' if is_allowed else 'denied'}"


def write_script(seed: int, turns: int, loops: Sequence[str]) -> list[SessionScript]:
    """Return the sessions of a run."""
    dice = random.Random(f"{seed}/script")
    sessions: list[SessionScript] = []
    for first in range(0, turns, _TURNS_OF_A_SESSION):
        numbers = range(first, min(first + _TURNS_OF_A_SESSION, turns))
        sessions.append(
            SessionScript(
                session_id=f"s{len(sessions):04}",
                tenant_id=f"tenant{dice.randrange(_TENANTS)}",
                loop=loops[len(sessions) % len(loops)],
                turns=tuple(_turn(dice, number) for number in numbers),
                call_limit=(
                    dice.randint(_FEWEST_CALLS, _MOST_CALLS)
                    if dice.random() < _LIMITED_SHARE
                    else None
                ),
            )
        )
    return sessions


def _turn(dice: random.Random, number: int) -> TurnScript:
    [kind] = dice.choices(list(_KINDS), list(_KINDS.values()))
    is_allowed = kind != APPROVAL or dice.random() < 0.7
    return TurnScript(number, kind, is_allowed, dice.uniform(0.0, _LONGEST_THOUGHT))
