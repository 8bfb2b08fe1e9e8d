"""Install the libraries of modules into the private environment, at the user's request."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from amplifier_foundation import paths
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.installation import own_versions
from amplifier_foundation.sources.libraries import (
    RECORD,
    canonical,
    environment_folder,
    library_folders,
    recorded_requirements,
    site_folders,
)
from amplifier_kit.durable_files import make_private_folder
from amplifier_kit.secrets.known import is_secret_variable
from amplifier_sandbox.platforms.locks import locked_folder

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["LibraryInstallError", "install_libraries"]

_LIMIT_SECONDS = 1_800
_LONGEST_WHY = 400
# Kept though their names may look like secrets: they can have the password of the user's index.
_INSTALLERS = ("PIP_", "UV_")


class LibraryInstallError(FoundationError):
    """The libraries were not installed; the environment is as it was before."""


def install_libraries(home: Path, required: Mapping[str, list[Requirement]]) -> list[str]:
    """Rebuild the private environment, with the libraries of these modules added.

    Return what was installed, as `name version`. All requirements are resolved together, with what
    comes with the product pinned at its exact version; a conflict is an error.

    Raises:
        LibraryInstallError: a requirement names an address, or pip or uv failed.
    """
    for module_id, requirements in required.items():
        _refuse_addresses(module_id, requirements)
    libraries = paths.libraries(home.resolve())
    make_private_folder(libraries)
    # One process at a time: each adds to what is recorded.
    with locked_folder(libraries):
        record = recorded_requirements(home)
        record |= {module_id: sorted(map(str, each)) for module_id, each in required.items()}
        folder = environment_folder(home)
        unfinished = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}")
        unfinished.mkdir(mode=0o700)
        try:
            wanted = sorted({each for requirements in record.values() for each in requirements})
            _run_installer(unfinished, wanted)
            (unfinished / RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
            _refuse_own(unfinished)
            _put_in_place(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return _installed(library_folders(home))


def _put_in_place(unfinished: Path, folder: Path) -> None:
    """Replace the environment; if that fails, the old one stays."""
    before = unfinished / "before"
    try:
        # A rename cannot replace a folder that has files in it, so the old one moves inside first.
        if folder.exists():
            folder.rename(before)
        unfinished.rename(folder)
    except OSError as error:
        if before.exists():
            before.rename(folder)
        raise LibraryInstallError("The libraries were not installed.", why=f"{error}.") from error
    shutil.rmtree(folder / "before", ignore_errors=True)


def _refuse_addresses(module_id: str, requirements: list[Requirement]) -> None:
    """Raise for a library that is named by an address: no hash pins what is there."""
    for each in requirements:
        if each.url:
            raise LibraryInstallError(
                f"The libraries of `{module_id}` are not installed.",
                why=f"It requires `{each.name}` from {each.url}, and no hash is recorded for that.",
                fix=f"install {each.name} yourself, from a place you trust",
            )


def _run_installer(folder: Path, wanted: list[str]) -> None:
    constraints = folder / "constraints.txt"
    constraints.write_text(_constraints(), encoding="utf-8")
    # After `--`, no requirement of a module is read as an option of the installer.
    command = [*_installer(folder), "-c", str(constraints), "--", *wanted]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LibraryInstallError("The libraries were not installed.", why=f"{error}.") from error
    if done.returncode != 0:
        raise LibraryInstallError(
            "The libraries were not installed.",
            why=_reason(done.stderr or done.stdout),
            fix="correct it, then type the command again",
        )


def _installer(folder: Path) -> list[str]:
    """Return the installer with its options; pip and uv both use the user's own index settings."""
    if importlib.util.find_spec("pip") is not None:
        # `-P` keeps pip from importing out of the current folder. With `--prefix`, unlike
        # `--target`, installed distributions count, so only missing ones are added.
        options = ["--no-input", "--prefer-binary", "--no-warn-script-location"]
        options += ["--prefix", str(folder)]
        return [sys.executable, "-P", "-m", "pip", "install", "--quiet", *options]
    return ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--prefix", str(folder)]


def _constraints() -> str:
    """Return a pin for every installed distribution, for ours at the version they should have."""
    found = {canonical(each.name): each.version for each in distributions() if each.name}
    found |= {canonical(name): version for name, version in own_versions().items()}
    return "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))


def _environment() -> dict[str, str]:
    """Return the environment without keys: building a library runs code of its author."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_INSTALLERS) or not is_secret_variable(name)
    }
    kept.pop("PYTHONPATH", None)
    # Override settings of the user that would install elsewhere than into `--prefix`.
    return {**kept, "PIP_USER": "0", "PIP_TARGET": "", "PIP_REQUIRE_VIRTUALENV": "0"}


def _reason(said: str) -> str:
    """Return the last error line of an installer's output, else its last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return " ".join((errors or lines or ["It did not say why."])[-1:])[:_LONGEST_WHY]


def _refuse_own(folder: Path) -> None:
    """Raise if a distribution of one of our names was installed: it would be another project's."""
    # uv does not look at what is installed elsewhere, so constraints alone do not prevent it.
    ours = {canonical(name) for name in own_versions()}
    sites = [str(each) for each in site_folders(folder)]
    found = sorted({canonical(each.name) for each in distributions(path=sites)})
    replaced = [name for name in found if name in ours]
    if replaced:
        raise LibraryInstallError(
            "The libraries were not installed.",
            why=f"They would bring another {replaced[0]} than the one of this product.",
        )


def _installed(folders: list[Path]) -> list[str]:
    found = distributions(path=[str(folder) for folder in folders])
    return sorted(f"{each.name} {each.version}" for each in found)
