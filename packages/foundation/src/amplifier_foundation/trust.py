"""Which project folders may act: decisions of the person, bound to what the folder held then."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation import paths
from amplifier_foundation.config.acting_files import (
    UNVERIFIABLE,
    ActingFiles,
    acting_files,
    fingerprint,
    fixed_files,
)
from amplifier_foundation.config.plain_files import open_plain
from amplifier_foundation.errors import TrustError
from amplifier_sandbox.ownership import exposure_of

__all__ = ["Trust", "TrustStatus"]

_VERSION = 1
_NOTHING: dict[str, Any] = {"files": {}, "origins": []}


class TrustStatus(NamedTuple):
    """How a project stands.

    `files` could act. `changed` are those that differ from what was decided about. `unverifiable`
    ones keep the project from being trusted at all; `reasons` says of some of them why. `origins`
    are those of all addresses in its files, and `granted` those that the user has allowed.
    `digests` are the sha256 of the files, by name.
    """

    trusted: bool
    changed: list[str]
    files: list[str]
    digest: str
    unverifiable: list[str]
    origins: list[str]
    granted: list[str]
    reasons: dict[str, str] = {}
    digests: dict[str, str] = {}


class Trust:
    """The recorded decisions of one person.

    A record that is missing trusts nothing. One that is damaged, or that others could have
    written, is an error: who would go on without it might go on without a `no`.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._home = home or paths.home()
        self._file = paths.trust_file(self._home)

    def status(self, project: Path, named: Iterable[Path] = ()) -> TrustStatus:
        """Look at everything in the folder that could act, and at what was decided about it.

        `named` are files of the project that the person named for this run, such as a bundle.

        Raises:
            TrustError: the record cannot be used, or the folder is too large.
        """
        project = project.resolve()
        decided = self._read().get(str(project))
        return _status(project, decided, self._look(project, decided, named))

    def status_to_run(self, project: Path, named: Iterable[Path] = ()) -> TrustStatus:
        """Return the status; a folder that is too large is not trusted, and `reasons` says why.

        So nobody can stop the commands in a folder by filling it.

        Raises:
            TrustError: the record cannot be used.
        """
        self._read()
        try:
            return self.status(project, named)
        except TrustError as too_large:
            names = fixed_files(project) or ["."]
            why = f"{too_large.message} {too_large.why}"
            return TrustStatus(False, [], names, "", names, [], [], {names[0]: why})

    def require(self, project: Path, named: Iterable[Path] = ()) -> TrustStatus:
        """Return the status of a trusted project; raises TrustError, which names the files."""
        status = self.status(project, named)
        if not status.trusted:
            told = status.unverifiable or status.changed or status.files
            more = f" and {len(told) - 10} more" if len(told) > 10 else ""
            if status.changed:
                verb = "changed since you trusted it"
            else:
                verb = "could act"
            if status.unverifiable:
                verb = "cannot be verified"
            names = ", ".join(f"`{name}`" for name in told[:10]) or "nothing"
            why = next(iter(status.reasons.values()), f"{names}{more} {verb}.")
            raise TrustError(f"`{project}` is not trusted.", why=why, fix="amplifier trust")
        return status

    def record(
        self,
        project: Path,
        digest: str,
        *,
        origins: Iterable[str] = (),
        named: Iterable[Path] = (),
    ) -> None:
        """Remember that the person trusts what they were shown, which `digest` stands for.

        Raises:
            TrustError: the folder holds something else by now, or something unverifiable.
        """
        from datetime import UTC, datetime  # noqa: PLC0415 - only decisions have a time

        project = project.resolve()
        with self._locked():
            projects = self._read()
            decided = projects.get(str(project))
            files, reasons = self._look(project, decided, named)
            unverifiable = [name for name in files if files[name] == UNVERIFIABLE]
            if unverifiable:
                names = ", ".join(sorted(unverifiable))
                why = next(iter(reasons.values()), f"Unverifiable: {names}.")
                raise TrustError(f"`{project}` cannot be trusted.", why=why)
            if fingerprint(files) != digest:
                raise TrustError(
                    f"`{project}` is not what you were shown.",
                    why="A file in it has changed since.",
                    fix="amplifier trust",
                )
            projects[str(project)] = {
                "digest": digest,
                "files": files,
                "origins": sorted(set(origins)),
                "decided_at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            self._write(projects)

    def revoke(self, project: Path) -> bool:
        """Forget a decision; tells whether there was one."""
        with self._locked():
            projects = self._read()
            known = projects.pop(str(project.resolve()), None) is not None
            if known:
                self._write(projects)
            return known

    def _look(
        self, project: Path, decided: dict[str, Any] | None, named: Iterable[Path]
    ) -> ActingFiles:
        """Return what could act, what is named, and what was decided about if it is still there."""
        also = [path.resolve() for path in named]
        also += [project / name for name in (decided or _NOTHING)["files"]]
        inside = [path for path in also if path.is_relative_to(project)]
        return acting_files(project, self._home, inside)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            file = open_plain(self._file)
        except FileNotFoundError:
            return {}
        except OSError as unreadable:
            raise self._unusable(f"{unreadable.strerror}.") from unreadable
        with file:
            exposure = exposure_of(self._file, os.fstat(file.fileno()))
            if exposure is not None and exposure.path.name == self._file.name:
                # What is in it may not be the user's decision, so that a chmod would not do.
                raise self._unusable("Others on this machine could have written it.")
            if exposure is not None:
                raise TrustError(f"`{self._file}` is not used.", why=exposure.why, fix=exposure.fix)
            return self._parse(file.read())

    def _parse(self, data: bytes) -> dict[str, dict[str, Any]]:
        try:
            record: Any = json.loads(data)
            if record["version"] != _VERSION:
                raise self._unusable(f"It has the version {record['version']!r}.")
            projects = cast("dict[str, dict[str, Any]]", record["projects"])
            fits = all(fingerprint(each["files"]) == each["digest"] for each in projects.values())
            listed = all(isinstance(each["origins"], list) for each in projects.values())
            if not fits or not listed:
                raise self._unusable("A decision in it does not fit its files.")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
            raise self._unusable("It is damaged.") from broken
        return projects

    def _unusable(self, why: str) -> TrustError:
        return TrustError(
            f"`{self._file}` cannot be used, so no project is trusted.",
            why=why,
            fix=f"rm {self._file} (every project is then asked about again)",
        )

    def _write(self, projects: dict[str, dict[str, Any]]) -> None:
        from amplifier_kit.durable_files import (  # noqa: PLC0415 - only decisions write
            write_whole,
        )

        record = {"version": _VERSION, "projects": projects}
        write_whole(self._file, json.dumps(record, indent=1).encode())

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._file.with_name(f"{self._file.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _status(project: Path, decided: dict[str, Any] | None, found: ActingFiles) -> TrustStatus:
    files = found.digests
    recorded: dict[str, str] = (decided or _NOTHING)["files"]
    changed = [
        name for name in sorted({*files, *recorded}) if files.get(name) != recorded.get(name)
    ]
    unverifiable = sorted(name for name in files if files[name] == UNVERIFIABLE)
    return TrustStatus(
        trusted=decided is not None and not changed and not unverifiable,
        changed=changed if decided is not None else [],
        files=sorted(files),
        digest=fingerprint(files),
        unverifiable=unverifiable,
        # What could not be read within the bounds is not read here either.
        origins=_origins(project, sorted({*files} - {*unverifiable})) if files else [],
        granted=(decided or _NOTHING)["origins"],
        reasons=found.reasons,
        digests=files,
    )


def _origins(project: Path, files: Iterable[str]) -> list[str]:
    """Return the origins of all addresses in the project's files, as a session would use them."""
    # Most folders have nothing that could act, and do not pay for this.
    from amplifier_foundation.config.named_files import parts_of  # noqa: PLC0415
    from amplifier_foundation.config.project_values import origins_of  # noqa: PLC0415

    found: set[str] = set()
    for name in files:
        if name.endswith((".yaml", ".yml", ".md", ".json")):
            values, _ = parts_of(project / name)
            found.update(origins_of(values, project, lambda name: os.environ.get(name) or None))
    return sorted(found)
