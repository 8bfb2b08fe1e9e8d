"""The entrance: what it finds, what it imports, and how it says that something went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from amplifier_cli import __version__
from amplifier_cli.lazy_group import LazyCommand
from amplifier_cli.main import COMMANDS, EXTRAS
from amplifier_cli.main import amplifier as root

Command = Callable[..., "subprocess.CompletedProcess[str]"]

HEAVY = ("pydantic", "yaml", "rich", "prompt_toolkit", "asyncio", "sqlite3")

# What measures the coverage of subprocesses loads modules of its own into them.
UNMEASURED = {name: each for name, each in os.environ.items() if not name.startswith("COVERAGE_")}


def imported_by(*arguments: str) -> set[str]:
    """Return the packages that are loaded once the command has run."""
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['amplifier', *{arguments!r}]\n"
        "from amplifier_cli.entry import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=UNMEASURED,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    names = done.stderr.split()
    # The kernel's root is imported for its version, and loads no file of the kernel.
    assert not [name for name in names if name.startswith("amplifier_core.")]
    return {name.partition(".")[0] for name in names}


def test_the_version_is_printed_and_nothing_heavy_is_imported() -> None:
    result = CliRunner().invoke(root, ["--version"])

    assert result.output == f"amplifier {__version__}\n"
    assert imported_by("--version").isdisjoint((*HEAVY, "importlib.metadata"))


def test_the_list_of_commands_imports_none_of_them() -> None:
    assert imported_by("--help").isdisjoint(HEAVY)


@pytest.mark.parametrize(("name", "lazy"), {**COMMANDS, **EXTRAS}.items())
def test_every_line_of_the_list_says_what_its_command_says(name: str, lazy: LazyCommand) -> None:
    command = lazy.load()

    assert command.name == name
    assert (command.help or "").startswith(lazy.summary)


def test_a_mistyped_command_is_answered_with_the_right_one(amplifier: Command) -> None:
    done = amplifier("modul")

    assert done.returncode == 2
    assert "Did you mean `module`?" in done.stderr
    assert "next   amplifier --help" in done.stderr


def test_only_a_name_that_is_close_is_suggested(amplifier: Command) -> None:
    done = amplifier("version")

    assert "There is no command `amplifier version`." in done.stderr
    assert "Did you mean" not in done.stderr


def test_help_shows_the_help_of_any_command() -> None:
    runner = CliRunner()

    for words in ([], ["run"], ["session", "fork"], ["config", "set"]):
        asked = runner.invoke(root, ["help", *words], prog_name="amplifier")
        assert asked.output == runner.invoke(root, [*words, "-h"], prog_name="amplifier").output
    wrong = runner.invoke(root, ["help", "session", "froc"], prog_name="amplifier")
    assert "no command `amplifier session froc`" in wrong.output
    below = runner.invoke(root, ["help", "run", "x"], prog_name="amplifier")
    assert "`amplifier run` has no commands of its own" in below.output


def test_another_folder_can_be_worked_in(amplifier: Command, project: Path) -> None:
    (project / "below").mkdir()

    done = amplifier("-C", "below", "config", "path")

    assert str(project / "below" / ".amplifier" / "settings.yaml") in done.stdout
    missing = amplifier("-C", "nowhere", "config", "path")
    assert (missing.returncode, "'nowhere' does not exist" in missing.stderr) == (2, True)


def test_verbose_shows_where_an_error_was_raised(amplifier: Command) -> None:
    quiet = amplifier("config", "get", "nothing")
    verbose = amplifier("--verbose", "config", "get", "nothing")

    assert quiet.stderr == "error  `nothing` is not set.\nnext   amplifier config list\n"
    assert verbose.stderr.startswith("Traceback")
    assert verbose.stderr.endswith(quiet.stderr)
    assert verbose.returncode == quiet.returncode == 2


def test_a_wrong_option_names_the_help_of_its_command(amplifier: Command) -> None:
    done = amplifier("module", "new", "--colour")

    assert done.returncode == 2
    assert "--colour" in done.stderr
    assert "next   amplifier module new --help" in done.stderr


def test_no_command_at_all_shows_the_list(amplifier: Command) -> None:
    assert "Inspect:" in amplifier().stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(amplifier: Command, shell: str) -> None:
    done = amplifier("completion", shell)

    assert done.returncode == 0
    assert "_AMPLIFIER_COMPLETE" in done.stdout


def test_a_shell_gets_the_names_that_begin_like_the_word(amplifier: Command) -> None:
    words = {
        "_AMPLIFIER_COMPLETE": "bash_complete",
        "COMP_WORDS": "amplifier se",
        "COMP_CWORD": "1",
    }

    assert amplifier(env=words).stdout.split() == ["plain,session"]


def test_a_command_of_another_package_is_found_and_cannot_replace_ours(
    amplifier: Command, tmp_path: Path
) -> None:
    """An installed distribution declares `hello`, and `doctor`, which we have."""
    (tmp_path / "greetings.py").write_text(
        "import click\n\n@click.command()\ndef hello():\n    click.echo('hello from outside')\n",
        encoding="utf-8",
    )
    information = tmp_path / "greetings-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: greetings\nVersion: 1\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(
        "[amplifier.commands]\nhello = greetings:hello\ntop = greetings:hello\n", encoding="utf-8"
    )
    path = {"PYTHONPATH": str(tmp_path)}

    assert amplifier("hello", env=path).stdout == "hello from outside\n"
    assert "greetings" in amplifier("--help", env=path).stdout
    assert "hello from outside" not in amplifier("top", "--help", env=path).stdout


def test_a_reader_that_leaves_early_is_no_error(environment: dict[str, str]) -> None:
    pipeline = f"{sys.executable} -m amplifier_cli module list | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", pipeline],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stderr == ""


def test_an_interrupt_ends_with_its_own_code_and_one_line(
    environment: dict[str, str], project: Path
) -> None:
    """A command waits for its input when the user presses Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITING],
        env=environment,
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "Traceback" not in told
    assert "Cancelled." in told


_WAITING = """
import signal
import sys
import click
from amplifier_cli import main

# Tests that a shell runs in the background inherit a Ctrl-C that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

@main.amplifier.command("wait")
def wait():
    click.echo("ready")
    sys.stdin.read()

main.amplifier._table = {}
sys.argv = ["amplifier", "wait"]
main.amplifier.get_command = lambda context, name: wait
main.main()
"""
