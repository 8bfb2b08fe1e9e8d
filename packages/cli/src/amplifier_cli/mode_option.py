"""The option `--mode`, which `run` and `chat` share."""

from __future__ import annotations

import click

mode_option = click.option(
    "--mode",
    type=click.Choice(["ask", "edits", "plan", "auto"]),
    help="ask: ask before changes; edits: change files of the project without asking, by edits and "
    "by commands in the sandbox; plan: read only; auto: do all that is inside of the sandbox.",
)
