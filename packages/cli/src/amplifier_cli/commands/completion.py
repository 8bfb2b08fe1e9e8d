"""`amplifier completion`: print the script that makes a shell complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from amplifier_cli.output import say

_HOW = {
    "bash": 'eval "$(amplifier completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(amplifier completion zsh)"   # in ~/.zshrc',
    "fish": "amplifier completion fish > ~/.config/fish/completions/amplifier.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(list(_HOW)))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    found = get_completion_class(shell)
    assert found is not None  # the choice above names those that click has
    root = click.get_current_context().find_root().command
    say(found(root, {}, "amplifier", "_AMPLIFIER_COMPLETE").source())
