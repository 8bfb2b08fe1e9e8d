"""`amplifier bundle`: list, show, add, choose, validate and install bundles."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from amplifier_sandbox.platforms.signals import end_group
from amplifier_sandbox.visible_text import exact, json_text

if TYPE_CHECKING:
    from amplifier_foundation.prepare import PreparedSession

_PARTS = ("orchestrator", "context")
_NO_RESULT = "The process that mounted it ended before it was done."


class MountReport(NamedTuple):
    """How many modules mounted, and why each of the others did not."""

    mounted: int
    failed: dict[str, str]


def mount_all(bundle: str, seconds: float) -> MountReport:
    """Import and mount every module of a bundle as a run would, in a separate process.

    The module being mounted when `seconds` have passed, or when the process ends, is reported as
    failed.
    """
    # A process, because a module could end or change this one. One for all modules, because a
    # process for each would hide what modules need of each other.
    with tempfile.TemporaryDirectory(prefix="amplifier-mount-") as folder:
        report = Path(folder) / "report"
        report.touch()
        # -P: like the installed command, do not import from the current folder.
        command = [sys.executable, "-P", "-m", "amplifier_cli.commands.bundle", bundle, folder]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        why = _NO_RESULT
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            why = f"It did not mount within {seconds:g} seconds."
        finally:
            if process.poll() is None:
                # The group includes processes that the modules started.
                end_group(process.pid)
                process.wait()
        return _read(report, why)


def _read(report: Path, why: str) -> MountReport:
    trying = "session"
    mounted = 0
    failed: dict[str, str] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        fact: dict[str, Any] = json.loads(line)
        if fact.get("done"):
            return MountReport(mounted, failed)
        if "trying" in fact:
            trying = str(fact["trying"])
        elif fact["error"] is None:
            mounted += 1
        else:
            failed[str(fact["module"])] = str(fact["error"])
    return MountReport(mounted, {**failed, trying: why})


class _Watched:
    """A resolver that records each module before it is mounted, to name one that hangs."""

    def __init__(self, resolver: Any, report: Path) -> None:
        self._resolver = resolver
        self._report = report

    async def async_resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> Any:
        _note(self._report, {"trying": module_id})
        return await self._resolver.async_resolve(module_id, source_hint, profile_hint)

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        _note(self._report, {"trying": module_id})
        return self._resolver.resolve(module_id, source_hint, profile_hint)


def _note(report: Path, fact: dict[str, Any]) -> None:
    # Closed after each line, so that a process that is killed leaves everything it noted.
    with report.open("a", encoding="utf-8") as file:
        file.write(json_text(fact) + "\n")


async def _mount(bundle: str, folder: Path) -> None:
    """Mount a bundle in this process, and write the results to the report."""
    from amplifier_core.errors import AmplifierError  # noqa: PLC0415 - only to mount
    from amplifier_core.session import AmplifierSession  # noqa: PLC0415 - as above
    from amplifier_foundation.bundles import default_bundle  # noqa: PLC0415 - as above
    from amplifier_foundation.prepare import (  # noqa: PLC0415 - as above
        SessionOptions,
        current_settings,
        prepare_session,
    )

    report = folder / "report"
    ready = await prepare_session(SessionOptions(bundle=bundle))
    await ready.require_pins()
    plan = _tolerant(ready)
    # No session starts without a loop and a context. If one of them fails, the default bundle's
    # takes its place, so that the other modules are tried too.
    ours = default_bundle(current_settings(ready.project)).session
    # One more attempt for each part that can be replaced.
    for _ in range(len(_PARTS) + 1):
        session = AmplifierSession(plan)
        coordinator = session.coordinator
        coordinator.register_capability("session.working_dir", str(ready.project))
        coordinator.register_capability("session.folder", str(folder))
        await coordinator.mount("module-source-resolver", _Watched(ready.resolver, report))
        try:
            await session.initialize()
        except AmplifierError as error:
            part = _failed_part(coordinator)
            module = plan["session"][part]["module"]
            plan["session"][part] = ours[part]
            _note(report, {"module": module, "error": str(error)})
            await session.cleanup()
            continue
        for each in session.status.modules:
            if each.state == "failed":
                failure = each.error or "It failed."
            else:
                failure = None
            _note(report, {"module": each.module_id, "error": failure})
        # Before the cleanup, which is not part of the check and may hang.
        _note(report, {"done": True})
        await session.cleanup()
        return
    _note(report, {"done": True})


def _failed_part(coordinator: Any) -> str:
    """Return which part of the session failed to mount."""
    if coordinator.get("orchestrator") is not None:
        return "context"
    return "orchestrator"


def _tolerant(ready: PreparedSession) -> dict[str, Any]:
    """Return a plan without required modules, so that a failure does not end the mounting."""
    plan: dict[str, Any] = {**ready.plan, "session": dict(ready.plan["session"])}
    for section in ("providers", "tools", "hooks"):
        entries: list[dict[str, Any]] = plan.get(section) or []
        plan[section] = [{**each, "required": False} for each in entries]
    return plan


if __name__ == "__main__":
    asyncio.run(_mount(sys.argv[1], Path(sys.argv[2])))


@click.group()
def bundle() -> None:
    """List, show, check and choose bundles."""


@bundle.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_bundles(as_json: bool) -> None:
    """List the bundles that have a name here."""
    from amplifier_foundation.bundles import known_bundles  # noqa: PLC0415 - reads YAML
    from amplifier_foundation.prepare import current_settings  # noqa: PLC0415 - as above

    settings = current_settings(Path.cwd())
    active = settings.get("bundle.active") or "default"
    names = {**known_bundles(settings), "default": "what comes with Amplifier"}
    if as_json:
        say_json(
            [
                {"name": name, "where": where, "active": name == active}
                for name, where in names.items()
            ]
        )
        return
    print_columns(
        (name, styled("active", fg="green") if name == active else "", fitted(where, 80))
        for name, where in names.items()
    )


@bundle.command()
@click.argument("name")
@click.argument("where", metavar="PATH-OR-ADDRESS")
def add(name: str, where: str) -> None:
    """Name a bundle for use in every folder."""
    address = _address(where)

    def change(values: dict[str, Any]) -> None:
        values["bundle"] = _section(values)
        values["bundle"].setdefault("added", {})[name] = address

    notice(f"{name} is {address} ({_change_settings(change)})")


@bundle.command()
@click.argument("name")
def use(name: str) -> None:
    """Use a bundle for every session from now on."""
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
    """Return the address of a bundle in a form that is valid in every folder.

    Raises:
        CommandError: it is a path that does not exist.
    """
    from amplifier_foundation.bundles import known_bundles  # noqa: PLC0415 - reads YAML
    from amplifier_foundation.bundles.references import (  # noqa: PLC0415 - as above
        bundle_files,
        is_address,
        is_path,
    )
    from amplifier_foundation.prepare import current_settings  # noqa: PLC0415 - as above
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
        # The name of another bundle, or `name:path`, a file of one.
        if where in known or ":" in where:
            return where
    raise CommandError(
        f"There is no bundle at `{where}`.",
        why=f"`{path.absolute()}` does not exist.",
        fix="Name a file or folder that exists, or an address such as git+https://HOST/REPOSITORY",
    )


def _section(values: dict[str, Any]) -> dict[str, Any]:
    """Return the section about bundles; its short form is the name of the active bundle."""
    section: Any = values.get("bundle") or {}
    if isinstance(section, str):
        return {"active": section}
    return section


def _change_settings(change: Any) -> Path:
    from amplifier_foundation.settings import change_user_settings  # noqa: PLC0415 - reads YAML

    return change_user_settings(change)


def _ready(name: str) -> PreparedSession:
    from amplifier_foundation.prepare import SessionOptions, prepare_session  # noqa: PLC0415 - reads YAML

    return asyncio.run(prepare_session(SessionOptions(bundle=name)))


def _told(entry: dict[str, Any]) -> str:
    config = ", ".join(entry.get("config") or {})
    if entry.get("source"):
        source = f" from {entry['source']}"
    else:
        source = ""
    return fitted(
        f"{entry['module']}{source}{f' ({config})' if config else ''}", screen_width() - 18
    )


def _once(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return rows that name their section only in its first row."""
    before = ""
    told: list[tuple[str, str]] = []
    for section, value in rows:
        told.append(("" if section == before else section, value))
        before = section
    return told


def _not_installed(ready: PreparedSession) -> list[str]:
    installed = set(ready.resolver.installed_ids())
    named = [each["module"] for each in ready.entries if not each.get("source")]
    return [each for each in named if each not in installed]
