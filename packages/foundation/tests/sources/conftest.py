"""Real repositories, archives and modules to fetch, and a resolver in a home of its own."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.sources import Lock, SourceResolver

Files = dict[str, str]
MODULE_CODE = '''"""A module of one tool."""

__amplifier_module_type__ = "tool"


class Echo:
    name = "echo"
    description = "Says it again."

    async def execute(self, input):
        return input


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Echo(), name="echo")
'''


def module_files(module_id: str, code: str = MODULE_CODE, below: str = "") -> Files:
    """Return the files of a module."""
    return {f"{below}amplifier_module_{module_id.replace('-', '_')}/__init__.py": code}


def write_files(folder: Path, files: Files) -> Path:
    """Write text files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The folder of a git repository that is still empty."""
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


@pytest.fixture
def git(repository: Path) -> Callable[..., str]:
    """Run git in the repository."""

    def run(*arguments: str) -> str:
        settings = ("user.name=t", "user.email=t@localhost", "protocol.file.allow=always")
        command = ["git", *(part for each in settings for part in ("-c", each)), *arguments]
        done = subprocess.run(
            command, cwd=repository, check=True, capture_output=True, text=True, timeout=30
        )
        return done.stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    return run


@pytest.fixture
def commit(repository: Path, git: Callable[..., str]) -> Callable[[Files], str]:
    """Commit files on the current branch; return the commit."""

    def write(files: Files) -> str:
        write_files(repository, files)
        git("add", "--all")
        git("commit", "--quiet", "--message=change")
        return git("rev-parse", "HEAD")

    return write


@pytest.fixture
def echo_uri(repository: Path, commit: Callable[[Files], str]) -> str:
    """The source of `tool-echo`: the main branch of the repository."""
    commit(module_files("tool-echo"))
    return f"git+file://{repository}@main"


@pytest.fixture
def module_code() -> str:
    """The code of a module that mounts one tool."""
    return MODULE_CODE


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's own folder, not there yet."""
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def resolver_with(home: Path, project: Path) -> Callable[..., SourceResolver]:
    """Make a resolver as a new process would: with the project's lock read from the disk."""

    def make(**options: Any) -> SourceResolver:
        lock = Lock.read(project / "amplifier.lock")
        return SourceResolver(home, base=project, lock=lock, **options)

    return make


@pytest.fixture
def locked(resolver_with: Callable[..., SourceResolver]) -> Callable[..., None]:
    """Pin a module and write the lock, as `amplifier module lock` does."""

    def lock(module_id: str, source: str | None = None, **options: Any) -> None:
        resolver = resolver_with()
        resolver.pin(module_id, source, **options)
        resolver.lock.write()

    return lock


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., str]:
    """Make a zip file of names and contents; return it as a source."""

    def make(entries: list[tuple[str | zipfile.ZipInfo, str]], name: str = "a.zip") -> str:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
            for entry, content in entries:
                opened.writestr(entry, content)
        return f"zip+file://{path}"

    return make
