"""`amplifier help`: show the help of a command."""

from __future__ import annotations

import click

from amplifier_cli.output import say


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command."""
    shown = context.find_root()
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            shown.fail(f"`{shown.command_path}` has no commands of its own.")
        # Refuses a name that does not exist, and suggests the closest one.
        name, command, _ = group.resolve_command(shown, [word])
        assert command is not None
        shown = click.Context(command, info_name=name, parent=shown)
    say(shown.get_help())
