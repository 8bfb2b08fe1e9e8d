"""The one writer of these commands: control characters are made visible before printing."""

from __future__ import annotations

import click

from amplifier_sandbox.visible_text import visible

__all__ = ["ask_secret", "say"]


def say(text: str = "") -> None:
    """Print text with escape codes and invisible characters spelled out."""
    click.echo(visible(text))


def ask_secret(name: str) -> str:
    """Prompt for a value at the terminal without echoing it."""
    return click.prompt(visible(name), hide_input=True, err=True)
