"""Keeping this process's own code, settings and keys out of the reach of a contained program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from amplifier_sandbox.own.paths import OwnPaths, hidden_paths, own_paths
from amplifier_sandbox.own.shared_files import shared_files
from amplifier_sandbox.processes.errors import SandboxError
from amplifier_sandbox.processes.workspace import Held, place_to_hold

_MOST_SHARED = 200


class OwnCode:
    """What of our own is in the folders that a program is given."""

    def __init__(self, writable: Sequence[Path], read_only: Sequence[Path]) -> None:
        """Raise a SandboxError when a folder cannot be given away at all."""
        self._found = [(folder, own_paths(folder)) for folder in writable]
        self._shared = [(folder, shared_files(folder)) for folder in writable]
        self._hidden_elsewhere = [
            path
            for path in hidden_paths()
            if os.path.exists(path)  # noqa: PTH110 - false, not an error, where we may not look
            and any(path.is_relative_to(folder) for folder in read_only)
        ]
        for folder, own in self._found:
            _check(folder, own)
        if sum(len(files) for _, files in self._shared) > _MOST_SHARED:
            raise SandboxError(
                "the workspace has too many hard links to files that this program runs from; "
                "reinstall one of the two without links (uv: `--link-mode=copy --reinstall`)"
            )

    def inside(self) -> Iterator[Path]:
        """Yield every path that has to be protected, those of git aside."""
        for _, own in self._found:
            yield from own.read_only
            yield from own.hidden
        for _, files in self._shared:
            yield from files
        yield from self._hidden_elsewhere

    def hold(self, held: Held, stack: ExitStack) -> None:
        """Add to `held` what is to be mounted; as `ProtectedPaths.hold` does."""
        for folder, own in self._found:
            for path in own.hidden:
                held.hidden.append(place_to_hold(_within(path, folder), folder, held, stack))
            for path in own.read_only:
                _add(path, folder, held, stack)
            for file in own.git:
                _add(file.path, folder, held, stack, file.without_effect)
        for folder, files in self._shared:
            for path in files:
                _add(path, folder, held, stack)
        held.hidden += self._hidden_elsewhere


def _check(folder: Path, own: OwnPaths) -> None:
    if own.around is not None:
        raise SandboxError(
            f"`{folder}` is in `{own.around}`, which this program runs from or keeps its keys in: "
            "a command could rewrite the program; start it in another folder, or with `python -P` "
            "if the folder is only on its search path"
        )
    if own.links:
        raise SandboxError(
            f"`{own.links[0]}` is a symbolic link to what this program runs from, and cannot be "
            "protected from being replaced; put the real folder in its place, or outside"
        )


def _add(
    path: Path, folder: Path, held: Held, stack: ExitStack, without_effect: bytes | None = None
) -> None:
    if not held.covers(path):
        within = _within(path, folder)
        held.paths.append(place_to_hold(within, folder, held, stack, without_effect=without_effect))


def _within(path: Path, folder: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(folder))
