"""`amplifier bundle`: which there are, what is in one, and whether it can be used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, say_json, styled
from amplifier_cli.render.plain import counted, one_line
from amplifier_cli.terminal import (
    fitted,
    heading,
    notice,
    print_columns,
    screen_width,
    working,
)
from amplifier_sandbox.visible_text import exact

if TYPE_CHECKING:
    from amplifier_foundation.preparing import Ready


@click.group()
def bundle() -> None:
    """Look at bundles and check them."""


@bundle.command("list")
def list_bundles() -> None:
    """List the bundles that have a name here."""
    from amplifier_foundation.bundles import known_bundles  # noqa: PLC0415 - reads YAML
    from amplifier_foundation.preparing import current_settings  # noqa: PLC0415 - as above

    settings = current_settings(Path.cwd())
    active = settings.get("bundle.active") or "default"
    names = {**known_bundles(settings), "default": "what comes with Amplifier"}
    print_columns(
        (name, styled("active", fg="green") if name == active else "", fitted(where, 80))
        for name, where in names.items()
    )


@bundle.command()
@click.argument("name")
@click.argument("where", metavar="PATH-OR-ADDRESS")
def add(name: str, where: str) -> None:
    """Give a bundle a name that holds in every folder."""
    address = _address(where)

    def change(values: dict[str, Any]) -> None:
        values["bundle"] = _section(values)
        values["bundle"].setdefault("added", {})[name] = address

    notice(f"{name} is {address} ({_change_settings(change)})")


@bundle.command()
@click.argument("name")
def use(name: str) -> None:
    """Take a bundle for every session from now on."""
    _ready(name)

    def change(values: dict[str, Any]) -> None:
        values["bundle"] = {**_section(values), "active": name}

    notice(f"{name} is active ({_change_settings(change)})")


@bundle.command()
@click.argument("name", default="default")
@click.option("--plan", "as_plan", is_flag=True, help="Print the mount plan as JSON, without keys.")
def show(name: str, as_plan: bool) -> None:
    """Show what a session with a bundle is made of."""
    ready = _ready(name)
    if as_plan:
        from amplifier_core.redaction import redact_secrets  # noqa: PLC0415 - the kernel

        say_json(redact_secrets(ready.plan))
        return
    heading(ready.bundle)
    session: dict[str, Any] = ready.plan["session"]
    rows = [(part, _told(session[part])) for part in ("orchestrator", "context")]
    for section in ("providers", "tools", "hooks"):
        entries: list[dict[str, Any]] = ready.plan.get(section) or []
        rows += [(section, _told(each)) for each in entries]
    print_columns((f"  {styled(key, dim=True)}", value) for key, value in _once(rows))
    if ready.plan.get("agents"):
        heading("agents")
        print_columns((f"  {name}",) for name in ready.plan["agents"])
    heading("instructions")
    print_columns(
        [(f"  {each.origin}", counted(len(each.text), "character")) for each in ready.instructions]
    )
    for line in ready.notices:
        notice(line, level=ready.level_of(line))


@bundle.command()
@click.argument("name", default="default")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3_600),
    default=60,
    show_default=True,
    help="Seconds for mounting all modules.",
)
def validate(name: str, timeout: float) -> int:
    """Check that a bundle can be read, composed and mounted.

    All of its modules are imported and mounted as for a run, in a process of their own.
    """
    from amplifier_cli.mount_check import mount_all  # noqa: PLC0415 - starts a process
    from amplifier_core.validation import MountPlanValidator  # noqa: PLC0415 - the kernel

    ready = _ready(name)
    asyncio.run(ready.require_pins())
    for each in ready.missing:
        say(f"  warning  {exact(one_line(str(each)))}")
    result = MountPlanValidator().validate(ready.plan)
    for each in (*result.errors, *result.warnings):
        say(f"  {each.severity}  {exact(each.message)}")
    missing = _not_installed(ready)
    for module_id in missing:
        say(f"  error  {exact(module_id)} is neither installed nor has it a source")
    with working(f"mounting the modules of {name}"):
        report = mount_all(name, timeout)
    for module_id, why in report.failed.items():
        if module_id not in missing:
            say(f"  error  {exact(module_id)} does not mount: {one_line(why)}")
    good = result.passed and not missing and not report.failed
    if good:
        word = styled("good", fg="green")
    else:
        word = styled("cannot be used", fg="red")
    count = f"{report.mounted} of {report.mounted + len(report.failed)} modules mount"
    say(f"{exact(ready.bundle)}: {word}{'' if good else f' ({count})'}")
    return 0 if good else 1


@bundle.command()
@click.argument("name", required=False)
def install(name: str | None) -> None:
    """Install the libraries that the modules of a bundle require."""
    from amplifier_cli.commands.module_install import install_for  # noqa: PLC0415 - rare

    install_for(name)


def _address(where: str) -> str:
    """Return where a bundle is, so that it means the same in every folder.

    Raises:
        CommandError: it is a path, and nothing is there.
    """
    from amplifier_foundation.bundles import known_bundles  # noqa: PLC0415 - reads YAML
    from amplifier_foundation.bundles.references import (  # noqa: PLC0415 - as above
        bundle_files,
        is_address,
        is_path,
    )
    from amplifier_foundation.preparing import current_settings  # noqa: PLC0415 - as above
    from amplifier_foundation.sources.uri import parse_source  # noqa: PLC0415 - as above

    if where.startswith("file:"):
        path = Path(parse_source(where).location)
    elif is_address(where):
        return where
    else:
        path = Path(where).expanduser()
    # `team` may mean `team.yaml`.
    if any(each.exists() for each in bundle_files(path, path)):
        return str(path.resolve())
    if not is_path(where) and not where.startswith("file:"):
        known = ("default", *known_bundles(current_settings(Path.cwd())))
        # Another name, or `name:path`, a file of another bundle.
        if where in known or ":" in where:
            return where
    raise CommandError(
        f"There is no bundle at `{where}`.",
        why=f"`{path.absolute()}` does not exist.",
        fix="Name a file or folder that exists, or an address such as git+https://HOST/REPOSITORY",
    )


def _section(values: dict[str, Any]) -> dict[str, Any]:
    """Return the section about bundles; the short form of it is the name of the active one."""
    section: Any = values.get("bundle") or {}
    if isinstance(section, str):
        return {"active": section}
    return section


def _change_settings(change: Any) -> Path:
    from amplifier_foundation.settings import change_user_settings  # noqa: PLC0415 - reads YAML

    return change_user_settings(change)


def _ready(name: str) -> Ready:
    from amplifier_foundation.preparing import Wishes, get_ready  # noqa: PLC0415 - reads YAML

    return asyncio.run(get_ready(Wishes(bundle=name)))


def _told(entry: dict[str, Any]) -> str:
    config = ", ".join(entry.get("config") or {})
    source = f" from {entry['source']}" if entry.get("source") else ""
    return fitted(
        f"{entry['module']}{source}{f' ({config})' if config else ''}", screen_width() - 18
    )


def _once(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return rows that name their section only the first time."""
    before = ""
    told: list[tuple[str, str]] = []
    for section, value in rows:
        told.append(("" if section == before else section, value))
        before = section
    return told


def _not_installed(ready: Ready) -> list[str]:
    installed = set(ready.resolver.installed_ids())
    named = [each["module"] for each in ready.entries if not each.get("source")]
    return [each for each in named if each not in installed]
