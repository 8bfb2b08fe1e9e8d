"""`amplifier continue`: the last session of this folder, or a named one, goes on."""

from __future__ import annotations

from typing import Any

import click

from amplifier_cli.held import Answer, when_held_options
from amplifier_cli.sessions import SESSION


@click.command("continue")
@SESSION
@click.option("-b", "--bundle", help="Another bundle than the session's own.")
@click.option("-p", "--provider", help="Provider, such as anthropic.")
@click.option("-m", "--model", help="Model of that provider.")
@click.option("--budget", "budget_usd", metavar="USD", help="Spend no more, as in 0.50.")
@when_held_options
def continue_(session_id: str, when_held: Answer | None, **wishes: Any) -> int:
    """Go on with the last session of this folder.

    SESSION is an id, the beginning of one, or `last`. To ask once and leave:
    amplifier run --resume SESSION "..."
    """
    from amplifier_cli.chat.talking import talk  # noqa: PLC0415 - rich, prompt_toolkit, the kernel
    from amplifier_foundation.preparing import Wishes  # noqa: PLC0415 - as above

    return talk(Wishes(**wishes), session_id, when_held)
