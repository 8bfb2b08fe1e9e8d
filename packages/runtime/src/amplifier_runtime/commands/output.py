"""The one writer of these commands: what they print is made visible first."""

from __future__ import annotations

import click

from amplifier_kit.visible_text import visible

__all__ = ["say"]


def say(text: str = "") -> None:
    """Print text in which nothing acts on the terminal and nothing hides."""
    click.echo(visible(text))
