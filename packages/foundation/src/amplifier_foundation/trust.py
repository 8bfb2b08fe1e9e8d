"""Which project folders may act: the user's decisions, bound to the content of the files."""

from __future__ import annotations

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
from amplifier_sandbox.platforms.locks import locked

__all__ = ["Trust", "TrustStatus"]

_VERSION = 1
_NOTHING: dict[str, Any] = {"files": {}, "origins": []}


class TrustStatus(NamedTuple):
    """Whether a project is trusted, and why.

    `files` could act. `changed` are those that differ from the recorded decision. `unverifiable`
    ones keep the project from being trusted at all; `reasons` has the cause for some of them.
    `origins` are those of all addresses in its files, and `granted` those that the user has
    allowed. `digests` are the sha256 of the files, by name.
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
    """The recorded decisions of one user.

    A missing record trusts nothing. One that is damaged, or that others could have written, is
    an error and not treated as missing: ignoring it would hide that decisions were lost or forged.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._home = home or paths.home()
        self._file = paths.trust_file(self._home)

    def status(self, project: Path, named: Iterable[Path] = ()) -> TrustStatus:
        """Compare everything in the folder that could act with the recorded decision.

        `named` are files of the project that the user named for this run, such as a bundle.

        Raises:
            TrustError: the record cannot be used, or the folder is too large.
        """
        project = project.resolve()
        decided = self._read().get(str(project))
        return _status(project, decided, self._look(project, decided, named))

    def status_to_run(self, project: Path, named: Iterable[Path] = ()) -> TrustStatus:
        """Return the status; a folder that is too large is not trusted, and `reasons` says why.

        Raising instead would let a cloned folder block every command that is run in it.

        Raises:
            TrustError: the record cannot be used.
        """
        # An unusable record raises here; a TrustError below can only mean a folder too large.
        self._read()
        try:
            return self.status(project, named)
        except TrustError as too_large:
            names = fixed_files(project) or ["."]
            why = f"{too_large.message} {too_large.why}"
            return TrustStatus(False, [], names, "", names, [], [], {names[0]: why})

    def require(self, project: Path, named: Iterable[Path] = ()) -> TrustStatus:
        """Return the status of a trusted project; raises TrustError, naming files, if it is not."""
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
        """Record that the user trusts what they were shown, which has the fingerprint `digest`.

        Raises:
            TrustError: the folder has changed since, or has a file that cannot be verified.
        """
        from datetime import UTC, datetime  # noqa: PLC0415 - only decisions have a time

        project = project.resolve()
        with self._locked():
            projects = self._read()
            decided = projects.get(str(project))
            # Read again under the lock: files may have changed while the user was deciding.
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
        """Delete a decision; return whether there was one."""
        with self._locked():
            projects = self._read()
            known = projects.pop(str(project.resolve()), None) is not None
            if known:
                self._write(projects)
            return known

    def _look(
        self, project: Path, decided: dict[str, Any] | None, named: Iterable[Path]
    ) -> ActingFiles:
        """Return what could act, what is named, and what the record lists if it still exists."""
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
                # Somebody else may have written the decisions, so fixing the mode is not enough.
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
        # RecursionError: JSON that is nested too deeply.
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
        # A file of its own: writing replaces the record, and a lock on it would be lost with it.
        lock = self._file.with_name(f"{self._file.name}.lock")
        with locked(lock):
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
        # Files that could not be read within the limits are not read here either.
        origins=_origins(project, sorted({*files} - {*unverifiable})) if files else [],
        granted=(decided or _NOTHING)["origins"],
        reasons=found.reasons,
        digests=files,
    )


def _origins(project: Path, files: Iterable[str]) -> list[str]:
    """Return the origins of all addresses in the project's files, as a session would use them."""
    # Imported here because most folders have nothing that could act.
    from amplifier_foundation.config.named_files import parts_of  # noqa: PLC0415
    from amplifier_foundation.config.project_values import origins_of  # noqa: PLC0415

    found: set[str] = set()
    for name in files:
        if name.endswith((".yaml", ".yml", ".md", ".json")):
            values, _ = parts_of(project / name)
            found.update(origins_of(values, project, lambda name: os.environ.get(name) or None))
    return sorted(found)
