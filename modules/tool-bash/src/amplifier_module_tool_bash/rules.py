"""Allow rules: which command lines nobody needs to be asked about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fnmatch import translate

from amplifier_module_tool_bash.config import AllowRule
from amplifier_sandbox.own.command_lines import SimpleCommand, UnreadableLineError, read_commands

_ANYTHING = "*"


class _Rule:
    """One rule: a program, a pattern for each argument, and perhaps anything behind them."""

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
        # Bash may put several words in the place of one pattern.
        return all(
            not word.is_pattern and pattern.match(word.text) is not None
            for word, pattern in zip(args, patterns, strict=False)
        )


class AllowRules:
    """All rules together; a line is allowed only when every command of it is."""

    __slots__ = ("_by_program",)

    def __init__(self, rules: Sequence[AllowRule]) -> None:
        self._by_program: dict[str, list[_Rule]] = {}
        for rule in map(_Rule, rules):
            self._by_program.setdefault(rule.program, []).append(rule)

    def objection(self, line: str) -> str | None:
        """Return why `line` must be asked about, in plain words; None when it is allowed."""
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
