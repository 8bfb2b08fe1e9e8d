"""Load a project's code only if it is what the user trusted, and from a copy of it."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import site
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from amplifier_foundation import paths
from amplifier_foundation.config.acting_files import fingerprint
from amplifier_foundation.config.contents import UNVERIFIABLE, Contents
from amplifier_foundation.config.project_files import how_to_grant, is_inside
from amplifier_foundation.sources.errors import UngrantedError

if TYPE_CHECKING:
    from amplifier_foundation.sources.package import InstalledModule

__all__ = ["ProjectCode"]


class ProjectCode:
    """Decides which code in a project's folder may be loaded as a module.

    `digests` are the files that the user trusts, by their path below the project; empty for a
    project that is not trusted.
    """

    def __init__(self, project: Path, home: Path, digests: Mapping[str, str]) -> None:
        self._project = project.resolve()
        self._home = home
        self._digests = dict(digests)
        self._own: set[Path] = set()

    def allow(self, folders: Iterable[Path]) -> None:
        """Allow modules from folders that the user named, in a command or in their own files."""
        self._own |= {folder.resolve() for folder in folders}

    def admit(self, module_id: str, path: Path) -> Path:
        """Return the path from which to load the module at `path`.

        For a folder of the project that is a copy of what the user trusted: modules import lazily,
        and neither later changes nor files beside the module may be loaded.

        Raises:
            UngrantedError: it is in the project, and not what the user trusted.
        """
        if not self._needs_grant(path):
            return path
        real = path.resolve()
        granted = self._granted_below(real)
        found = self._found_below(real)
        if not granted:
            raise self._refused(module_id, path, "you have not trusted it")
        # In both directions: a file that was added could be imported as well.
        changed = sorted(
            name for name in {*granted, *found} if granted.get(name) != found.get(name)
        )
        if changed:
            raise self._refused(module_id, path, f"`{changed[0]}` is not what you trusted")
        if real.is_dir():
            return self._copy_of(real, granted)
        return real

    def admit_installed(self, found: InstalledModule) -> None:
        """Check that an installed module is not one that Python just finds in the project.

        What was installed into this Python is the user's choice, even if its code is in the
        project, as with an editable installation.

        Raises:
            UngrantedError: Python found it in the project.
        """
        path = found.path
        if not self._needs_grant(path) or _is_below_site(path):
            return
        if _is_below_site(found.location) and _is_editable(found):
            return
        self.admit(found.module_id, path)

    def refuse_searched(self, module_id: str) -> None:
        """Check where the kernel would find a module that is not installed.

        Raises:
            UngrantedError: it would find it in the project.
        """
        name = module_id.replace("-", "_")
        try:
            spec = importlib.util.find_spec(f"amplifier_module_{name}")
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.origin is not None:
            self._require_elsewhere(module_id, Path(spec.origin).parent)
        for folder in os.environ.get("AMPLIFIER_MODULES", "").split(":"):
            for each in (f"amplifier-module-{module_id}", module_id) if folder else ():
                if Path(folder, each).exists():
                    self._require_elsewhere(module_id, Path(folder, each))

    def _require_elsewhere(self, module_id: str, path: Path) -> None:
        if self._needs_grant(path):
            raise self._refused(module_id, path, "you have not trusted it as a source")

    def _needs_grant(self, path: Path) -> bool:
        if not is_inside(path, self._project, self._home):
            return False
        real = path.resolve()
        return not any(real.is_relative_to(own) for own in self._own)

    def _granted_below(self, real: Path) -> dict[str, str]:
        below: dict[str, str] = {}
        for name, digest in self._digests.items():
            file = self._project / name
            if digest != UNVERIFIABLE and file.is_relative_to(real):
                below[os.fspath(file.relative_to(self._project))] = digest
        return below

    def _found_below(self, real: Path) -> dict[str, str]:
        contents = Contents(self._project, self._home)
        return {
            os.fspath(file.relative_to(self._project)): contents.take(file).digest
            for file in contents.files(real)
        }

    def _copy_of(self, folder: Path, granted: Mapping[str, str]) -> Path:
        """Return the copy of a granted folder in the user's own, made if it does not exist."""
        content = {name: self._content(self._project / name) for name in granted}
        names = {name: os.fspath((self._project / name).relative_to(folder)) for name in granted}
        by_name = {names[name]: content[name] for name in granted}
        place = paths.trusted_code(self._home.resolve()) / fingerprint(by_name)
        target = place / folder.name
        if not self._is_copy(target, by_name):
            self._write_copy(folder, place, by_name)
        # Compared again: the project's files may have changed while they were copied.
        if not self._is_copy(target, by_name):
            raise self._refused(folder.name, folder, "it is changing at this moment")
        return target

    def _write_copy(self, folder: Path, place: Path, expected: Mapping[str, str]) -> None:
        unfinished = place.with_name(f".{place.name}.{os.urandom(8).hex()}")
        try:
            for name in expected:
                file = unfinished / folder.name / name
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(folder / name, file)
                file.chmod(0o700 if os.access(folder / name, os.X_OK) else 0o600)
            # Not before: a copy that another process has made meanwhile may be in use.
            if not self._is_copy(place / folder.name, expected):
                shutil.rmtree(place, ignore_errors=True)
            unfinished.rename(place)
        except OSError as error:
            # Another process made the same copy. Linux reports a folder with files as ENOTEMPTY.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _is_copy(self, folder: Path, expected: Mapping[str, str]) -> bool:
        contents = Contents(folder, self._home / "none")
        found = {
            os.fspath(file.relative_to(folder)): contents.take(file).digest
            for file in contents.files(folder)
        }
        return found == expected

    def _content(self, file: Path) -> str:
        return Contents(self._project, self._home).take(file.resolve()).digest

    def _refused(self, module_id: str, path: Path, why: str) -> UngrantedError:
        return UngrantedError(
            f"`{module_id}` is not loaded from {path}.",
            why=f"It is in `{self._project}`, and {why}.",
            fix=how_to_grant(path, self._project),
            module_id=module_id,
        )


def _is_below_site(path: Path) -> bool:
    """Return whether a path is in the folder of installed packages of this Python."""
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return any(path.resolve().is_relative_to(Path(folder).resolve()) for folder in folders)


def _is_editable(found: InstalledModule) -> bool:
    """Return whether a package is where its distribution was installed from (PEP 610)."""
    # Imported here because only a project with code on the import path needs metadata.
    from importlib.metadata import distributions  # noqa: PLC0415

    for each in distributions(name=found.distribution, path=[str(found.location)]):
        try:
            recorded = json.loads(each.read_text("direct_url.json") or "{}")
            address = urlsplit(str(recorded["url"]))
            is_editable = bool(recorded["dir_info"]["editable"])
        except (ValueError, KeyError, TypeError):
            continue
        folder = Path(unquote(address.path)).resolve()
        if is_editable and address.scheme == "file" and found.path.resolve().is_relative_to(folder):
            return True
    return False
