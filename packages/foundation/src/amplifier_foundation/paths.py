"""Paths of the files and folders that Amplifier keeps."""

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
    """Return the settings that apply in every project."""
    return home / "settings.yaml"


def project_settings(project: Path) -> Path:
    """Return the settings that a project carries with it, for everybody who works on it."""
    return project / ".amplifier" / "settings.yaml"


def local_settings(project: Path) -> Path:
    """Return the user's own settings for one project."""
    return project / ".amplifier" / "settings.local.yaml"


def credentials_file(home: Path) -> Path:
    """Return the file with keys, which only its owner may read."""
    return home / "credentials.yaml"


def trust_file(home: Path) -> Path:
    """Return the record of which project folders may act."""
    return home / "trust.json"


def cache(home: Path) -> Path:
    """Return the cache of fetched sources, keyed by content."""
    return home / "cache"


def compiled(home: Path) -> Path:
    """Return the folder for the bytecode of modules that are not installed."""
    return home / "compiled"


def trusted_code(home: Path) -> Path:
    """Return the copies of projects' modules as the user trusted them, keyed by content."""
    return home / "trusted"


def libraries(home: Path) -> Path:
    """Return the private environments for libraries of modules, one per version of Python."""
    return home / "libraries"


def blobs(home: Path) -> Path:
    """Return the large strings of all sessions, each stored once."""
    return home / "blobs"


def index_file(home: Path) -> Path:
    """Return the index of all sessions, which can be rebuilt from their folders."""
    return home / "index.sqlite"


def project_folder(home: Path, project: Path) -> Path:
    """Return the folder for what is kept of one project, which is outside the project."""
    return home / "projects" / project_name(project)


def session_folder(home: Path, project: Path, session_id: str) -> Path:
    """Return the folder of one session."""
    return project_folder(home, project) / "sessions" / folder_name(session_id)
