"""The folder that a program may write to, and the protected paths in it."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from amplifier_sandbox.platforms.locks import lock, try_lock
from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.project_folder import why_not_a_project

# Placeholders that this process has made; the last program that uses one removes it.
_made: set[Path] = set()


class Placeholder:
    """One program's share in an empty folder, or in a file; the last share removes it.

    A share is a lock. It keeps other programs, also of other processes, from losing their read-only
    mount: removing a mount point removes the mount.
    """

    __slots__ = ("_content", "_descriptor", "_path")

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """Create a file of `content`, or a folder if that is None, unless the path exists."""
        self._path = path
        self._content = content
        self._descriptor = -1
        if sys.platform == "win32":
            raise SandboxError("Windows has no sandbox, so no path is protected in one")
        kind = os.O_DIRECTORY if content is None else 0
        # Another process may remove it before this one has its lock: then try again.
        while self._descriptor < 0:
            with suppress(FileExistsError):
                self._make()
                _made.add(path)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind)
            except FileNotFoundError:
                continue
            lock(descriptor, shared=True)
            if _is_at(descriptor, path):
                self._descriptor = descriptor
            else:
                os.close(descriptor)

    def release(self) -> None:
        """Release the share; remove the placeholder if it was the last one."""
        if self._descriptor < 0:
            return
        descriptor = self._descriptor
        self._descriptor = -1
        try:
            # Who does not get the lock alone has left the removal to another program.
            if self._path in _made and try_lock(descriptor):
                _made.discard(self._path)
                self._remove()
        except OSError:
            # It has got content that is not ours to remove.
            return
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        if self._content is None:
            self._path.mkdir()
            return
        # Written under another name first, so that no reader finds half of it.
        unfinished = self._path.with_name(f".{secrets.token_hex(8)}.unfinished")
        unfinished.write_bytes(self._content)
        try:
            self._path.hardlink_to(unfinished)
        finally:
            unfinished.unlink()

    def _remove(self) -> None:
        if self._content is None:
            self._path.rmdir()
        elif self._path.read_bytes() == self._content:
            self._path.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file or folder is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


_SYSTEM = (
    "bin",
    "boot",
    "etc",
    "home",
    "lib",
    "lib64",
    "opt",
    "root",
    "run",
    "sbin",
    "tmp",
    "usr",
    "var",
    # Of macOS.
    "applications",
    "cores",
    "library",
    "private",
    "system",
    "users",
    "volumes",
)
_PSEUDO = ("/dev", "/proc", "/sys")


def checked_workspace(path: str | Path) -> Path:
    """Return the real path of a folder that a program may be given.

    Raises:
        SandboxError: it is not a folder, or has the user's keys or the system's files in it.
    """
    try:
        real = Path(path).resolve(strict=True)
    except (OSError, ValueError) as error:
        raise SandboxError(f"the workspace `{path}` cannot be used: {error}") from error
    if not real.is_dir():
        raise SandboxError(f"the workspace `{path}` is not a folder")
    why_not = why_not_a_project(real)
    if why_not is not None:
        raise SandboxError(f"the workspace {why_not}, not a project; start in one")
    if _is_of_the_system(real):
        raise SandboxError(f"the workspace `{path}` is a folder of the system")
    return real


def why_not_given(path: Path) -> str | None:
    """Return why no program may see all of a real path, as one installation; None if it may."""
    why_not = why_not_a_project(path)
    if why_not is None and _is_of_the_system(path):
        return f"`{path}` is a folder of the system"
    return why_not


def _is_of_the_system(real: Path) -> bool:
    parts = [part.casefold() for part in real.parts[1:]]
    # On macOS, /etc, /tmp and /var are links into /private.
    if parts[:1] == ["private"] and len(parts) == 2:
        parts = parts[1:]
    is_system = len(parts) == 1 and parts[0] in _SYSTEM
    return is_system or any(real.is_relative_to(folder) for folder in _PSEUDO)


def existing_paths(paths: Sequence[str | Path]) -> list[Path]:
    """Return the real paths that a program is given besides its workspace.

    Raises:
        SandboxError: one of them does not exist.
    """
    try:
        return [Path(path).resolve(strict=True) for path in paths]
    except (OSError, ValueError) as error:
        raise SandboxError(f"a path for the sandbox cannot be used: {error}") from error


@dataclass(slots=True)
class Held:
    """Protected paths as they are mounted, and the folders above them inside the workspace."""

    paths: list[Path] = field(default_factory=list[Path])
    folders_above: list[Path] = field(default_factory=list[Path])
    # What is mounted empty.
    hidden: list[Path] = field(default_factory=list[Path])

    def covers(self, path: Path) -> bool:
        """Whether `path` is protected, by itself or by a folder above it."""
        return any(path.is_relative_to(each) for each in (*self.paths, *self.hidden))


class ProtectedPaths:
    """Paths relative to a workspace that nothing inside may create, change or move away."""

    __slots__ = ("_paths",)

    def __init__(self, paths: Sequence[str]) -> None:
        """Raise a SandboxError if a path leads out of the workspace."""
        for path in paths:
            parts = PurePosixPath(path).parts
            if not parts or parts[0] == "/" or ".." in parts or "\0" in path:
                raise SandboxError(f"the protected path `{path}` must lie within the workspace")
        self._paths = [PurePosixPath(path) for path in paths]

    def hold(self, workspace: Path, stack: ExitStack) -> Held:
        """Return what has to be mounted; missing paths have a placeholder until `stack` is closed.

        Raises:
            SandboxError: a path cannot be protected.
            OSError: a placeholder cannot be made.
        """
        held = Held()
        for path in self._paths:
            place = place_to_hold(path, workspace, held, stack)
            if place not in held.paths:
                held.paths.append(place)
        return held


def place_to_hold(
    path: PurePosixPath,
    workspace: Path,
    held: Held,
    stack: ExitStack,
    *,
    without_effect: bytes | None = None,
) -> Path:
    """Return `path`, or the first part of it that is missing or is not a folder.

    The folders above it are added to `held`. A missing file gets a placeholder of the bytes
    `without_effect`, anything else an empty folder.
    """
    place = workspace
    for position, part in enumerate(path.parts, start=1):
        if place != workspace and place not in held.folders_above:
            held.folders_above.append(place)
        place /= part
        if place.is_symlink():
            raise SandboxError(
                f"`{place}` is a symbolic link, which cannot be protected from being replaced"
            )
        if not place.exists() or _is_empty_folder(place):
            is_whole = position == len(path.parts) and not place.is_dir()
            content = without_effect if is_whole else None
            stack.callback(Placeholder(place, content).release)
            break
        if not place.is_dir():
            break
    return place


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None
