"""`amplifier doctor`: run all checks and show each problem with its fix."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from textwrap import wrap

import click

from amplifier_cli.checkup import CHECKS, Finding, fix_index
from amplifier_cli.output import say, say_json, styled
from amplifier_cli.render.plain import counted
from amplifier_cli.terminal import print_columns, screen_width, working
from amplifier_kit.explained_error import ExplainedError
from amplifier_sandbox.visible_text import visible

logger = logging.getLogger(__name__)

_MARKS = {
    "ok": ("ok", "green"),
    "info": ("·", None),
    "warning": ("warning", "yellow"),
    "error": ("error", "red"),
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--fix", is_flag=True, help="Rebuild the list of sessions if it is wrong.")
def doctor(as_json: bool, fix: bool) -> int:
    """Check the installation, and show a fix for each problem.

    The exit code is 1 if there is an error.
    """
    findings: list[Finding] = []
    for name, look in CHECKS.items():
        with working(f"checking the {name}"):
            findings += _found(name, look)
        if fix and name == "index" and findings[-1].level != "ok":
            with working("rebuilding the list of sessions"):
                findings += _found(name, lambda: iter((fix_index(),)))
    if as_json:
        say_json([each._asdict() for each in findings])
    else:
        _show(findings)
    if any(each.level == "error" for each in findings):
        return 1
    return 0


def _found(name: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return the findings of a check; a check that raises is a finding too."""
    try:
        return list(look())
    except ExplainedError as error:
        return [Finding("error", name, f"{error.message} {error.why}".strip(), error.fix)]
    except Exception as error:
        # Broad, because one broken check must not hide the findings of the others.
        logger.exception("look failed name=%s", name)
        return [Finding("error", name, f"{type(error).__name__}: {error}")]


def _show(findings: list[Finding]) -> None:
    label = max(len(each.what) for each in findings)
    room = max(screen_width() - label - 11, 30)
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
    if wrong or odd:
        say(f"{counted(wrong, 'error')}, {counted(odd, 'warning')}.")
    else:
        say("No problems found.")
