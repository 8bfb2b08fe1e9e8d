"""The installations that the user's PATH leads to, which confined programs can read and run.

An entry of PATH is one folder of an installation: an interpreter's library, the versions of shims
and the targets of links are elsewhere. The rules here find the rest and refuse what may have keys.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from amplifier_sandbox.own.paths import path_and_links
from amplifier_sandbox.ownership import exposure_of
from amplifier_sandbox.processes.bubblewrap import SYSTEM_PATH, system_paths
from amplifier_sandbox.processes.credentials import credentials_in, is_credential
from amplifier_sandbox.processes.python_installations import (
    environments_in,
    interpreters_of,
    is_python_installation,
    nearest_environments,
)
from amplifier_sandbox.processes.workspace import why_not_given

__all__ = ["NO_TOOLCHAINS", "Toolchains", "find_toolchains", "forget_toolchains"]


class Manager(NamedTuple):
    """A tool that keeps installations in a folder of its own, which has no keys in it."""

    # Names the folder, and is set for confined programs, because their HOME is another one.
    variable: str
    # The folder without the variable, relative to the home folder.
    default: str
    # Finding this program on PATH shows the folder, even if no entry of PATH is inside.
    program: str = ""


_MANAGERS = (
    Manager("ASDF_DATA_DIR", ".asdf", "asdf"),
    Manager("FNM_DIR", ".local/share/fnm", "fnm"),
    Manager("GOENV_ROOT", ".goenv", "goenv"),
    # In the home of a user of its own, beside that of this user.
    Manager("HOMEBREW_PREFIX", "../linuxbrew/.linuxbrew"),
    Manager("MISE_DATA_DIR", ".local/share/mise", "mise"),
    Manager("NODENV_ROOT", ".nodenv", "nodenv"),
    Manager("NVM_DIR", ".nvm"),
    Manager("PYENV_ROOT", ".pyenv", "pyenv"),
    Manager("RBENV_ROOT", ".rbenv", "rbenv"),
    # Cargo's own folder is not here: it has the tokens of registries beside its programs.
    Manager("RUSTUP_HOME", ".rustup", "rustup"),
    Manager("SDKMAN_DIR", ".sdkman"),
    Manager("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "uv"),
    Manager("VOLTA_HOME", ".volta", "volta"),
)
# Variables that name one installation.
_INSTALLATIONS = ("CONDA_PREFIX", "GOROOT", "JAVA_HOME", "VIRTUAL_ENV")
# Variables that select a version by its name, and that of the folder it is in.
_VERSIONS = {
    "CONDA_DEFAULT_ENV": "CONDA_PREFIX",
    "PYENV_VERSION": "PYENV_ROOT",
    "RBENV_VERSION": "RBENV_ROOT",
    "RUSTUP_TOOLCHAIN": "RUSTUP_HOME",
}
_VERSION = re.compile(r"[\w.:@/+-]{1,80}")
_READ = (
    "AMPLIFIER_HOME",
    "HOME",
    "PATH",
    *(manager.variable for manager in _MANAGERS),
    *_INSTALLATIONS,
    *_VERSIONS,
)

_FOLDERS_OF_PROGRAMS = ("bin", "condabin", "sbin", "shims")
# What is beside a folder of programs in an installation; `VERSION` is in that of Go.
_PARTS = ("conda-meta", "include", "lib", "lib64", "libexec", "pyvenv.cfg", "share", "VERSION")
# Folders of a home that many programs share.
_SHARED = (".cache", ".cargo", ".config", ".local", ".local/share", ".local/state")
_ALTERNATIVES = "/etc/alternatives/"
_PACKAGES_OF_NODE = "node_modules"
_NIX = Path("/nix/store")
_OPT = Path("/opt")

_MOST_CACHED = 32


@dataclass(frozen=True, slots=True)
class Toolchains:
    """What a confined program gets of the user's installations; all paths are real ones."""

    # The entries of PATH that exist inside, in their order.
    path: str = SYSTEM_PATH
    shown: tuple[Path, ...] = ()
    # Files and folders in `shown` that may have keys in them, and appear empty.
    hidden: tuple[Path, ...] = ()
    # Symbolic links on the way to what is shown, and their targets.
    links: tuple[tuple[Path, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    # Entries of PATH that do not exist inside, and why.
    left_out: tuple[tuple[str, str], ...] = ()


NO_TOOLCHAINS = Toolchains()
_found: dict[object, Toolchains] = {}


def forget_toolchains() -> None:
    """Forget what was found, so that the next search looks again."""
    _found.clear()


def find_toolchains(writable: Sequence[Path], read_only: Sequence[Path] = ()) -> Toolchains:
    """Return the installations for programs that can write to the folders `writable`.

    `read_only` are further paths that they can read; all are real paths. What is in `writable` may
    come from an untrusted project or a confined program, so no link in it shows anything, except
    one to an installation of Python. The result is kept until PATH, one of its folders or an
    environment of the project changes.
    """
    variables = {name: os.environ[name] for name in _READ if name in os.environ}
    entries = variables.get("PATH", "").split(os.pathsep)
    environments = [each for folder in writable for each in nearest_environments(folder)]
    watched = (*entries, *(f"{each}/pyvenv.cfg" for each in environments))
    key = (
        tuple(writable),
        tuple(read_only),
        tuple(variables.items()),
        tuple((path, _changed_at(path)) for path in watched),
    )
    if key not in _found:
        if len(_found) >= _MOST_CACHED:
            _found.clear()
        search = _Search(list(writable), list(read_only), variables)
        search.run()
        _found[key] = search.result()
    return _found[key]


def _changed_at(path: str) -> int:
    with suppress(OSError, ValueError):
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - at every command
    return 0


@dataclass(slots=True)
class _Search:
    """One search: what was found to show so far, and what cannot be shown."""

    writable: list[Path]
    read_only: list[Path]
    variables: dict[str, str]
    home: Path = field(init=False)
    managers: dict[str, Path] = field(init=False)
    shown: list[Path] = field(default_factory=list[Path])
    links: dict[Path, str] = field(default_factory=dict[Path, str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.home = _real(self.variables.get("HOME") or Path("~").expanduser())
        self.managers = {
            each.variable: _real(self.variables.get(each.variable) or self.home / each.default)
            for each in _MANAGERS
        }

    def run(self) -> None:
        """Search all that PATH and the variables name, and the environments of the project."""
        entries = [entry for entry in self._entries() if os.path.isdir(entry)]  # noqa: PTH112
        for entry in entries:
            self._add_entry(entry)
        for folder in dict.fromkeys(map(os.path.realpath, entries)):
            if self._is_visible(folder) and not self._is_untrusted(folder):
                self._add_linked(folder)
        for name in _INSTALLATIONS:
            value = self.variables.get(name, "")
            if os.path.isabs(value):  # noqa: PTH117 - a string
                self._add_entry(os.path.join(value, "bin"))  # noqa: PTH118 - as above
        for manager in _MANAGERS:
            program = manager.program
            if program and any(self._has_program(entry, program) for entry in entries):
                self._add(self.managers[manager.variable])
        own = [Path(value) for _, value in self._named("VIRTUAL_ENV")]
        projects = [each for folder in self.writable for each in environments_in(folder)]
        for environment in (*projects, *own, *self.shown):
            self._add_base_of(environment)

    def result(self) -> Toolchains:
        """Return what was found."""
        shown = _outermost(self.shown)
        entries = [entry for entry in self._entries() if self._is_visible(entry)]
        named = {
            **{name: str(root) for name, root in self.managers.items() if root in shown},
            **dict(self._named(*_INSTALLATIONS)),
        }
        for name, folder in _VERSIONS.items():
            value = self.variables.get(name, "")
            if folder in named and _VERSION.fullmatch(value):
                named[name] = value
        return Toolchains(
            os.pathsep.join(dict.fromkeys([*entries, *SYSTEM_PATH.split(os.pathsep)])),
            shown,
            # What is in the store of Nix is public, and far too much to search.
            tuple(path for folder in shown if folder != _NIX for path in credentials_in(folder)),
            tuple(self.links.items()),
            tuple(named.items()),
            tuple(self.left_out.items()),
        )

    def _entries(self) -> list[str]:
        entries = self.variables.get("PATH", "").split(os.pathsep)
        # A relative entry is another folder in every folder.
        return [entry for entry in entries if entry.startswith("/") and "\0" not in entry]

    def _named(self, *names: str) -> Iterator[tuple[str, str]]:
        """Yield the variables that name a folder which exists inside."""
        for name in names:
            value = self.variables.get(name, "")
            if value.startswith("/") and self._is_visible(value):
                yield name, value

    def _add_entry(self, entry: str) -> None:
        """Show the installation of one folder of programs."""
        folder = Path(os.path.realpath(entry))
        if self._is_untrusted(entry) or self._is_untrusted(folder):
            return
        if not _is_system(folder):
            root = self._installation_of(folder) or folder
            why_not = self._add(root)
            if why_not is not None and root != folder:
                why_not = self._add(folder)
            if why_not is not None:
                self.left_out[entry] = why_not
                return
            self._add_links(entry)

    def _add_linked(self, folder: str) -> None:
        """Show the installations that the links in a folder of programs lead to."""
        try:
            links = [each.path for each in os.scandir(folder) if each.is_symlink()]
        except OSError:
            return
        for link in links:
            if _may_lead_out(link):
                self._add_program(link)

    def _add_program(self, link: str) -> None:
        """Show the installation that a link in a folder of programs leads to."""
        target = Path(os.path.realpath(link))
        if self._is_visible(target) or self._is_untrusted(target) or not _is_program(target):
            return
        if _PACKAGES_OF_NODE in target.parts:
            at = target.parts.index(_PACKAGES_OF_NODE)
            root = Path(*target.parts[: at + 1])
        else:
            root = self._installation_of(target.parent)
        # A link to a program does not make everything beside the program part of it.
        if self._add(root or target) is None:
            self._add_links(link)

    def _add_base_of(self, environment: Path) -> None:
        """Show the installation of Python that an environment was made from."""
        for interpreter in interpreters_of(environment):
            target = Path(os.path.realpath(interpreter))
            if not _is_program(target):
                continue
            prefix = target.parent.parent
            if self._is_visible(target):
                self._add_links(str(interpreter))
                continue
            # The file that names it may be the project's, so the folder must prove what it is.
            if not self._is_untrusted(target) and is_python_installation(prefix):
                root = self._installation_of(target.parent) or prefix
                if self._add(root) is None:
                    self._add_links(str(interpreter))

    def _installation_of(self, folder: Path) -> Path | None:
        """Return the folder that has all of an installation, given its folder of programs."""
        for root in self.managers.values():
            if folder.is_relative_to(root) and self._why_not(root) is None:
                return root
        if folder.is_relative_to(_NIX):
            return _NIX
        if folder.is_relative_to(_OPT) and folder != _OPT:
            return _OPT / folder.relative_to(_OPT).parts[0]
        root = folder.parent
        if folder.name not in _FOLDERS_OF_PROGRAMS or self._is_shared(root):
            return None
        # Anything may be in the settings of a program, and a repository is a project.
        if root.is_relative_to(self.home / ".config") or (root / ".git").exists():
            return None
        if any((root / part).exists() for part in _PARTS):
            return root
        return None

    def _add(self, path: Path) -> str | None:
        """Show a folder or file; return why it cannot be shown, or None."""
        if self._is_visible(path):
            return None
        why_not = self._why_not(path)
        if why_not is None:
            self.shown.append(path)
        return why_not

    def _why_not(self, path: Path) -> str | None:
        if is_credential(path):
            return f"`{path}` may have keys in it"
        if not os.path.exists(path):  # noqa: PTH110 - false, not an error, where we may not look
            return f"`{path}` does not exist"
        why_not = why_not_given(path)
        if why_not is not None:
            return why_not
        if self._is_shared(path):
            return f"`{path}` has files of many programs in it"
        if any(folder.is_relative_to(path) for folder in self.writable):
            return f"`{path}` has the workspace in it"
        exposure = exposure_of(path)
        if exposure is not None:
            return exposure.why.rstrip(".")
        return None

    def _add_links(self, path: str) -> None:
        """Remember the links on the way to a path, so that its name leads there inside, too."""
        for place in path_and_links(path)[1]:
            if not _is_system(place) and not self._is_untrusted(place):
                self.links.setdefault(place, str(place.readlink()))

    def _has_program(self, entry: str, name: str) -> bool:
        program = os.path.join(entry, name)  # noqa: PTH118 - a string
        if not os.access(program, os.X_OK) or not _is_program(_real(program)):
            return False
        return self._is_visible(entry) and not self._is_untrusted(program)

    def _is_untrusted(self, path: str | Path) -> bool:
        # As written and resolved, because a link in a workspace can be replaced.
        spellings = (Path(path), _real(path))
        return any(each.is_relative_to(folder) for each in spellings for folder in self.writable)

    def _is_shared(self, path: Path) -> bool:
        return path == self.home or path in [self.home / each for each in _SHARED]

    def _is_visible(self, path: str | Path) -> bool:
        real = _real(path)
        return _is_system(real) or any(
            real.is_relative_to(each) for each in (*self.shown, *self.read_only, *self.writable)
        )


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in system_paths(network=False))


def _may_lead_out(link: str) -> bool:
    """Whether a link in a folder of programs is worth resolving; the system has thousands."""
    with suppress(OSError):
        target = os.readlink(link)  # noqa: PTH115 - a string
        if target.startswith(_ALTERNATIVES):
            target = os.readlink(target)  # noqa: PTH115 - as above
        return "/" in target and not target.startswith("/usr/")
    return False


def _is_program(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(each) for each in kept):
            kept.append(path)
    return tuple(kept)
