"""`amplifier module new|validate|test`: create a module from a template, and check it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

from amplifier_cli import module_checks
from amplifier_cli.failures import CommandError
from amplifier_cli.installed import find_module
from amplifier_cli.output import say, styled
from amplifier_cli.terminal import fitted, heading, print_columns, screen_width, working

_TEMPLATES = Path(__file__).parent.parent / "templates"
_SUFFIX = ".template"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


class Kind(NamedTuple):
    """The values that differ between kinds in the shared templates."""

    suite: str
    things: str
    summary: str
    dependencies: tuple[str, ...]


_KIT = ("amplifier-core", "amplifier-kit")
KINDS = {
    "provider": Kind("Provider", "providers", "access to the models of one vendor", _KIT),
    "tool": Kind("Tool", "tools", "a tool for the model", (*_KIT, "pydantic>=2.12")),
    "loop": Kind(
        "Orchestrator",
        "orchestrators",
        "a loop from prompt to answer",
        ("amplifier-core", "amplifier-kit", "amplifier-module-loops"),
    ),
    "context": Kind("Context", "contexts", "a memory", (*_KIT, "pydantic>=2.12")),
    "hooks": Kind("Hook", "hooks", "a guard over tool calls", ("amplifier-core", "pydantic>=2.12")),
}


def kind_of(module_id: str) -> str:
    """Return the kind that a module id begins with.

    Raises:
        CommandError: it is not a valid module id.
    """
    kind, _, name = module_id.partition("-")
    if kind not in KINDS or not _NAME.fullmatch(name):
        raise CommandError(
            f"`{module_id}` is not a valid module name.",
            why=f"It begins with {', '.join(f'{each}-' for each in KINDS)} and continues in lower "
            "case letters, digits and dashes.",
            fix="amplifier module new tool-weather",
        )
    return kind


def scaffold(module_id: str, parent: Path) -> list[Path]:
    """Write a new module into `parent`, and return its files.

    Raises:
        CommandError: the id is not valid, or the folder exists already.
    """
    kind = kind_of(module_id)
    folder = parent / module_id
    if folder.exists():
        raise CommandError(
            f"{folder} is there already.",
            why="Nothing was written, so that nothing is lost.",
            fix=f"amplifier module new {module_id} --dir another-folder",
        )
    words = _words(kind, module_id)
    written: list[Path] = []
    for root in (_TEMPLATES / "every", _TEMPLATES / kind):
        for template in sorted(root.rglob(f"*{_SUFFIX}")):
            relative = str(template.relative_to(root)).removesuffix(_SUFFIX)
            target = folder / relative.replace("PACKAGE", words["package"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(template.read_text("utf-8"), words), "utf-8")
            written.append(target)
    return sorted(written)


def _words(kind: str, module_id: str) -> dict[str, str]:
    about = KINDS[kind]
    name = module_id.removeprefix(f"{kind}-")
    return {
        "id": module_id,
        "name": name,
        "Name": "".join(part.capitalize() for part in name.split("-")),
        "snake": name.replace("-", "_"),
        "package": f"amplifier_module_{module_id.replace('-', '_')}",
        "Suite": about.suite,
        "things": about.things,
        "summary": about.summary,
        "Summary": about.summary[0].upper() + about.summary[1:],
        "dependencies": ", ".join(f'"{each}"' for each in about.dependencies),
    }


def _filled(text: str, words: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)


_MARKS = {"ok": ("ok", "green"), "error": ("failed", "red"), "warning": ("warning", "yellow")}


@click.command()
@click.argument("module_id", metavar="KIND-NAME")
@click.option(
    "--dir",
    "parent",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder to make it in; by default this one.",
)
def new(module_id: str, parent: Path) -> None:
    """Create a module from a template."""
    files = scaffold(module_id, parent)
    folder = parent / module_id
    heading(f"{module_id}: {KINDS[module_id.partition('-')[0]].summary}")
    for file in files:
        say(f"  {file.relative_to(parent)}")
    shown = folder if folder.is_absolute() else f"./{folder}"
    say()
    say(f"Check it    amplifier module validate {shown}")
    say(f"Test it     amplifier module test {shown}")
    say(f'Use it      amplifier run --module {shown} "..."')


def _object(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    """Parse an option's value as a JSON object."""
    if value is None:
        return None
    try:
        given: Any = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise click.BadParameter('it is no JSON object, such as {"key": "value"}.')
    return cast("dict[str, Any]", given)


@click.command()
@click.argument("where", metavar="FOLDER-OR-ID", default=".")
@click.option("--type", "kind", type=click.Choice(module_checks.TYPES), help="Type of the module.")
@click.option("--id", "module_id", help="Which module, if the folder has several.")
@click.option("--config", callback=_object, help="Configuration to mount it with, as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show passed checks, too.")
@click.pass_context
def validate(
    context: click.Context,
    where: str,
    kind: str | None,
    module_id: str | None,
    config: dict[str, Any] | None,
    verbose: bool,
) -> None:
    """Check a module against its contract.

    Imports and mounts it on a double, without credentials and without a network; then runs the
    kernel's suite for its type.
    """
    named = find_module(where, kind, module_id)._replace(config=config)
    found = module_checks.completed(named, where)
    heading(f"{found.module_id} ({found.type})")
    if found.config and config is None:
        say(f"  configuration: {', '.join(found.config)} (a placeholder)")
    for title, look in (
        ("structure", module_checks.structure),
        ("behaviour", module_checks.behaviour),
    ):
        with working(f"checking the {title} of {found.module_id}"):
            checks = look(found)
        _show(title, checks, verbose)
        if any(each.level == "error" for each in checks):
            # A module with a wrong structure would fail every behaviour check, for one reason.
            context.exit(1)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("where", metavar="FOLDER-OR-ID", default=".")
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def test(context: click.Context, where: str, pytest_arguments: tuple[str, ...]) -> None:
    """Run a module's own tests; what follows the folder goes to pytest."""
    context.exit(module_checks.run_tests(find_module(where), pytest_arguments))


def _show(title: str, checks: list[module_checks.Check], verbose: bool) -> None:
    good = sum(each.level == "ok" for each in checks)
    if verbose:
        shown = checks
    else:
        shown = [each for each in checks if each.level not in ("ok", "info")]
    if not any(each.level == "error" for each in checks):
        color = "green"
    else:
        color = "red"
    say(f"  {title:<10} {styled(f'{good} of {len(checks)} checks passed', fg=color)}")
    room = max(screen_width() - 50, 30)
    rows: list[tuple[str, str, str]] = []
    for each in shown:
        word, paint = _MARKS.get(each.level, ("skipped", None))
        if each.level == "ok":
            message = fitted(each.message, room)
        else:
            message = each.message
        rows.append((f"    {styled(word, fg=paint)}", each.name, message))
    print_columns(rows)
