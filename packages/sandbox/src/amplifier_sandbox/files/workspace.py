"""The folders that a session's tools may access, and which of them a path belongs to."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from amplifier_sandbox.files.names import RefusedError, protected_part, require_sound, shown
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.project_folder import why_not_a_project


def working_dir(coordinator: Any, configured: Path | None) -> Path:
    """Return the session's working folder: the one the app names, else the configured one."""
    told: Any = coordinator.get_capability("session.working_dir")
    return Path(told or configured or Path.cwd()).expanduser()


class Place(NamedTuple):
    """A name beneath one of the folders."""

    root: Root
    name: str

    @property
    def path(self) -> str:
        """The whole path, for messages and records; never for opening, which could race."""
        return os.path.normpath(self.root.path / self.name)


class Workspace:
    """The working folder, to which relative paths belong, and other allowed folders.

    A working folder that is not a project is closed: no file in it is read or written, unless it
    is in one of the other folders.
    """

    def __init__(self, working: Root, *others: Root) -> None:
        self.roots = (working, *others)
        self._why_closed = why_not_a_project(working.path)

    def locate(self, path: str) -> Place:
        """Return the folder and name of a path; one that leads out is refused when it is used.

        Raises RefusedError for an absolute path outside of all folders.
        """
        require_sound(path)
        if not path.startswith("/"):
            return self._open_place(Place(self.roots[0], path))
        places = [
            Place(root, name)
            for root in self.roots
            if (name := root.name_of(PurePosixPath(path))) is not None
        ]
        if not places:
            allowed = ", ".join(f"`{root.path}`" for root in self.roots)
            raise RefusedError("outside", f"`{shown(path)}` is outside of what is open: {allowed}.")
        # The innermost folder decides whether it may be written.
        return self._open_place(max(places, key=lambda place: len(place.root.path.parts)))

    def _open_place(self, place: Place) -> Place:
        if place.root is self.roots[0] and self._why_closed is not None:
            raise RefusedError(
                "no_project",
                f"{self._why_closed}, not a project: its files are not opened. "
                "Ask the user to start again in the folder of a project.",
            )
        return place

    def locate_for_writing(self, path: str) -> Place:
        """Return the folder and name of a path, unless it is protected from all tools."""
        # Writing follows no link, so the path can be judged by its text alone.
        place = self.locate(os.path.normpath(self.roots[0].path / path))
        part = protected_part(PurePosixPath(place.path))
        if part is not None:
            raise RefusedError(
                "protected",
                f"`{shown(path)}` is not written by any tool, because `{shown(part)}` is "
                "protected. Ask the user to change it.",
            )
        return place
