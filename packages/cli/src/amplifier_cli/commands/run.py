"""`amplifier run`: run one prompt and print the answer."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.lock_prompt import Answer, when_held_options
from amplifier_cli.mode_option import mode_option
from amplifier_cli.record_stream import refuse_option

_USUALLY_PIPED = (stat.S_ISFIFO, stat.S_ISREG, stat.S_ISSOCK)


def _budget(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    amount = value.removeprefix("$")
    try:
        good = float(amount) > 0
    except ValueError:
        good = False
    if not good:
        raise click.BadParameter(f"`{value}` is no amount of dollars, such as 0.50.")
    return amount


def _schema(_: click.Context, __: click.Parameter, value: Path | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        return json.loads(value.read_text("utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{value} is not JSON: {error}") from error


@click.command()
@click.argument("prompt", required=False)
@click.option("-b", "--bundle", help="Bundle by name, path or address.")
@click.option("-p", "--provider", help="Provider, such as anthropic.")
@click.option("-m", "--model", help="Model of that provider.")
@click.option(
    "--budget", callback=_budget, metavar="USD", help="Maximum cost in US dollars, e.g. 0.50."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--events", is_flag=True, help="Print the session's records while it runs, one a line."
)
@click.option(
    "--output-schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_schema,
    help="JSON Schema that the answer has to fit.",
)
@click.option("--resume", metavar="SESSION", help="Continue a session (an id, or `last`).")
@click.option("--module", "modules", multiple=True, metavar="FOLDER-OR-ID", help="Add a module.")
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL",
    help="Allow calls of a tool without asking, or something beyond the sandbox: "
    "network:example.org, network:packages, pages:example.org, write:.git, background.",
)
@click.option("--deny", multiple=True, metavar="TOOL", help="Deny calls of a tool.")
@mode_option
@click.option("--no-tools", is_flag=True, help="Disable tools, except those of the memory.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the answer and errors.")
@when_held_options
def run(
    prompt: str | None,
    resume: str | None,
    as_json: bool,
    events: bool,
    quiet: bool,
    when_held: Answer | None,
    no_tools: bool,
    budget: str | None,
    **options: Any,
) -> int:
    """Ask once and print the answer.

    What is piped in is added to the prompt; without a prompt, or with -, it is the prompt. The
    answer goes to stdout, everything else to stderr. With --events, stdout has the lines of the
    session's log instead, each as it is written.

    Exit codes: 0 answered, 1 failed or cut short, 2 wrong usage, 3 denied, 4 budget used up,
    5 the provider failed, 130 stopped. Without a terminal, one denied call makes it 3.
    """
    if events:
        _check_events(as_json, when_held)
    text = _whole_prompt(prompt)
    from amplifier_cli.run_once import RunCommand  # noqa: PLC0415 - the kernel; a wrong option comes first
    from amplifier_foundation.prepare import SessionOptions  # noqa: PLC0415 - as above

    asked = SessionOptions(budget_usd=budget, tools=not no_tools, **options)
    command = RunCommand(asked, resume, when_held, as_json=as_json, quiet=quiet, events=events)
    return command.run(text)


def _check_events(as_json: bool, when_held: Answer | None) -> None:
    if as_json:
        raise refuse_option("--json")
    if when_held == "watch":
        raise refuse_option("--watch")


def _whole_prompt(prompt: str | None) -> str:
    if prompt in (None, "-") or _something_is_piped():
        piped = _piped()
    else:
        piped = ""
    words = "" if prompt in (None, "-") else str(prompt)
    text = "\n\n".join(each for each in (words.strip(), piped.strip()) if each)
    if not text:
        raise CommandError("There is no prompt.", fix='amplifier run "what is in this folder?"')
    return text


def _piped() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.read()


def _something_is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket.

    Reading anything else could block forever: a service's stdin may stay open and empty.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return any(test(mode) for test in _USUALLY_PIPED)
