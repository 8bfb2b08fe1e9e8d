"""What a run could not do because a guard failed or a call was denied, and the next command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_cli.terminal import fitted
from amplifier_foundation.errors import GuardError
from amplifier_sandbox.visible_text import json_text

__all__ = ["DeniedError", "denial_of", "guard_failure", "listed"]

_MOST_NAMED = 3
_LONGEST_INPUT = 200
_LONGEST_NAMED = 60


class DeniedError(GuardError):
    """Calls of tools were denied, and nobody was there to decide otherwise."""


def listed(denied: list[dict[str, Any]], scrub: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return each denied call as `--json` shows it: the tool, its input in short, the reason."""
    calls: list[dict[str, Any]] = []
    for each in denied:
        given = "" if each["input"] is None else json_text(each["input"])
        calls.append(
            {
                "tool": each["tool"],
                "input": fitted(scrub(given), _LONGEST_INPUT),
                "reason": scrub(each["reason"]),
            }
        )
    return calls


def denial_of(calls: list[dict[str, Any]], by: set[str], session: str) -> DeniedError:
    """Return the message about denied calls; `by` is who decided, as hooks-approval names it."""
    named = [fitted(f"{each['tool']} {each['input']}".strip(), _LONGEST_NAMED) for each in calls]
    if len(named) > _MOST_NAMED:
        named[_MOST_NAMED:] = [f"and {len(named) - _MOST_NAMED} more"]
    if len(calls) == 1:
        count = "1 call was"
    else:
        count = f"{len(calls)} calls were"
    tools = dict.fromkeys(str(each["tool"]) for each in calls)
    if by == {"nobody"}:
        allow = " ".join(f"--allow {tool}" for tool in tools)
        fix = f"amplifier run {allow} ...  (or be asked: amplifier continue {session})"
    elif by and by <= {"nobody", "concern"}:
        fix = f"amplifier continue {session}"
    else:
        fix = f"amplifier explain {session}"
    return DeniedError(f"{count} denied: {'; '.join(named)}", why=calls[0]["reason"], fix=fix)


def guard_failure(failures: list[dict[str, Any]], scrub: Callable[[str], str]) -> GuardError:
    """Return the message about the first guard that failed."""
    first = failures[0]
    others = {each["guard"] for each in failures} - {first["guard"]}
    also = f" So did {', '.join(sorted(others))}." if others else ""
    return GuardError(
        f"The guard `{first['guard']}` failed, so what it guards was denied.{also}",
        why=fitted(scrub(f"{first['error']} (on {first['event']})"), _LONGEST_INPUT),
        fix="amplifier doctor",
    )
