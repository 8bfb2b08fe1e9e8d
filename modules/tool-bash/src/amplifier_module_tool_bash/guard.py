"""The guard of tool-bash: asks the user about every command that no rule allows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from fnmatch import translate
from pathlib import Path
from typing import Any, Protocol, cast

from amplifier_core.models import HookResult
from amplifier_kit.widenings import Widening
from amplifier_module_tool_bash.config import AllowRule, BashConfig
from amplifier_sandbox.own.command_lines import (
    SimpleCommand,
    UnreadableLineError,
    objection_to_special_files,
    read_commands,
)
from amplifier_sandbox.own.git_settings import objection_to_git
from amplifier_sandbox.visible_text import exact

_ANYTHING = "*"


class _Rule:
    """One rule: a program, a pattern for each argument, and optionally any further arguments."""

    __slots__ = ("_patterns", "_takes_more", "program")

    def __init__(self, rule: AllowRule) -> None:
        words = shlex.split(rule.args)
        self.program = rule.program
        self._takes_more = words[-1:] == [_ANYTHING]
        plain = words[:-1] if self._takes_more else words
        self._patterns = [re.compile(translate(word)) for word in plain]

    def matches(self, command: SimpleCommand) -> bool:
        args = command.args
        patterns = self._patterns
        if len(args) < len(patterns) or (len(args) > len(patterns) and not self._takes_more):
            return False
        # Bash may expand one glob to several words, which no argument pattern has seen.
        return all(
            not word.is_pattern and pattern.match(word.text) is not None
            for word, pattern in zip(args, patterns, strict=False)
        )


class AllowRules:
    """All rules; a line is allowed only if each of its commands is."""

    __slots__ = ("_by_program",)

    def __init__(self, rules: Sequence[AllowRule]) -> None:
        self._by_program: dict[str, list[_Rule]] = {}
        for rule in map(_Rule, rules):
            self._by_program.setdefault(rule.program, []).append(rule)

    def objection(self, line: str) -> str | None:
        """Return why the user must be asked about `line`; None if it is allowed."""
        if not self._by_program:
            return "no allow rules are set"
        try:
            commands = read_commands(line)
        except UnreadableLineError as error:
            return str(error)
        for command in dict.fromkeys(commands):
            rules = self._by_program.get(command.program, ())
            if not any(rule.matches(command) for rule in rules):
                return f"no allow rule matches `{command.program}` with these arguments"
        if commands:
            return None
        return "there is no command in it"


class GuardedTool(Protocol):
    """What the guard has to know of the tool."""

    name: str

    def workspace(self) -> str: ...

    async def widenings(self, tool_input: Any) -> list[Widening]: ...


GUARD_PRIORITY = 900
"""Late, so that the question shows what other hooks have made of the command."""

_GIT = re.compile(r"\bgit\b")
LONGEST_QUESTION = 8_000
MOST_LINES = 100


class CommandGuard:
    """Handles `tool:pre` of one tool: asks about every command that no rule allows."""

    def __init__(
        self,
        tool: GuardedTool,
        settings: BashConfig,
        capability: Callable[[str], Any] = lambda _: None,
    ) -> None:
        self._tool = tool
        self._capability = capability
        self._rules = AllowRules(settings.allow)
        self._asks = settings.ask
        self._unprotected = settings.sandbox != "required"
        self._seconds = settings.approval_timeout_seconds

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Allow, ask or deny."""
        given = data.get("tool_input")
        if isinstance(given, dict):
            command = cast("dict[str, Any]", given).get("command")
        else:
            command = None
        if data.get("tool_name") != self._tool.name or not isinstance(command, str):
            # The tool itself rejects an invalid input without running anything.
            return HookResult()
        widenings = await self._tool.widenings(given)
        reason = self._reason(command, data)
        # The guard of all tools asks about what is needed beyond the sandbox. Without it, this one
        # does, whatever the rules allow.
        if widenings and self._capability("approval.grants") is None:
            reason = "; ".join(f"it needs {each}" for each in widenings)
        if reason is None:
            return HookResult()
        is_outside = any(each.kind == "outside_sandbox" for each in widenings)
        return self._question(command, reason, is_protected=not (self._unprotected or is_outside))

    def _reason(self, command: str, data: dict[str, Any]) -> str | None:
        """Return why the user has to be asked about a command in its sandbox."""
        workspace = Path(self._tool.workspace())
        reason = self._rules.objection(command) if self._asks else None
        # Even an allowed `git status` runs filters and drivers that `.git/config` names, so an
        # untrusted folder could have code run by being looked at.
        if reason is None and _GIT.search(command):
            reason = objection_to_git(workspace.resolve())
        if reason is None:
            reason = objection_to_special_files(command, workspace)
        # With `ask: false` another guard decides, which is informed of the reason instead.
        if reason is not None and not self._asks:
            concern = self._capability("approval.concern")
            if concern is None or concern(data, reason):
                return None
        return reason

    def _question(self, command: str, reason: str, *, is_protected: bool) -> HookResult:
        # Nobody can allow what cannot be shown whole: a long command could hide its end.
        shown = shown_exactly(command)
        if shown is None:
            return HookResult(
                action="deny",
                reason=(
                    f"The user would have to read all {len(command)} characters of this command. "
                    "Write it to a file in the workspace and run the file."
                ),
            )
        place = "in its sandbox" if is_protected else "WITHOUT ANY PROTECTION"
        return HookResult(
            action="ask_user",
            approval_prompt=f"Run this command {place}? Asked because {reason}.\n{shown}",
            approval_options=["Allow once", "Deny"],
            approval_timeout=self._seconds,
            approval_default="deny",
        )


def shown_exactly(command: str) -> str | None:
    """Return `command` with numbered lines, or None if it is too long to read.

    Control and invisible characters are shown as their code points.
    """
    lines = command.split("\n")
    if len(command) > LONGEST_QUESTION or len(lines) > MOST_LINES:
        return None
    width = len(str(len(lines)))
    numbered = (f"{number:>{width}} | {exact(line)}" for number, line in enumerate(lines, start=1))
    return "\n".join(numbered)
