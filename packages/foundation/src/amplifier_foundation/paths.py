"""Where things lie on disk."""

from __future__ import annotations

from pathlib import Path

from amplifier_kit.session_folder import folder_name, project_name
from amplifier_sandbox.home import amplifier_home as home

__all__ = [
    "blobs",
    "cache",
    "compiled",
    "credentials_file",
    "home",
    "index_file",
    "libraries",
    "local_settings",
    "project_folder",
    "project_settings",
    "session_folder",
    "trust_file",
    "trusted_code",
    "user_settings",
]


def user_settings(home: Path) -> Path:
    """Return the settings that hold in every project."""
    return home / "settings.yaml"


def project_settings(project: Path) -> Path:
    """Return the settings that a project carries with it, for everybody who works on it."""
    return project / ".amplifier" / "settings.yaml"


def local_settings(project: Path) -> Path:
    """Return the person's own settings for one project."""
    return project / ".amplifier" / "settings.local.yaml"


def credentials_file(home: Path) -> Path:
    """Return the file with keys, which is for its owner alone."""
    return home / "credentials.yaml"


def trust_file(home: Path) -> Path:
    """Return the record of which project folders may act."""
    return home / "trust.json"


def cache(home: Path) -> Path:
    """Return what was fetched, by content."""
    return home / "cache"


def compiled(home: Path) -> Path:
    """Return what Python makes of modules that are not installed."""
    return home / "compiled"


def trusted_code(home: Path) -> Path:
    """Return the modules of projects as they were when the user trusted them, by content."""
    return home / "trusted"


def libraries(home: Path) -> Path:
    """Return the private environments with the libraries of modules, by version of Python."""
    return home / "libraries"


def blobs(home: Path) -> Path:
    """Return the large values of all sessions, each once."""
    return home / "blobs"


def index_file(home: Path) -> Path:
    """Return the list of all sessions; it can be made again from their folders."""
    return home / "index.sqlite"


def project_folder(home: Path, project: Path) -> Path:
    """Return what is kept for one project, outside of it."""
    return home / "projects" / project_name(project)


def session_folder(home: Path, project: Path, session_id: str) -> Path:
    """Return everything one session keeps."""
    return project_folder(home, project) / "sessions" / folder_name(session_id)
