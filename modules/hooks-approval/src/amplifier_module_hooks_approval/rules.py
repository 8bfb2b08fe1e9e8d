"""Tool calls, and the rules about them."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from amplifier_core.effects import Effect
from amplifier_module_hooks_approval.config import Action, ApprovalConfig, Rule
from amplifier_sandbox.visible_text import exact


def canonical(value: Any) -> str:
    """Return a value as JSON in one line, with deceptive characters escaped."""
    return exact(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))


@dataclass(frozen=True)
class Call:
    """One call of a tool; two calls of equal `digest` do the same."""

    session_id: str
    call_id: str
    tool: str
    arguments: Any
    group: str
    # The time of the event: a model may use the same call id twice, but not at the same moment.
    moment: str

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the tool's name and the arguments."""
        exact = json.dumps([self.tool, self.arguments], sort_keys=True, default=str)
        return hashlib.sha256(exact.encode()).hexdigest()

    @property
    def named_arguments(self) -> dict[str, Any]:
        """The arguments by name; empty if they are not a mapping."""
        given = self.arguments
        if isinstance(given, dict):
            return cast("dict[str, Any]", given)
        return {}

    def __str__(self) -> str:
        """The whole call: nothing may be allowed that was not shown."""
        named = self.named_arguments
        lines = [f"  {canonical(name)}: {canonical(named[name])}" for name in sorted(named)]
        lines = lines or [f"  {canonical(self.arguments)}"]
        return "\n".join([f"Tool: {canonical(self.tool)}", *lines])


def call_from(data: Any) -> Call:
    """Return the call that an event is about; missing fields are empty."""
    if isinstance(data, dict):
        facts = cast("dict[str, Any]", data)
    else:
        facts = {}

    def text(name: str) -> str:
        value = facts.get(name)
        if isinstance(value, str):
            return value
        return ""

    return Call(
        session_id=text("session_id"),
        call_id=text("tool_call_id"),
        tool=text("tool_name"),
        arguments=facts.get("tool_input"),
        group=text("parallel_group_id"),
        moment=text("timestamp"),
    )


# In a pattern that allows, `*` matches nothing that could start another command or leave a folder:
# `git *` does not match `git status; rm -r .`, nor `src/*` `src/../../etc/passwd`.
_HARMLESS = r"[^;&|<>$`\\(){}!#\x00-\x1f\x7f-\x9f]"
_UPWARDS = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")


class Ruling(NamedTuple):
    """The decision about a call, and the rule that made it, in words.

    `needs` names what would have to be allowed: the tool, and widenings as `open` names them.
    """

    action: Action
    by: Literal[
        "rule", "default", "grant", "user", "concern", "boundary", "mode", "nobody", "failure"
    ]
    words: str
    rule: Rule | None = None
    needs: tuple[str, ...] = ()


class RuleBook:
    """The rules of one session."""

    def __init__(self, config: ApprovalConfig, now: Callable[[], datetime]) -> None:
        self._config = config
        self._now = now

    def denial(self, call: Call) -> Ruling | None:
        """Return the rule that denies a call, wherever it is in the list, or None."""
        return self._first(call, ("deny",))

    def rule(self, call: Call, effect: Effect) -> Ruling:
        """Return a rule that denies, else the first rule about a call, else the default."""
        ruling = self.denial(call) or self._first(call, ("allow", "ask"))
        if ruling is not None:
            return ruling
        if effect == "pure":
            return Ruling("allow", "default", "the tool changes nothing")
        action = self._config.classes.get(effect, self._config.default)
        return Ruling(action, "default", f"no rule matches, and the default is to {action}")

    def _first(self, call: Call, actions: tuple[Action, ...]) -> Ruling | None:
        for number, rule in enumerate(self._config.rules, start=1):
            in_force = rule.until is None or rule.until > self._now()
            # When in doubt, a rule that allows does not match, and one that denies does.
            wary = rule.action == "allow"
            if rule.action in actions and in_force and matches(rule, call, wary=wary):
                words = f"rule {number}: {rule.action} {described(rule.tool, rule.arguments)}"
                return Ruling(rule.action, "rule", words + _signature(rule), rule)
        return None


def matches(pattern: Any, call: Call, *, wary: bool) -> bool:
    """Whether a rule or grant matches a call; with `wary`, only if that is certain."""
    named = call.named_arguments
    wanted = pattern.arguments
    return _fits(pattern.tool, call.tool, wary=wary) and all(
        name in named and _fits(glob, _text(named[name]), wary=wary)
        for name, glob in wanted.items()
    )


def described(tool: str, arguments: dict[str, str]) -> str:
    """Return in words which calls a pattern matches."""
    where = [f"{exact(name)} is {canonical(glob)}" for name, glob in arguments.items()]
    return f"`{exact(tool)}`" + (f" where {' and '.join(where)}" if where else "")


def _signature(rule: Rule) -> str:
    facts = [
        f"by {rule.who}" if rule.who else "",
        f"until {rule.until:%Y-%m-%d %H:%M %Z}" if rule.until else "",
        f"because {rule.why}" if rule.why else "",
    ]
    told = ", ".join(filter(None, facts))
    return f" ({told})" if told else ""


def _fits(glob: str, text: str, *, wary: bool) -> bool:
    if wary and glob not in ("*", text) and (_UPWARDS.search(text) or exact(text) != text):
        return False
    return _compiled(glob, wary and glob != "*").fullmatch(text) is not None


@functools.lru_cache(maxsize=1_024)
def _compiled(glob: str, wary: bool) -> re.Pattern[str]:
    anything = _HARMLESS if wary else "."

    def literal(part: str) -> str:
        return "".join(anything if each == "?" else re.escape(each) for each in part)

    first, *rest = re.split(r"\*+", glob)
    # Atomic groups never backtrack, so no argument can make a pattern with several stars slow.
    middle = "".join(f"(?>{anything}*?{literal(part)})" for part in rest[:-1])
    last = f"{anything}*{literal(rest[-1])}" if rest else ""
    return re.compile(literal(first) + middle + last, re.DOTALL)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return canonical(value)
