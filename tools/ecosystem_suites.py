"""What there is to run: the distributions with tests in snapshots of published repositories."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

# The kernel that is compared with; running its own suite on ours is the work of tests/contract.
_KERNEL = "amplifier-core"
_ENTRY_POINTS = "amplifier.modules"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Names that projects give to what only their tests need.
_FOR_TESTS = ("dev", "test", "tests", "testing")


class Suite(NamedTuple):
    """One distribution of a snapshot: where it is, and what it declares."""

    name: str
    version: str
    repository: str
    commit: str
    folder: Path
    requires: tuple[str, ...]
    is_module: bool
    has_tests: bool

    @property
    def siblings(self) -> set[str]:
        """The distributions of this ecosystem that it needs, without the kernel."""
        names = {distribution_of(each) for each in self.requires}
        return {each for each in names if each.startswith("amplifier")} - {_KERNEL}

    @property
    def module_id(self) -> str:
        """The name that plans have for a module."""
        return self.name.removeprefix("amplifier-module-")

    @property
    def libraries(self) -> list[str]:
        """The requirements that come from a package index."""
        return [each for each in self.requires if not distribution_of(each).startswith("amplifier")]


def distribution_of(requirement: str) -> str:
    """Return the name in a requirement, as package indexes compare it."""
    found = _NAME.match(requirement.strip())
    return canonicalize_name(found[0]) if found else ""


def check_out(snapshots: Iterable[Path], target: Path) -> list[Path]:
    """Clone every repository of the folders into `target`, and return the copies."""
    copies: list[Path] = []
    for repository in _repositories(snapshots):
        # A repository that is kept without a work tree has its name one folder above.
        named = repository.parent if repository.name in {".git", "repo"} else repository
        copy = target / named.name.removesuffix(".git")
        if not copy.is_dir():
            _git("clone", "--quiet", "--no-hardlinks", str(repository), str(copy))
        copies.append(copy)
    return copies


def find_suites(copies: Iterable[Path]) -> list[Suite]:
    """Return every module, and everything else that has tests, by name."""
    found = [suite for copy in copies for suite in _suites_in(copy)]
    return sorted(found, key=lambda suite: (suite.name, suite.repository))


def _repositories(snapshots: Iterable[Path]) -> Iterator[Path]:
    for folder in snapshots:
        for path in [folder, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))]:
            is_bare = (path / "HEAD").is_file() and (path / "objects").is_dir()
            if is_bare and path.name != ".git":
                yield path
            elif (path / ".git").is_dir():
                yield path / ".git"


def _suites_in(copy: Path) -> Iterator[Suite]:
    commit = _git("-C", str(copy), "rev-parse", "--short", "HEAD")
    for file in sorted(copy.rglob("pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))
        about: dict[str, Any] = project.get("project", {})
        name = about.get("name", "")
        if not name or name == _KERNEL:
            continue
        has_tests = any((file.parent / "tests").rglob("test_*.py"))
        is_module = _ENTRY_POINTS in about.get("entry-points", {}) or "amplifier-module-" in name
        if has_tests or is_module:
            yield Suite(
                name=name,
                version=about.get("version", "?"),
                repository=copy.name.replace("+", "/"),
                commit=commit,
                folder=file.parent,
                requires=tuple(_requirements_in(project)),
                is_module=is_module,
                has_tests=has_tests,
            )


def _requirements_in(project: dict[str, Any]) -> Iterator[str]:
    """Return what it needs, and what its tests need, without includes of other groups."""
    about: dict[str, Any] = project["project"]
    tables: list[dict[str, Any]] = [
        about.get("optional-dependencies", {}),
        project.get("dependency-groups", {}),
    ]
    yield from about.get("dependencies", [])
    for table in tables:
        for group in _FOR_TESTS:
            yield from (each for each in table.get(group, []) if isinstance(each, str))
    yield from project.get("tool", {}).get("uv", {}).get("dev-dependencies", [])


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, timeout=600, check=True
    )
    return done.stdout.strip()
