"""`amplifier chat`: talk in the terminal."""

from __future__ import annotations

from typing import Any

import click

from amplifier_cli.held import Answer, when_held_options


@click.command()
@click.option("-r", "--resume", metavar="SESSION", help="Go on with a session (an id, or `last`).")
@click.option("-b", "--bundle", help="Bundle by name, path or address.")
@click.option("-p", "--provider", help="Provider, such as anthropic.")
@click.option("-m", "--model", help="Model of that provider.")
@click.option("--budget", "budget_usd", metavar="USD", help="Spend no more, as in 0.50.")
@click.option("--module", "modules", multiple=True, metavar="FOLDER-OR-ID", help="Add a module.")
@when_held_options
def chat(resume: str | None, when_held: Answer | None, **wishes: Any) -> int:
    """Talk in the terminal. Everything is kept; /help lists what you can do."""
    from amplifier_cli.chat.talking import talk  # noqa: PLC0415 - rich, prompt_toolkit, the kernel
    from amplifier_foundation.preparing import Wishes  # noqa: PLC0415 - as above

    return talk(Wishes(**wishes), resume, when_held)
