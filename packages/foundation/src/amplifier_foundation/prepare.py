"""From options to an open session: trust, settings, lock, bundle, plan, store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_foundation import paths
from amplifier_foundation.config.granted_texts import read_granted
from amplifier_foundation.config.plain_files import is_file
from amplifier_foundation.config.written_sources import path_sources
from amplifier_foundation.errors import TrustError
from amplifier_foundation.session_options import PARTS, SessionOptions, apply_options, provider_id
from amplifier_foundation.settings import Settings, load_settings
from amplifier_foundation.trust import Trust, TrustStatus
from amplifier_sandbox.project_folder import project_root

if TYPE_CHECKING:
    from amplifier_foundation.bundles import Bundle
    from amplifier_foundation.bundles.bundle import Missing
    from amplifier_foundation.live import LiveSession
    from amplifier_foundation.sources.lock import Lock

__all__ = [
    "PreparedSession",
    "SessionOptions",
    "current_settings",
    "prepare_session",
    "open_session",
    "plan_entries",
    "write_lock",
]

_LISTS = ("providers", "tools", "hooks")
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class PreparedSession:
    """Everything that a session is opened with; the plan may have keys in it: never show it.

    `reference` finds the same bundle again: its name, its absolute path or its address.
    `notices` are for the user; the first is `why_provider`, unless a provider was named. They
    include what is `missing`: what the bundle names and does not exist.
    """

    project: Path
    bundle: str
    reference: str
    plan: dict[str, Any]
    instructions: list[Any]
    notices: list[str]
    resolver: Any
    why_provider: str = ""
    # The folders of its bundles by name, for what modules and texts mention.
    namespaces: Mapping[str, Path] = field(default_factory=dict[str, Path])
    missing: tuple[Missing, ...] = ()
    # Whether the user has decided that the files of the project may act.
    trusted: bool = False
    # How the user wants to be called to the terminal; a project does not decide that.
    terminal: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def provider(self) -> str:
        """The module that answers, unless the loop is configured to use another."""
        providers = self.plan.get("providers") or [{"module": "none"}]
        return str(providers[0]["module"])

    @property
    def is_mock(self) -> bool:
        """Whether the mock answers instead of a model, which the user has to be warned about."""
        from amplifier_foundation.bundles.providers import MOCK  # noqa: PLC0415 - YAML

        return self.provider == MOCK

    def level_of(self, notice: str) -> str:
        """Return how much a notice matters: `warning` for what is missing, else `info`."""
        if notice in map(str, self.missing):
            return "warning"
        return "info"

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Every module of the plan, as it is named there."""
        return plan_entries(self.plan)

    async def require_pins(self) -> None:
        """Check that modules are what the lock pins and what the user trusted.

        Checked before a session is opened, so that a refused one is not created first.

        Raises:
            ModuleSourceError: a module is not what is pinned or trusted, or is pinned and missing.
        """
        import asyncio  # noqa: PLC0415 - a dry look does without

        await asyncio.to_thread(self._locate_all)

    def _locate_all(self) -> None:
        # Imported here because only opening a session loads the kernel.
        from amplifier_core.errors import ModuleError  # noqa: PLC0415
        from amplifier_foundation.errors import FoundationError  # noqa: PLC0415
        from amplifier_foundation.sources.errors import (  # noqa: PLC0415
            LOCK_COMMAND,
            DriftError,
            UngrantedError,
            command_for,
        )

        for each in self.entries:
            try:
                self.resolver.locate(each["module"], each.get("source"))
            except UngrantedError:
                raise
            except DriftError as error:
                error.fix = command_for(LOCK_COMMAND, self.resolver.bundle)
                raise
            except (FoundationError, ModuleError):
                # A missing module is reported when it is mounted; a pinned one has to be there.
                if each["module"] in self.resolver.lock.modules:
                    raise


def plan_entries(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every module that a mount plan names, with its source and configuration."""
    lists: list[list[dict[str, Any]]] = [plan.get(name) or [] for name in _LISTS]
    parts = [_long_form(plan["session"], part) for part in PARTS.values()]
    return [*parts, *(each for entries in lists for each in entries)]


def _long_form(session: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the entry of the loop or of the memory, which a plan may give as an id alone."""
    entry: Any = session[part]
    if isinstance(entry, str):
        return {"module": entry, "source": session.get(f"{part}_source")}
    return entry


def current_settings(project: Path) -> Settings:
    """Return the settings that apply in a folder; its project's count only if it is trusted."""
    project = project_root(project)
    return _settings(project, Trust(paths.home()).status_to_run(project))


async def prepare_session(
    options: SessionOptions, project: Path | None = None, *, pinning: bool = False
) -> PreparedSession:
    """Load trust, settings, lock and bundle of a session in `project`, by default this folder's.

    With `pinning`, bundles that the lock does not list are pinned instead of refused.

    Raises:
        FoundationError: one of them cannot be used.
    """
    from amplifier_foundation.bundles import compile_bundle, load_bundle  # noqa: PLC0415 - YAML
    from amplifier_foundation.sources.granted import ProjectCode  # noqa: PLC0415 - as above
    from amplifier_foundation.sources.resolver import SourceResolver  # noqa: PLC0415 - as above

    if project is None:
        project = project_root(Path.cwd())
        if project != Path.cwd():
            options = _typed_here(options)
    # Trust comes first: without it, neither settings nor lock of the project are opened.
    status = Trust(paths.home()).status_to_run(project, _named(options, project))
    settings = _settings(project, status)
    lock = _lock(project, status, pinning=pinning)
    code = ProjectCode(project, paths.home(), status.digests if status.trusted else {})
    resolver = SourceResolver(paths.home(), base=project, lock=lock, pinning=pinning, code=code)
    resolver.bundle = options.bundle
    if options.provider is not None:
        # Added to the settings, so that its key and its place in the plan are found as usual.
        values = _with_provider(settings, provider_id(options.provider))
        settings = replace(settings, values=values)
    name = options.bundle or settings.get("bundle.active") or "default"
    bundle = await load_bundle(name, resolver=resolver, settings=settings)
    prepared = compile_bundle(bundle, settings)
    _require_guards(options, bundle, settings, prepared.plan)
    apply_options(options, prepared.plan)
    code.allow(_own_folders(options, settings, bundle))
    why = "" if prepared.provider is None else prepared.provider.why
    notices = [
        *([why] if why else []),
        *_above(project),
        *_no_project(project, prepared.plan),
        *_without_guards(bundle, prepared.plan),
        *_withheld(status),
        *prepared.notices,
    ]
    return PreparedSession(
        project,
        prepared.bundle,
        _lasting(name, project),
        prepared.plan,
        [*prepared.instructions, *_facts(prepared.instructions, project, status)],
        notices,
        resolver,
        why,
        bundle.namespaces,
        prepared.missing,
        status.trusted,
        terminal=settings.of_user().get("terminal") or {},
    )


@asynccontextmanager
async def open_session(
    ready: PreparedSession,
    *,
    session_id: str | None = None,
    resume: bool = False,
    takeover: bool = False,
    approval_system: Any = None,
    display_system: Any = None,
    announce: Callable[[bytes], None] | None = None,
) -> AsyncGenerator[LiveSession]:
    """Open a new session, or with `resume` continue the one of `session_id`.

    `announce` gets each line of the session's log as it is written.

    Raises:
        ModuleSourceError: a module is not what the lock pins.
        SessionHeldError: another process writes the session.
    """
    from amplifier_foundation.live import open_live  # noqa: PLC0415 - brings the kernel
    from amplifier_foundation.spawn.mention_resolver import MentionResolver  # noqa: PLC0415 - as above
    from amplifier_foundation.store import SessionStore  # noqa: PLC0415 - not for a dry look

    await ready.require_pins()
    async with open_live(
        ready.plan,
        store=SessionStore(paths.home()),
        project=ready.project,
        session_id=session_id,
        resume=resume,
        takeover=takeover,
        resolver=ready.resolver,
        approval_system=approval_system,
        display_system=display_system,
        bundle=ready.reference,
        instructions=ready.instructions,
        mention_resolver=MentionResolver(ready.namespaces, ready.project),
        missing=ready.missing,
        trusted=ready.trusted,
        announce=announce,
    ) as live:
        yield live


def write_lock(ready: PreparedSession) -> bool:
    """Write the lock, and return whether the folder is trusted with it.

    Pinning is itself a decision about the lock: a folder that was trusted, or had nothing to
    decide about, is trusted with the new lock. Any other change still has to be confirmed.
    """
    trust = Trust(paths.home())
    lock = ready.resolver.lock
    before = trust.status(ready.project)
    lock.write()
    # The lock is a file that acts, so writing it ends the recorded trust.
    after = trust.status(ready.project)
    was_good = before.trusted or not before.files
    if was_good and set(after.files) - set(before.files) <= {lock.path.name}:
        changed = after.changed if before.trusted else after.files
        if set(changed) <= {lock.path.name}:
            trust.record(ready.project, after.digest, origins=after.granted)
            return True
    return after.trusted


def _settings(project: Path, status: TrustStatus) -> Settings:
    return load_settings(
        project, trusted=status.trusted, granted=status.granted, acting=status.digests
    )


def _own_folders(options: SessionOptions, settings: Settings, bundle: Bundle) -> list[Path]:
    """Return the folders that the user named for modules, in the command or in their own files."""
    typed = [Path(each) for each in options.modules if Path(each).is_dir()]
    written = [
        path
        for layer in settings.layers
        if layer.scope == "user"
        for path in path_sources(layer.values)
    ]
    return [*typed, *written, *bundle.own_sources]


def _lock(project: Path, status: TrustStatus, *, pinning: bool) -> Lock:
    """Return the project's lock; that of an untrusted project is not even opened."""
    from amplifier_foundation.sources.lock import LOCK_NAME, Lock  # noqa: PLC0415 - hashes, JSON

    path = project / LOCK_NAME
    if status.trusted:
        if not path.is_file():
            return Lock(path)
        return Lock.read(path, read_granted(path, project, status.digests, error=TrustError))
    if pinning and LOCK_NAME in status.files:
        # Writing a new lock would destroy pins that cannot be adopted, and may still be wanted.
        raise TrustError(
            f"`{path}` is neither used nor changed.",
            why="What it pins and accepts would be approved by it, and it is not trusted.",
            fix="amplifier trust",
        )
    return Lock(path)


def _typed_here(options: SessionOptions) -> SessionOptions:
    """Return the options with the path of a bundle that holds from the project's root, too."""
    from amplifier_foundation.bundles.references import is_path  # noqa: PLC0415 - YAML

    if options.bundle is None or not is_path(options.bundle):
        return options
    return replace(options, bundle=str(Path.cwd() / Path(options.bundle).expanduser()))


def _above(project: Path) -> list[str]:
    """Return a notice if the project is a folder above this one."""
    if project not in Path.cwd().parents:
        return []
    return [f"Working in {project}, the project that this folder is part of."]


def _facts(instructions: list[Any], project: Path, status: TrustStatus) -> list[Any]:
    """Return what the model is told of its surroundings, unless the bundle tells it nothing."""
    from amplifier_foundation.bundles.mentions import Instruction  # noqa: PLC0415 - YAML
    from amplifier_foundation.environment_facts import environment_facts  # noqa: PLC0415 - as above

    if not instructions:
        return []
    # Not even the name of a branch of a folder that is not trusted.
    is_inert = bool(status.files) and not status.trusted
    text = environment_facts(project, here=Path.cwd(), with_git=not is_inert)
    return [Instruction(text, "environment")]


def _named(options: SessionOptions, project: Path) -> list[Path]:
    """Return the bundle file that the options name by path; trust has to cover it."""
    from amplifier_foundation.bundles.references import bundle_files, is_path  # noqa: PLC0415 - YAML

    if options.bundle is None or not is_path(options.bundle):
        return []
    path = project / Path(options.bundle).expanduser()
    return [each for each in bundle_files(path, path) if is_file(each)][:1]


def _require_guards(
    options: SessionOptions, bundle: Bundle, settings: Settings, plan: dict[str, Any]
) -> None:
    """Refuse a bundle without guards, unless it is the user's or the user named its path."""
    from amplifier_foundation.bundles import default_bundle  # noqa: PLC0415 - YAML
    from amplifier_foundation.bundles.references import is_path  # noqa: PLC0415 - YAML
    from amplifier_foundation.guards import require_guards  # noqa: PLC0415 - only for sessions

    # By name is not enough: a project can give a known name to a bundle without guards.
    is_named = options.bundle is not None and is_path(options.bundle)
    if bundle.own is not None and not is_named:
        require_guards(default_bundle(settings).hooks, plan.get("hooks") or [], bundle.name)


def _without_guards(bundle: Bundle, plan: dict[str, Any]) -> list[str]:
    """Return a notice if a bundle with fetched parts lacks our guards or replaces them."""
    fetched = paths.cache(paths.home()).resolve()
    if not any(root.is_relative_to(fetched) for root in bundle.namespaces.values()):
        return []
    from amplifier_foundation.guards import GUARDS  # noqa: PLC0415 - only for sessions

    hooks: list[dict[str, Any]] = plan.get("hooks") or []
    # An entry with a source is other code, whatever its name.
    ours = {each["module"] for each in hooks if not each.get("source")}
    missing = sorted(GUARDS - ours)
    if not missing:
        return []
    return [
        f"The guards of Amplifier are not in this session: {', '.join(missing)}. "
        "A bundle of yours has them with `default:guards` as the last of its includes."
    ]


def _lasting(reference: str, project: Path) -> str:
    """Return a reference that means the same bundle in every folder."""
    from amplifier_foundation.bundles.references import is_path  # noqa: PLC0415 - YAML

    if not is_path(reference):
        return reference
    return str((project / Path(reference).expanduser()).resolve())


def _withheld(status: TrustStatus) -> list[str]:
    """Return a notice about files that are ignored because the project is not trusted."""
    if status.trusted or not status.files:
        return []
    first = [each for each in ("amplifier.lock",) if each in status.files]
    names = [*first, *(each for each in status.files if each not in first)]
    if len(names) > _NAMES_SHOWN:
        more = f" and {len(names) - _NAMES_SHOWN} more"
    else:
        more = ""
    ignored = f"Ignoring {', '.join(names[:_NAMES_SHOWN])}{more}: this folder is not trusted."
    if status.reasons:
        why = next(iter(status.reasons.values()))
        return [f"{ignored} {why}"]
    return [f"{ignored} Review it with: amplifier trust"]


def _no_project(project: Path, plan: dict[str, Any]) -> list[str]:
    """Return a notice if file tools are off because this folder is not a project."""
    if not plan.get("tools"):
        return []
    from amplifier_sandbox.project_folder import why_not_a_project  # noqa: PLC0415 - not without tools

    why = why_not_a_project(project)
    if why is None:
        return []
    return [
        f"{why}, not a project: file tools, search and bash are off here. "
        "Change to the folder of a project to use them."
    ]


def _with_provider(settings: Settings, module: str) -> dict[str, Any]:
    """Return the values of the settings with this provider added, if they do not name it."""
    named: list[dict[str, Any]] = settings.get("providers") or []
    if any(each["module"] == module for each in named):
        return settings.values
    return {**settings.values, "providers": [{"module": module}, *named]}
