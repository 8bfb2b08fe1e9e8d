"""The checks of `amplifier doctor`; every finding that is not ok has a fix."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from amplifier_cli import __version__
from amplifier_cli.installed import installed_modules
from amplifier_cli.render.plain import counted, one_line, size
from amplifier_foundation import paths
from amplifier_foundation.bundles import known_bundles
from amplifier_foundation.bundles.providers import KEYS, detect_provider
from amplifier_foundation.credentials import find_key
from amplifier_foundation.installation import own_versions, repair_command
from amplifier_foundation.prepare import SessionOptions, current_settings, prepare_session
from amplifier_foundation.short_ids import short_id
from amplifier_foundation.sources.errors import LOCK_COMMAND, command_for
from amplifier_foundation.sources.lock import ELSEWHERE, LOCK_NAME, Lock, Pin
from amplifier_foundation.sources.resolver import SourceResolver
from amplifier_foundation.sources.uri import parse_source
from amplifier_foundation.store import SessionStore
from amplifier_foundation.trust import Trust
from amplifier_kit.explained_error import ExplainedError
from amplifier_sandbox.project_folder import project_root

# The log of a short session with its index.
_LEAST_FREE_BYTES = 1_000_000


class Drift(NamedTuple):
    """A module that differs from its pin."""

    module_id: str
    told: str
    fix: str


class Compared(NamedTuple):
    """The modules that drifted, and the `unknown` ones whose path no bundle names."""

    drifts: list[Drift]
    unknown: list[str]


def compare_pins(resolver: SourceResolver) -> Compared:
    """Compare every module of the lock with its pin.

    A path outside the project is not in the lock, which is shared between machines. It is taken
    from the active bundle, else from any named one: the lock may be for one that is not active.
    """
    drifts: list[Drift] = []
    elsewhere: list[str] = []
    for module_id, pin in resolver.lock.modules.items():
        if pin.source == ELSEWHERE:
            elsewhere.append(module_id)
            continue
        drift = _compare(resolver, module_id, _source_of(pin), None)
        if drift is not None:
            drifts.append(drift)
    found = _compare_elsewhere(resolver, elsewhere)
    return Compared([*drifts, *found.drifts], found.unknown)


def _compare_elsewhere(resolver: SourceResolver, module_ids: Iterable[str]) -> Compared:
    """Compare modules with the paths that bundles name; one matching path is enough."""
    left = set(module_ids)
    drifts: dict[str, Drift] = {}
    for bundle in _bundles():
        if not left:
            break
        sources = _path_sources(bundle)
        for module_id in sorted(left & sources.keys()):
            drift = _compare(resolver, module_id, sources[module_id], bundle)
            if drift is None:
                left.remove(module_id)
                drifts.pop(module_id, None)
            else:
                drifts.setdefault(module_id, drift)
    return Compared(list(drifts.values()), sorted(left - drifts.keys()))


def _compare(
    resolver: SourceResolver, module_id: str, source: Any, bundle: str | None
) -> Drift | None:
    try:
        resolver.locate(module_id, source)
    except ExplainedError as error:
        if error.fix == LOCK_COMMAND:
            fix = command_for(LOCK_COMMAND, bundle)
        else:
            fix = error.fix
        return Drift(module_id, f"{error.message} {error.why}".strip(), fix)
    return None


def _source_of(pin: Pin) -> str | None:
    if pin.source.startswith("package:"):
        return None
    return pin.source


def _bundles() -> Iterator[str | None]:
    """Yield the active bundle, which needs no name, and then the others that have one."""
    yield None
    settings = current_settings(Path.cwd())
    active = settings.get("bundle.active")
    yield from (name for name in known_bundles(settings) if name != active)


def _path_sources(bundle: str | None) -> dict[str, Any]:
    """Return the sources of a bundle's modules that are paths; none if it cannot be loaded."""
    try:
        ready = asyncio.run(prepare_session(SessionOptions(bundle=bundle)))
    except ExplainedError:
        # Another check reports what is wrong with the active bundle.
        return {}
    named = {each["module"]: each["source"] for each in ready.entries if each.get("source")}
    return {name: source for name, source in named.items() if parse_source(source).kind == "path"}


# The command does not start without these; our other packages are optional.
_NEEDED = ("amplifier-cli", "amplifier-core", "amplifier-foundation", "amplifier-kit")
_LARGE = 5_000_000_000
_BIGGEST_SHOWN = 3
_WEEK = timedelta(days=7)


class Finding(NamedTuple):
    """The result of one check."""

    level: Literal["ok", "warning", "error", "info"]
    what: str
    told: str
    fix: str = ""


def _versions() -> Iterator[Finding]:
    yield Finding("info", "python", f"{platform.python_version()} ({sys.executable})")
    installed = 0
    differing = 0
    for name, expected in own_versions().items():
        found = _installed_version(name)
        if found is not None:
            installed += 1
        if found == expected or (found is None and name not in _NEEDED):
            continue
        differing += 1
        told = f"is {found or 'not installed'}; this command belongs to {expected}"
        yield Finding("error", name, told, repair_command())
    if not differing:
        kernel = own_versions()["amplifier-core"]
        told = f"{__version__} (kernel {kernel}), {counted(installed, 'package')} as pinned"
        yield Finding("ok", "amplifier", told)


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _settings() -> Iterator[Finding]:
    settings = current_settings(Path.cwd())
    files = ", ".join(str(layer.path) for layer in settings.layers) or "none; using the defaults"
    yield Finding("ok", "settings", files)
    for notice in settings.notices:
        yield Finding("warning", "settings", notice)
    choice = detect_provider(settings)
    level = "warning" if choice.is_mock else "ok"
    fix = "amplifier init" if choice.is_mock else ""
    yield Finding(level, "provider", f"{choice.module}: {choice.why}", fix)


def _keys() -> Iterator[Finding]:
    for names in KEYS.values():
        for name in names:
            key = find_key(name)
            if key is not None:
                yield Finding("ok", "key", str(key))


def _trust() -> Iterator[Finding]:
    status = Trust(paths.home()).status_to_run(project_root(Path.cwd()))
    if status.trusted:
        yield Finding(
            "ok", "trust", f"this folder is trusted ({counted(len(status.files), 'file')})"
        )
    elif status.unverifiable:
        told = f"cannot be verified: {', '.join(status.unverifiable)}"
        told = next(iter(status.reasons.values()), told)
        yield Finding("warning", "trust", told, "amplifier trust show")
    elif status.files:
        names = ", ".join((status.changed or status.files)[:3])
        told = f"{'changed' if status.changed else 'not used, because not trusted'}: {names}"
        yield Finding("warning", "trust", told, "amplifier trust")


def _sandbox() -> Iterator[Finding]:
    from amplifier_sandbox.processes.sandbox import Sandbox  # noqa: PLC0415 - probes the system
    from amplifier_sandbox.processes.seatbelt import is_macos  # noqa: PLC0415 - as above
    from amplifier_sandbox.processes.session_bounds import (  # noqa: PLC0415 - as above
        COUNTING_IN_WORDS,
        counting_of,
    )

    sandbox = Sandbox.detect()
    if sandbox.level != "none":
        yield Finding("info", "limits", COUNTING_IN_WORDS[counting_of(sandbox)])
    if sandbox.level == "bubblewrap":
        yield Finding("ok", "sandbox", "bubblewrap: commands cannot leave the workspace")
    elif sandbox.level == "seatbelt":
        told = "Seatbelt of macOS: commands cannot leave the workspace, and have no localhost"
        yield Finding("ok", "sandbox", told)
    else:
        told = f"{sandbox.level}: {'; '.join(sandbox.reasons)}"
        level = "warning" if sandbox.level == "landlock" else "error"
        # On macOS, the sandbox is a part of the system.
        fix = "" if is_macos() else "install the package `bubblewrap`"
        yield Finding(level, "sandbox", told, fix)
    if sandbox.level != "none":
        yield from _toolchains()


def _toolchains() -> Iterator[Finding]:
    from amplifier_sandbox.processes.toolchains import (  # noqa: PLC0415 - searches the system
        find_toolchains,
    )

    found = find_toolchains([project_root(Path.cwd()).resolve()])
    for folder in found.shown:
        yield Finding("info", "toolchain", f"commands can run what is in {_short(folder)}")
    for entry, why in found.left_out:
        told = f"commands cannot see {_short(Path(entry))} of PATH: {why} (see `read_only_paths`)"
        yield Finding("info", "toolchain", told)


def _short(path: Path) -> str:
    home = Path.home()
    if path.is_relative_to(home):
        return str("~" / path.relative_to(home))
    return str(path)


def _search() -> Iterator[Finding]:
    from amplifier_sandbox.own.programs import find_program  # noqa: PLC0415 - rare

    if find_program("rg", project_root(Path.cwd())) is None:
        told = "ripgrep is not installed: searches are slower, and their patterns are Python's"
        yield Finding("warning", "search", told, "install the package `ripgrep`")


def _modules() -> Iterator[Finding]:
    modules = installed_modules()
    owners = Counter(each.module_id for each in modules)
    broken = 0
    # A session with two claimants of one id is refused, and imports do not show them.
    for module_id, count in owners.items():
        if count > 1:
            names = [each.distribution for each in modules if each.module_id == module_id]
            told = f"{module_id} is claimed by {' and '.join(names)}"
            yield Finding("error", "module", told, f"python -m pip uninstall {names[-1]}")
    for each in modules:
        try:
            each.entry_point.load()
        except Exception as error:  # noqa: BLE001 - anything that a module raises is the finding
            broken += 1
            told = f"{each.module_id} does not import: {type(error).__name__}: {error}"
            yield Finding("error", "module", told, f"amplifier module validate {each.module_id}")
    if not broken:
        yield Finding("ok", "modules", f"{len(modules)} installed, all can be imported")


def _model() -> Iterator[Finding]:
    """Ask the provider that a session here would use; the mock needs no question."""
    from amplifier_cli.bare_session import provider_trouble  # noqa: PLC0415 - with the kernel
    from amplifier_cli.failures import described  # noqa: PLC0415 - as above

    ready = asyncio.run(prepare_session(SessionOptions()))
    if ready.is_mock:
        return
    trouble = asyncio.run(provider_trouble(ready))
    if trouble is None:
        yield Finding("ok", "model", f"{ready.provider} answers")
    else:
        what, why, fix = described(trouble)
        yield Finding("error", "model", f"{what.rstrip('.')}. {why}".strip(), fix)


def _guards() -> Iterator[Finding]:
    """Mount each guard, as a session in this folder would."""
    from amplifier_cli.bare_session import mounting_failure  # noqa: PLC0415 - with the kernel
    from amplifier_core.errors import AmplifierError  # noqa: PLC0415 - as above

    ready = asyncio.run(prepare_session(SessionOptions()))
    guards = [each for each in ready.plan.get("hooks") or () if each.get("required")]
    broken = 0
    for entry in guards:
        try:
            failure = asyncio.run(mounting_failure(ready, entry))
        except AmplifierError as error:
            yield _no_session(error, ready.reference)
            return
        if failure:
            broken += 1
            told = f"{entry['module']} does not start, so no session does: {failure}"
            yield Finding("error", "guard", told, f"correct its entry: {_places(entry)}")
    if not broken:
        names = ", ".join(each["module"].removeprefix("hooks-") for each in guards) or "none"
        yield Finding("ok", "guards", names)


def _no_session(error: Exception, bundle: str) -> Finding:
    """Report that no guard can be mounted, because the loop or the context fails to mount."""
    cause = error.__cause__
    if isinstance(cause, ExplainedError) and cause.fix:
        why = f"{cause.message} {cause.why}"
        fix = cause.fix
    else:
        why = str(error)
        fix = f"amplifier bundle validate {shlex.quote(bundle)}"
    return Finding("error", "guards", f"no session of `{bundle}` starts: {one_line(why)}", fix)


def _places(entry: dict[str, Any]) -> str:
    """Return the settings files that name a module, else the command that shows the plan."""
    places: list[str] = []
    for layer in current_settings(Path.cwd()).layers:
        modules: dict[str, Any] = layer.values.get("modules") or {}
        hooks: list[dict[str, Any]] = modules.get("hooks") or []
        if any(each["module"] == entry["module"] for each in hooks):
            places.append(str(layer.path))
    return ", ".join(places) or "amplifier bundle show --plan"


def _lock() -> Iterator[Finding]:
    path = project_root(Path.cwd()) / LOCK_NAME
    if not path.is_file():
        return
    if not Trust(paths.home()).status_to_run(project_root(Path.cwd())).trusted:
        # Comparing would fetch from addresses that the untrusted file names.
        told = f"{LOCK_NAME} pins and accepts nothing: this folder is not trusted"
        yield Finding("warning", "lock", told, "amplifier trust")
        return

    lock = Lock.read(path)
    compared = compare_pins(SourceResolver(paths.home(), base=project_root(Path.cwd()), lock=lock))
    for each in compared.drifts:
        yield Finding("error", "lock", each.told, each.fix)
    if compared.unknown:
        names = ", ".join(compared.unknown)
        told = f"not compared, because no bundle that has a name says where it is: {names}"
        yield Finding("info", "lock", told, "amplifier bundle add NAME PATH-OF-THE-LOCKED-BUNDLE")
    if not compared.drifts:
        count = counted(len(lock.modules), "module")
        none = "none of the others" if compared.unknown else "none"
        yield Finding("ok", "lock", f"{LOCK_NAME} pins {count}, {none} has changed")


def _disk() -> Iterator[Finding]:
    home = paths.home()
    place = next(each for each in (home, *home.parents) if each.exists())
    if not os.access(place, os.W_OK):
        told = f"`{home}` cannot be written, so no session can be recorded"
        yield Finding("error", "disk", told, "set AMPLIFIER_HOME to a folder of yours")
        return
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE_BYTES:
        told = f"{size(free)} are free for `{home}`, too little to record a session"
        yield Finding("error", "disk", told, "free some space, or set AMPLIFIER_HOME")
    sizes = {name: _bytes_in(home / name) for name in ("projects", "blobs", "cache")}
    whole = sum(sizes.values())
    of_commands = _bytes_in(home / "homes")
    if of_commands > _LARGE:
        told = f"{size(of_commands)} in {home / 'homes'}: caches that commands have written"
        yield Finding("warning", "disk", told, f"rm -r {shlex.quote(str(home / 'homes'))}")
    told = ", ".join(f"{name} {size(count)}" for name, count in sizes.items())
    if whole > _LARGE:
        fix = "amplifier session prune --older-than 90"
    else:
        fix = ""
    yield Finding("warning" if fix else "ok", "disk", f"{size(whole)} in {home}: {told}", fix)


def _index() -> Iterator[Finding]:
    problems = SessionStore(paths.home()).index_problems()
    for each in problems:
        yield Finding("warning", "index", f"the list of sessions: {each}", "amplifier doctor --fix")
    if not problems:
        yield Finding("ok", "index", "the list of sessions is what their folders say")


def fix_index() -> Finding:
    """Rebuild the list of sessions."""
    count = SessionStore(paths.home()).rebuild_index()
    return Finding("ok", "fixed", f"the list of sessions was rebuilt: {count:,}")


def _sessions() -> Iterator[Finding]:
    sessions = SessionStore(paths.home()).list()
    since = (datetime.now(UTC) - _WEEK).isoformat()
    recent = [each for each in sessions if each.updated_at > since]
    grown = size(sum(each.bytes for each in recent))
    told = f"{len(sessions)} in the index; {len(recent)} used in a week, which take {grown}"
    yield Finding("ok", "sessions", told)
    for each in sorted(sessions, key=lambda one: -one.bytes)[:_BIGGEST_SHOWN]:
        if each.bytes > _LARGE / 50:
            told = f"{short_id(each.session_id)} takes {size(each.bytes)}"
            yield Finding(
                "info", "largest", told, f"amplifier session delete {short_id(each.session_id)}"
            )


def _bytes_in(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(root) / name).lstat().st_size
            except FileNotFoundError:
                # A running session may delete files while this walks.
                continue
    return total


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "versions": _versions,
    "settings": _settings,
    "keys": _keys,
    "trust": _trust,
    "sandbox": _sandbox,
    "modules": _modules,
    "guards": _guards,
    "search": _search,
    "model": _model,
    "lock": _lock,
    "disk": _disk,
    "index": _index,
    "sessions": _sessions,
}
