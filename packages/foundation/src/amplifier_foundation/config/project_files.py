"""Which files belong to a project, and so may not act before it is trusted."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from amplifier_foundation.config.documents import read_text
from amplifier_foundation.config.granted_texts import leads_to, read_granted
from amplifier_foundation.errors import FoundationError, TrustError
from amplifier_foundation.settings import Settings

__all__ = [
    "granted_text",
    "how_to_grant",
    "is_inside",
    "is_of_project",
    "may_act",
    "refuse_untrusted",
]

_OURS = Path(__file__).resolve().parent.parent


def is_of_project(path: Path, settings: Settings) -> bool:
    """Return whether a file is in the project's folder, and neither ours nor the user's."""
    return is_inside(path, settings.project, settings.home)


def is_inside(path: Path, project: Path, home: Path) -> bool:
    """Return whether a path, with all links followed, is one of the project's.

    Our own code in a virtual environment of the project is not, nor is the user's folder in it.
    """
    real = path.resolve()
    if real.is_relative_to(_OURS) or real.is_relative_to(home.resolve()):
        return False
    return real.is_relative_to(project.resolve())


def may_act(path: Path, settings: Settings) -> bool:
    """Return whether a file may act: it is not the project's, or the user decided about it."""
    if not is_of_project(path, settings):
        return True
    return settings.trusted and _is_decided(path, settings)


def refuse_untrusted(path: Path, settings: Settings) -> None:
    """Raise TrustError for a file of a project about which there is no decision."""
    if not may_act(path, settings):
        if settings.trusted:
            known = "trusted without it"
        else:
            known = "not trusted"
        raise TrustError(
            f"`{path}` was not read.",
            why=f"It is in `{settings.project}`, which is {known}.",
            fix=how_to_grant(path, settings.project),
        )


def granted_text(path: Path, settings: Settings, *, error: type[FoundationError]) -> str:
    """Return the text of a file that may act, with the content that the user decided about.

    Raises:
        TrustError: there is no decision about it, or its content has changed.
    """
    refuse_untrusted(path, settings)
    if not is_of_project(path, settings):
        return read_text(path, error=error)
    return read_granted(path, settings.project, settings.digests, error=error)


def how_to_grant(path: Path, project: Path) -> str:
    """Return the command that asks the user about a file or a folder of a project."""
    name = path.resolve().relative_to(project.resolve())
    if name.parts[:1] == (".amplifier",):
        return "amplifier trust"
    # As it is typed in this folder, which may be below the project's root or elsewhere.
    here = Path.cwd()
    if here.is_relative_to(project.resolve()):
        name = Path(os.path.relpath(path.resolve(), here))
    return f"amplifier trust --file {shlex.quote(os.fspath(name))}"


def _is_decided(path: Path, settings: Settings) -> bool:
    if settings.acting is None:
        return True
    # A link is listed under its own name, and stands for its target.
    return any(leads_to(settings.project / name, path) for name in settings.acting)
