"""A group of commands that imports a command's file only when that command is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from amplifier_cli.failures import CommandError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["LazyCommand", "LazyGroup"]

EXTRA_COMMANDS = "amplifier.commands"
_EXTRA_SECTION = "From other packages"
# `version` is not like `session`, which difflib's default of 0.6 suggests for it.
_CLOSE = 0.75


class LazyCommand(NamedTuple):
    """Where a command is, and its line in the help, so that listing commands imports none."""

    target: str
    summary: str
    section: str = "Commands"

    def load(self) -> click.Command:
        """Import the command."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """A group whose commands are listed in a table.

    With `extras`, it also finds commands of other packages, by the entry-point group
    `amplifier.commands`; `extras` has the help lines of those that are known. Their metadata is
    read only for a name that the table does not have or to list all names, because reading it
    takes longer than starting the command.
    """

    def __init__(
        self,
        *args: Any,
        table: dict[str, LazyCommand],
        extras: dict[str, LazyCommand] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._table = table
        self._extras = extras

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every name, in the order of the table."""
        return list(dict.fromkeys((*self._table, *self._found())))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name; other packages cannot replace one of the table."""
        known = self._table.get(cmd_name) or self._found().get(cmd_name)
        if known is None:
            return None
        return known.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with, or suggest the closest name."""
        name = args[0]
        is_known = self.get_command(ctx, name) is not None
        if not is_known and name in (self._extras or {}):
            raise _not_installed(name)
        if not is_known and not name.startswith("-"):
            import difflib  # noqa: PLC0415 - only after a typing error

            names = self.list_commands(ctx)
            close = [each for each in names if sorted(each) == sorted(name)]
            close += difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE)
            meant = f" Did you mean `{close[0]}`?" if close else ""
            ctx.fail(f"There is no command `{ctx.command_path} {name}`.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section, without importing them."""
        # Those of other packages come last, and none of them hides one of the table.
        commands = {**self._table, **self._found(), **self._table}
        width = max(map(len, commands), default=0)
        for section in dict.fromkeys(each.section for each in commands.values()):
            rows = [
                (name.ljust(width), each.summary)
                for name in self.list_commands(ctx)
                if (each := commands[name]).section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the names that begin with the word, without importing the commands."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for a shell

        commands = {**self._found(), **self._table}
        names = [
            CompletionItem(name, help=commands[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        # Not `super()`: click's group completes by importing every command for its help.
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _found(self) -> dict[str, LazyCommand]:
        """Return the commands of other packages that are installed."""
        if self._extras is None:
            return {}
        from importlib.metadata import entry_points  # noqa: PLC0415 - costs more than a start

        found: dict[str, LazyCommand] = {}
        for each in entry_points(group=EXTRA_COMMANDS):
            package = each.dist.name if each.dist else ""
            known = self._extras.get(each.name)
            if known is not None and known.target == each.value:
                found[each.name] = known
            else:
                found[each.name] = LazyCommand(each.value, package, _EXTRA_SECTION)
        return found


def _not_installed(name: str) -> CommandError:
    from amplifier_foundation.installation import runtime_command  # noqa: PLC0415 - only then

    return CommandError(
        f"There is no command `amplifier {name}` here.",
        why="It is part of `amplifier-runtime`, which is not installed.",
        fix=runtime_command(),
    )
