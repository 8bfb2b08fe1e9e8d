"""Collect from a turn's events what it did, and report what was denied."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from amplifier_cli.terminal import fitted
from amplifier_foundation.errors import GuardError
from amplifier_foundation.guards import GUARDS
from amplifier_sandbox.visible_text import json_text

_MOST_NAMED = 3
_LONGEST_INPUT = 200
_LONGEST_NAMED = 60


class DeniedError(GuardError):
    """Tool calls were denied, and there was no user to decide."""


def listed(denied: list[dict[str, Any]], scrub: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return each denied call as `--json` shows it: the tool, its shortened input, the reason."""
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


def denial_of(
    calls: list[dict[str, Any]],
    by: set[str],
    needs: list[str],
    session: str,
    given: Sequence[str] = (),
) -> DeniedError:
    """Return the error about denied calls.

    `by` is who decided, and `needs` what would have to be allowed, as hooks-approval names them.
    `given` are the options of this run that the next one needs again.
    """
    named = [fitted(f"{each['tool']} {each['input']}".strip(), _LONGEST_NAMED) for each in calls]
    if len(named) > _MOST_NAMED:
        named[_MOST_NAMED:] = [f"and {len(named) - _MOST_NAMED} more"]
    if len(calls) == 1:
        count = "1 call was"
    else:
        count = f"{len(calls)} calls were"
    # The next step has to work: `--allow` helps only if there was nobody to ask, and not everything
    # can be named by it.
    if by and by <= {"nobody", "boundary"} and all(map(_can_be_allowed, needs)):
        options = list(given)
        for each in needs:
            options += ["--allow", each]
        allow = shlex.join(options)
        fix = f'amplifier run --resume {session} {allow} "Try again."'
    elif by and by <= {"nobody", "concern", "boundary"}:
        fix = f"amplifier continue {session}"
    elif by == {"mode"}:
        mode = shlex.join([*_without_mode(given), "--mode", "edits"])
        fix = f'amplifier run --resume {session} {mode} "Carry out the plan."'
    else:
        fix = f"amplifier explain {session}"
    return DeniedError(f"{count} denied: {'; '.join(named)}", why=calls[0]["reason"], fix=fix)


def _without_mode(options: Sequence[str]) -> list[str]:
    if "--mode" not in options:
        return list(options)
    at = options.index("--mode")
    return [*options[:at], *options[at + 2 :]]


def _can_be_allowed(name: str) -> bool:
    return name != "outside_sandbox" and not any(map(str.isspace, name))


def guard_failure(failures: list[dict[str, Any]], scrub: Callable[[str], str]) -> GuardError:
    """Return the error about the first guard that failed."""
    first = failures[0]
    others = {each["guard"] for each in failures} - {first["guard"]}
    also = f" So did {', '.join(sorted(others))}." if others else ""
    return GuardError(
        f"The guard `{first['guard']}` failed, so what it guards was denied.{also}",
        why=fitted(scrub(f"{first['error']} (on {first['event']})"), _LONGEST_INPUT),
        fix="amplifier doctor",
    )


# Before every guard: handlers after a guard do not receive an event that it denied or failed on.
_FIRST = -sys.maxsize
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass
class TurnReport:
    """The facts that `run` prints; tokens and tools of child sessions are included.

    `denied` are the calls that did not run, or whose result was withheld; `failed_guards` the
    guards that raised or timed out. Both may contain secrets: scrub them before they are shown.
    """

    stop_reason: str | None = None
    result: Any = None
    budget_cause: str | None = None
    model: str | None = None
    usage: dict[str, int] = field(default_factory=dict[str, int])
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failed_guards: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _denied: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _began: dict[str, float] = field(default_factory=dict[str, float], repr=False)
    _inputs: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def denied(self) -> list[dict[str, Any]]:
        """The calls that were denied, each with `call_id`, `tool`, `input` and `reason`."""
        return list(self._denied.values())

    def deciders(self, grants: Any) -> tuple[set[str], list[str]]:
        """Return who denied the calls, and what would have to be allowed.

        `grants` is the capability `approval.grants`, if there is one.
        """
        by: set[str] = set()
        needs: dict[str, None] = {}
        for call_id in self._denied:
            decision = None if grants is None else grants.explain(call_id)
            if decision is None:
                by.add("other")
            else:
                by.add(str(decision["by"]))
                needs.update(dict.fromkeys(map(str, decision["needs"])))
        return by, list(needs)

    def listen(self, hooks: Any, show_tool: Callable[[dict[str, Any]], None]) -> None:
        """Register for the events of a session; `show_tool` is called after each tool call."""
        from amplifier_core.models import HookResult  # noqa: PLC0415 - loaded by the session

        quiet = HookResult()

        def hear(event: str, take: Callable[[dict[str, Any]], None], **how: Any) -> None:
            async def handler(_: str, data: dict[str, Any]) -> HookResult:
                take(data)
                return quiet

            hooks.register(event, handler, name="amplifier run", **how)

        def ended(data: dict[str, Any], *, success: bool) -> None:
            show_tool(self._tool(data, success=success))

        hear("tool:pre", self._note_input, priority=_FIRST)
        hear("tool:pre", self._begin)
        hear("tool:post", lambda data: ended(data, success=_worked(data)))
        hear("tool:error", lambda data: ended(data, success=False))
        hear("llm:response", self._count)
        hear("orchestrator:complete", self._end)
        hear("orchestrator:complete", self._stop, priority=_FIRST)
        # Registered as guards, because sub-agents inherit the handlers of guards.
        hear("hook:failed", self._fail, priority=_FIRST, on_error="deny")
        hear("tool:denied", self._deny, priority=_FIRST, on_error="deny")
        hear("approval:denied", self._deny, priority=_FIRST, on_error="deny")
        hear("budget:exhausted", self._exhaust)

    def _note_input(self, data: dict[str, Any]) -> None:
        self._inputs[str(data.get("tool_call_id"))] = data.get("tool_input")

    def _begin(self, data: dict[str, Any]) -> None:
        self._began[str(data.get("tool_call_id"))] = time.monotonic()

    def _tool(self, data: dict[str, Any], *, success: bool) -> dict[str, Any]:
        call_id = str(data.get("tool_call_id"))
        began = self._began.pop(call_id, None)
        # Only a denied call still needs its input, and it emits neither `tool:post` nor an error.
        self._inputs.pop(call_id, None)
        if began is None:
            seconds = None
        else:
            seconds = round(time.monotonic() - began, 3)
        tool = {"name": data.get("tool_name"), "success": success, "seconds": seconds}
        self.tools.append(tool)
        return {**tool, "input": data.get("tool_input"), "error": None if success else _error(data)}

    def _count(self, data: dict[str, Any]) -> None:
        self.model = data.get("model") or self.model
        usage: dict[str, int | None] = data.get("usage") or {}
        for name in _TOKENS:
            if amount := usage.get(name):
                self.usage[name] = self.usage.get(name, 0) + amount

    def _stop(self, data: dict[str, Any]) -> None:
        self.stop_reason = data.get("stop_reason")

    def _end(self, data: dict[str, Any]) -> None:
        self.result = data.get("result")

    def _fail(self, data: dict[str, Any]) -> None:
        if is_guard_failure(data):
            facts = {"guard": data.get("handler"), "event": data.get("event")}
            self.failed_guards.append({**facts, "error": data.get("error")})

    def _deny(self, data: dict[str, Any]) -> None:
        """Record a denied call."""
        # Both events may come for one call: published loops do not emit `tool:denied`, and
        # `approval:denied` of hooks-approval has no input.
        call_id = str(data.get("tool_call_id"))
        known = self._denied.get(call_id) or {}
        self._denied[call_id] = {
            "call_id": call_id,
            "tool": data.get("tool_name"),
            "input": data.get("tool_input", known.get("input", self._inputs.get(call_id))),
            "reason": str(data.get("reason") or known.get("reason")),
        }

    def _exhaust(self, data: dict[str, Any]) -> None:
        self.budget_cause = str(data.get("cause") or "the budget is used up")


def is_guard_failure(data: dict[str, Any]) -> bool:
    """Whether `hook:failed` is about a guard, even if that handler only observes."""
    return bool(data.get("denied")) or data.get("handler") in GUARDS


def _worked(data: dict[str, Any]) -> bool:
    result: Any = data.get("result")
    return not isinstance(result, dict) or cast("Any", result).get("success") is not False


def _error(data: dict[str, Any]) -> Any:
    """Return why a call failed: its result says so, or `tool:error` does."""
    result: Any = data.get("result")
    if isinstance(result, dict):
        return cast("dict[str, Any]", result).get("error")
    return data.get("error")
