"""Which files are a project's, and may not act before it is trusted."""

from __future__ import annotations

from pathlib import Path

from amplifier_foundation.errors import TrustError
from amplifier_foundation.settings import Settings

__all__ = ["is_of_project", "may_act", "refuse_untrusted"]

_OURS = Path(__file__).resolve().parent.parent


def is_of_project(path: Path, settings: Settings) -> bool:
    """Tell whether a file came with the project: in its folder, and neither ours nor the person's.

    A virtual environment may lie in the project, and the project may be the folder of the person.
    """
    real = path.resolve()
    elsewhere = (_OURS, settings.home.resolve())
    if any(real.is_relative_to(folder) for folder in elsewhere):
        return False
    return real.is_relative_to(settings.project.resolve())


def may_act(path: Path, settings: Settings) -> bool:
    """Tell whether a file may act: it is not the project's, or a decision about it was recorded."""
    if not is_of_project(path, settings):
        return True
    return settings.trusted and _is_decided(path, settings)


def refuse_untrusted(path: Path, settings: Settings) -> None:
    """Raise TrustError for a file of a project about which there is no decision."""
    if not may_act(path, settings):
        known = "trusted without it" if settings.trusted else "not trusted"
        raise TrustError(
            f"`{path}` was not read.",
            why=f"It lies in `{settings.project}`, which is {known}.",
            fix=_how_to_decide(path, settings),
        )


def _how_to_decide(path: Path, settings: Settings) -> str:
    name = path.resolve().relative_to(settings.project.resolve())
    return "amplifier trust" if name.parts[0] == ".amplifier" else f"amplifier trust --file {name}"


def _is_decided(path: Path, settings: Settings) -> bool:
    if settings.acting is None:
        return True
    project, real = settings.project.resolve(), path.resolve()
    # A link counts under its own name, with what it leads to.
    return any((project / name).resolve() == real for name in settings.acting)
