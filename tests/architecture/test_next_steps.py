"""Every command that a message offers exists, and takes the options and arguments it is given."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import click
import pytest

from amplifier_cli.main import amplifier
from next_steps import VALUE, all_commands, commands_in


def parse(command: str) -> None:
    """Let click parse a command as the shell would pass it, without running it."""
    typed = re.split(" [<>] ", command)[0]
    _, *arguments = shlex.split(typed)
    found: click.Command = amplifier
    name: str | None = "amplifier"
    context: click.Context | None = None
    while isinstance(found, click.Group) and arguments and not arguments[0].startswith("-"):
        context = click.Context(found, info_name=name, parent=context)
        name, chosen, arguments = found.resolve_command(context, arguments)
        assert chosen is not None
        found = chosen
    # `--help` ends here.
    with contextlib.suppress(click.exceptions.Exit):
        found.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("command", all_commands())
def test_the_command_of_a_next_step_is_accepted(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some values are files.
    (tmp_path / VALUE).touch()
    monkeypatch.chdir(tmp_path)

    parse(command)


@pytest.mark.parametrize(
    "command",
    ["amplifier sesion list", "amplifier session list --everything", "amplifier session fork a b"],
)
def test_a_command_that_does_not_exist_is_found(command: str) -> None:
    with pytest.raises(click.UsageError):
        parse(command)


def test_commands_are_found_where_they_are_written() -> None:
    source = (
        'raise E("x", fix=f"Continue there: amplifier continue {session_id}")\n'
        'NEXT = "amplifier doctor"\n'
        '"""The amplifier of nothing."""\n'
    )

    assert sorted(commands_in(source)) == ["amplifier continue 1", "amplifier doctor"]
