"""A group of commands that imports a command's file only when that command is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["LazyCommand", "LazyGroup"]

EXTRA_COMMANDS = "amplifier.commands"
_EXTRA_SECTION = "From other packages"


class LazyCommand(NamedTuple):
    """Where a command is, and its line in the list of commands, which must not cost an import."""

    target: str
    summary: str
    section: str = "Commands"

    def load(self) -> click.Command:
        """Import the command."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """A group whose commands stand in a table.

    With `extras`, commands of other packages are found too, by the entry-point group
    `amplifier.commands`; its metadata is read only when the table does not have a name or all
    names are wanted, because that takes longer than starting the command.
    """

    def __init__(
        self,
        *args: Any,
        table: dict[str, LazyCommand],
        extras: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._table = table
        self._extras = extras

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every name, in the order of the table."""
        return list(dict.fromkeys((*self._table, *self._found())))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name; what is in the table cannot be replaced from outside."""
        known = self._table.get(cmd_name) or self._found().get(cmd_name)
        if known is None:
            return None
        return known.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with, or say which one may have been meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            import difflib  # noqa: PLC0415 - only for a typing error

            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            meant = f" Did you mean `{close[0]}`?" if close else ""
            ctx.fail(f"There is no command `{ctx.command_path} {name}`.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section, without importing one of them."""
        commands = {**self._found(), **self._table}
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
        """Return the names that begin like the word, without importing one of them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for a shell

        commands = {**self._found(), **self._table}
        names = [
            CompletionItem(name, help=commands[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _found(self) -> dict[str, LazyCommand]:
        if not self._extras:
            return {}
        from importlib.metadata import entry_points  # noqa: PLC0415 - costs more than a start

        return {
            each.name: LazyCommand(each.value, each.dist.name if each.dist else "", _EXTRA_SECTION)
            for each in entry_points(group=EXTRA_COMMANDS)
        }
