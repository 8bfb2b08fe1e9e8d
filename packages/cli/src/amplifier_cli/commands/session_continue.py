"""`amplifier continue`: continue the last session of this folder, or a named one."""

from __future__ import annotations

from typing import Any

import click

from amplifier_cli.lock_prompt import Answer, when_held_options
from amplifier_cli.sessions import SESSION


@click.command("continue")
@SESSION
@click.option("-b", "--bundle", help="Another bundle than the session's own.")
@click.option("-p", "--provider", help="Provider, such as anthropic.")
@click.option("-m", "--model", help="Model of that provider.")
@click.option(
    "--budget", "budget_usd", metavar="USD", help="Maximum cost in US dollars, e.g. 0.50."
)
@when_held_options
def continue_(session_id: str, when_held: Answer | None, **options: Any) -> int:
    """Continue the last session in this folder.

    SESSION is an id, the beginning of one, or `last`. To ask once and leave:
    amplifier run --resume SESSION "..."
    """
    from amplifier_cli.chat.app import talk  # noqa: PLC0415 - rich, prompt_toolkit, the kernel
    from amplifier_foundation.prepare import SessionOptions  # noqa: PLC0415 - as above

    return talk(SessionOptions(**options), session_id, when_held)
