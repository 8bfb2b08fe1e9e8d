"""Installing the libraries of modules into the private environment, when the user asks for it."""

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

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["LibraryInstallError", "install_libraries"]

_LIMIT_SECONDS = 1_800
_LONGEST_WHY = 400
# The settings of the installers may have a password for the user's own index.
_INSTALLERS = ("PIP_", "UV_")


class LibraryInstallError(FoundationError):
    """The libraries were not installed; the environment is as it was before."""


def install_libraries(home: Path, required: Mapping[str, list[Requirement]]) -> list[str]:
    """Make the private environment again, with the libraries of these modules too.

    Return what was installed, as `name version`. Everything is resolved together, and with what
    comes with the product at exactly its version: whatever does not fit it is not installed.

    Raises:
        LibraryInstallError: pip or uv could not install it, or it cannot be installed.
    """
    for module_id, requirements in required.items():
        _refuse_addresses(module_id, requirements)
    record = recorded_requirements(home)
    record |= {module_id: sorted(map(str, each)) for module_id, each in required.items()}
    folder = environment_folder(home)
    make_private_folder(paths.libraries(home.resolve()))
    unfinished = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}")
    unfinished.mkdir(mode=0o700)
    try:
        wanted = sorted({each for requirements in record.values() for each in requirements})
        _run_installer(unfinished, wanted)
        (unfinished / RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
        _refuse_own(unfinished)
        if folder.exists():
            folder.rename(unfinished / "before")
        unfinished.rename(folder)
        shutil.rmtree(folder / "before", ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return _installed(library_folders(home))


def _refuse_addresses(module_id: str, requirements: list[Requirement]) -> None:
    """Raise for a library that is named by its address: nothing pins what would be there."""
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
    """Return the installer with its options; both read the user's own settings for an index."""
    if importlib.util.find_spec("pip") is not None:
        # Neither the current folder nor PYTHONPATH is imported from. What is installed here counts
        # as there, so only what is missing comes into the folder.
        options = ["--no-input", "--prefer-binary", "--no-warn-script-location"]
        options += ["--prefix", str(folder)]
        return [sys.executable, "-P", "-m", "pip", "install", "--quiet", *options]
    return ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--prefix", str(folder)]


def _constraints() -> str:
    """Return every installed distribution at its version, ours as they are meant to be."""
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
    return {**kept, "PIP_USER": "0", "PIP_TARGET": "", "PIP_REQUIRE_VIRTUALENV": "0"}


def _reason(said: str) -> str:
    """Return the last thing that an installer complained about."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return " ".join((errors or lines or ["It did not say why."])[-1:])[:_LONGEST_WHY]


def _refuse_own(folder: Path) -> None:
    """Raise when an installer brought one of our distributions: it would be another's."""
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
