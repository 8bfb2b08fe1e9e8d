"""`amplifier module list|show|lock`: show installed modules, and pin them to their content."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from amplifier_cli.installed import InstalledModule, find_module, installed_modules
from amplifier_cli.output import say, say_json
from amplifier_cli.render.plain import counted
from amplifier_cli.terminal import fitted, heading, notice, print_columns, screen_width, working

if TYPE_CHECKING:
    from amplifier_foundation.sources.inspection import Finding

_KINDS = {"loop": "loops", "context": "contexts", "provider": "providers", "tool": "tools"}


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_modules(as_json: bool) -> None:
    """List the installed modules."""
    found = installed_modules()
    if as_json:
        say_json([_facts(each) for each in found])
        return
    room = max(screen_width() - 40, 30)
    width = max((len(each.module_id) for each in found), default=0)
    for kind, group in groupby(found, lambda each: each.module_id.partition("-")[0]):
        heading(_KINDS.get(kind, kind))
        print_columns(
            (f"  {each.module_id.ljust(width)}", each.version, fitted(each.summary, room))
            for each in group
        )


@click.command()
@click.argument("where", metavar="FOLDER-OR-ID")
def show(where: str) -> None:
    """Show one module."""
    found = find_module(where)
    heading(found.module_id)
    told = next((each for each in installed_modules() if each.module_id == found.module_id), None)
    rows = [("type", found.type or "unknown"), ("package", str(found.package))]
    if told is not None:
        rows += [("version", f"{told.version} ({told.distribution})"), ("about", told.summary)]
    print_columns((f"  {key}", value) for key, value in rows)
    # In a distribution of several modules, each has its own page beside the README.
    pages = (found.folder / f"{found.module_id}.md", found.folder / "README.md")
    readme = next((page for page in pages if page.is_file()), None)
    if readme is not None:
        say()
        say(readme.read_text("utf-8").partition("\n## Events")[0].strip())


@click.command()
@click.option("-b", "--bundle", help="Modules of this bundle; by default the active one.")
@click.option(
    "--update", is_flag=True, help="Take the newest of what is pinned by a branch or tag."
)
@click.option("--accept", multiple=True, hidden=True)
def lock(bundle: str | None, update: bool, accept: tuple[str, ...]) -> int:
    """Pin every module to its exact bytes.

    Writes amplifier.lock in this folder. A module that is not what it pins is refused. One that
    cannot be had is named, the others are pinned, and the exit code is 1. Hints about the code of
    fetched modules are about accidents, not attacks: pin only what you trust.
    """
    import asyncio  # noqa: PLC0415 - the other commands of this file do without

    from amplifier_foundation.prepare import (  # noqa: PLC0415 - reads YAML
        SessionOptions,
        prepare_session,
        write_lock,
    )
    from amplifier_foundation.sources.errors import FetchError  # noqa: PLC0415 - as above

    ready = asyncio.run(prepare_session(SessionOptions(bundle=bundle), pinning=True))
    if accept:
        notice("--accept has no effect: hints refuse nothing.", level="warning")
    for line in map(str, ready.missing):
        notice(line, level="warning")
    rows: list[tuple[str, str, str]] = []
    unpinned: list[str] = []
    fetched: dict[str, list[Finding]] = {}
    for entry in ready.entries:
        try:
            with working(f"pinning {entry['module']}"):
                pin = ready.resolver.pin(entry["module"], entry.get("source"), update=update)
                hints = ready.resolver.hints(entry["module"], entry.get("source"))
        except FetchError as error:
            if entry["module"] in ready.resolver.lock.modules:
                # Leaving out a pinned module would let anybody drop it by making it unreachable.
                raise
            unpinned.append(f"{entry['module']} is not pinned. {error.message} {error.why}")
            ready.resolver.lock.note_missing(entry["module"], error)
            continue
        ready.resolver.lock.missing.pop(entry["module"], None)
        rows.append((entry["module"], pin.sha256[:12], pin.commit or pin.version or ""))
        if hints is not None:
            fetched[entry["module"]] = hints
    is_trusted = write_lock(ready)
    print_columns(rows, ("module", "sha256", "version"))
    _show_hints(fetched)
    notice(f"{ready.resolver.lock.path}: {counted(len(rows), 'module')} pinned")
    if not is_trusted:
        notice("It takes effect once this folder is trusted: amplifier trust", level="warning")
    for line in unpinned:
        notice(line, level="warning")
    return 1 if unpinned else 0


def _show_hints(fetched: dict[str, list[Finding]]) -> None:
    """Show the hints about fetched code, and what hints are."""
    if not any(fetched.values()):
        return
    from amplifier_foundation.sources.inspection import WHAT_HINTS_ARE  # noqa: PLC0415 - rare

    for module_id, hints in fetched.items():
        for hint in hints:
            notice(f"hint: {module_id}: {hint}", level="warning")
    notice(WHAT_HINTS_ARE)


def _facts(module: InstalledModule) -> dict[str, str]:
    facts = module._asdict()
    del facts["entry_point"]
    return facts
