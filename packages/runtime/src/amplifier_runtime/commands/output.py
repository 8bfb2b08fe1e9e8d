"""The one writer of these commands: what they print is made visible first."""

from __future__ import annotations

import click

from amplifier_sandbox.visible_text import visible

__all__ = ["ask_secret", "say"]


def say(text: str = "") -> None:
    """Print text in which nothing acts on the terminal and nothing hides."""
    click.echo(visible(text))


def ask_secret(name: str) -> str:
    """Ask for a value at the terminal, which does not show it."""
    return click.prompt(visible(name), hide_input=True, err=True)
