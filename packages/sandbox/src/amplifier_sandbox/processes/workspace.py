"""The folder a program may write to, and the paths in it that stay as they are."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.project_folder import why_not_a_project

# Made by this process and not yet removed; the last program that leaves one removes it.
_made: set[Path] = set()


class Placeholder:
    """One program's share in an empty folder, or in a file; it goes with the last share.

    The share is a lock, so that another process, or another program of this one, does not lose the
    folder beneath its read-only mount: removing a mount point takes the mount away.
    """

    __slots__ = ("_content", "_descriptor", "_path")

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """Make a file of `content`, or a folder when that is None, unless something is there."""
        self._path = path
        self._content = content
        self._descriptor = -1
        kind = os.O_DIRECTORY if content is None else 0
        while self._descriptor < 0:
            with suppress(FileExistsError):
                self._make()
                _made.add(path)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind)
            except FileNotFoundError:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_at(descriptor, path):
                self._descriptor = descriptor
            else:
                os.close(descriptor)

    def release(self) -> None:
        """Give the share back; remove the folder when nobody else has one."""
        if self._descriptor < 0:
            return
        descriptor = self._descriptor
        self._descriptor = -1
        try:
            if self._path in _made:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _made.discard(self._path)
                self._remove()
        except OSError:
            # Still shared, or no longer empty and so not ours to remove.
            return
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        if self._content is None:
            self._path.mkdir()
            return
        # Written elsewhere first: whoever reads it in between must not find half of it.
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
    """Whether the open folder is still the one at `path`."""
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
)
_PSEUDO = ("/dev", "/proc", "/sys")


def checked_workspace(path: str | Path) -> Path:
    """Return the real path of a folder that a program may be given.

    Raises:
        SandboxError: it is no folder, or giving it away would give away the machine or its keys.
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
    is_system = len(real.parts) == 2 and real.name in _SYSTEM
    if is_system or any(real.is_relative_to(folder) for folder in _PSEUDO):
        raise SandboxError(f"the workspace `{path}` is a folder of the system")
    return real


def existing_paths(paths: Sequence[str | Path]) -> list[Path]:
    """Return the real paths of what a program is given besides its workspace.

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
        """Whether `path` is protected with a folder above it."""
        return any(path.is_relative_to(each) for each in (*self.paths, *self.hidden))


class ProtectedPaths:
    """Paths relative to a workspace that nothing inside may create, change or move away."""

    __slots__ = ("_paths",)

    def __init__(self, paths: Sequence[str]) -> None:
        """Raise a SandboxError when a path leads out of the workspace."""
        for path in paths:
            parts = PurePosixPath(path).parts
            if not parts or parts[0] == "/" or ".." in parts or "\0" in path:
                raise SandboxError(f"the protected path `{path}` must lie within the workspace")
        self._paths = [PurePosixPath(path) for path in paths]

    def hold(self, workspace: Path, stack: ExitStack) -> Held:
        """Return what is to be mounted; until `stack` is closed, what is missing has a placeholder.

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
    """Return `path`, or the first part of it that is missing or leads no further.

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
