"""`amplifier doctor`: what is wrong here, each with its fix."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from textwrap import wrap

import click

from amplifier_cli.checkup import CHECKS, Finding, fix_index
from amplifier_cli.output import say, say_json, styled
from amplifier_cli.terminal import print_columns, screen_width, working
from amplifier_kit.explained_error import ExplainedError
from amplifier_sandbox.visible_text import visible

logger = logging.getLogger(__name__)

_MARKS = {
    "ok": ("ok", "green"),
    "info": ("·", None),
    "warning": ("look", "yellow"),
    "error": ("wrong", "red"),
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--fix", is_flag=True, help="Make the list of sessions anew, if it is wrong.")
def doctor(as_json: bool, fix: bool) -> int:
    """Find what is wrong here, with the fix for each.

    The exit code is 1 when something is wrong.
    """
    findings: list[Finding] = []
    for name, look in CHECKS.items():
        with working(f"looking at the {name}"):
            findings += _found(name, look)
        if fix and name == "index" and findings[-1].level != "ok":
            with working("making the list of sessions anew"):
                findings += _found(name, lambda: iter((fix_index(),)))
    if as_json:
        say_json([each._asdict() for each in findings])
    else:
        _show(findings)
    if any(each.level == "error" for each in findings):
        return 1
    return 0


def _found(name: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return what a look finds; that it fails is a finding too."""
    try:
        return list(look())
    except ExplainedError as error:
        return [Finding("error", name, f"{error.message} {error.why}".strip(), error.fix)]
    except Exception as error:
        logger.exception("look failed name=%s", name)
        return [Finding("error", name, f"{type(error).__name__}: {error}")]


def _show(findings: list[Finding]) -> None:
    label = max(len(each.what) for each in findings)
    room = max(screen_width() - label - 9, 30)
    rows: list[tuple[str, str, str]] = []
    for each in findings:
        word, color = _MARKS[each.level]
        mark = styled(word, fg=color, bold=color is not None)
        first, *rest = wrap(visible(each.told), room) or [""]
        rows.append((mark, each.what, first))
        rows += [("", "", line) for line in rest]
        if each.fix:
            rows.append(("", "", styled(f"fix: {visible(each.fix)}", fg="cyan")))
    print_columns(rows)
    wrong = sum(each.level == "error" for each in findings)
    odd = sum(each.level == "warning" for each in findings)
    say()
    say(f"{wrong} wrong, {odd} to look at." if wrong or odd else "All is well.")
