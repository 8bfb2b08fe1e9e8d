"""`amplifier chat`: talk in the terminal."""

from __future__ import annotations

from typing import Any

import click

from amplifier_cli.lock_prompt import Answer, when_held_options
from amplifier_cli.mode_option import mode_option


@click.command()
@click.argument("prompt", nargs=-1)
@click.option("-r", "--resume", metavar="SESSION", help="Continue a session (an id, or `last`).")
@click.option("-b", "--bundle", help="Bundle by name, path or address.")
@click.option("-p", "--provider", help="Provider, such as anthropic.")
@click.option("-m", "--model", help="Model of that provider.")
@click.option(
    "--budget", "budget_usd", metavar="USD", help="Maximum cost in US dollars, e.g. 0.50."
)
@click.option("--module", "modules", multiple=True, metavar="FOLDER-OR-ID", help="Add a module.")
@mode_option
@when_held_options
def chat(
    prompt: tuple[str, ...], resume: str | None, when_held: Answer | None, **options: Any
) -> int:
    """Chat in the terminal.

    PROMPT is sent first. Everything is recorded; /help lists the commands and keys.
    """
    from amplifier_cli.chat.app import talk  # noqa: PLC0415 - rich, prompt_toolkit, the kernel
    from amplifier_foundation.prepare import SessionOptions  # noqa: PLC0415 - as above

    return talk(SessionOptions(**options), resume, when_held, " ".join(prompt))
