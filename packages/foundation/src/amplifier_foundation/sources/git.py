"""Fetch a commit with git, without running code of the repository or prompting the user."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from amplifier_foundation.sources.content import collision, name_fault
from amplifier_foundation.sources.errors import FetchError, RejectedArchiveError
from amplifier_foundation.sources.fetch import Watch
from amplifier_foundation.sources.uri import Source
from amplifier_sandbox.own.programs import find_program, search_folders
from amplifier_sandbox.platforms.signals import end_group

__all__ = ["fetch_commit"]

_POLL_SECONDS = 0.05
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.protectHFS": "true",  # what macOS and Windows take for `.git` is refused everywhere
    "core.protectNTFS": "true",
    "core.symlinks": "false",  # a link arrives as a file that says where it pointed
    "core.autocrlf": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
# The user's own git settings are not read either: a pin must mean the same on every machine.
_ENVIRONMENT = {
    "GIT_ASKPASS": "/bin/false",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_KEPT = ("HOME", "USER", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")
# Files get the bytes of the commit, whatever its .gitattributes say.
_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding\n"


def fetch_commit(source: Source, commit: str | None, workspace: Path, watch: Watch) -> str:
    """Write the files of a commit to `workspace/tree`; return the full commit.

    Without `commit`, the source's reference is resolved now. Submodules are left out.

    Raises:
        FetchError: git failed, or a limit was exceeded.
        RejectedArchiveError: it has an unsafe name; none of its files was written.
    """
    repository = workspace / "repository"
    tree = workspace / "tree"
    tree.mkdir()
    git = _Git(repository, tree, urlsplit(source.location).scheme, watch)
    git.run("init", "--quiet", "--template=")
    (repository / "info").mkdir(exist_ok=True)
    (repository / "info" / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
    wanted = commit or source.ref or "HEAD"
    git.run("fetch", "--quiet", "--depth=1", "--no-tags", "--", source.location, wanted)
    found = git.run("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
    entries = _entries(git.run("ls-tree", "-r", "-l", "-z", found))
    _check_size(entries, watch)
    _check_names(entries, watch)
    git.run("read-tree", found)
    git.run("checkout-index", "--all", "--force")
    return found


class _Entry(NamedTuple):
    """One line of `git ls-tree`; `size` is `-` for a submodule."""

    kind: str
    size: str
    name: str


def _entries(listing: str) -> list[_Entry]:
    found: list[_Entry] = []
    for line in listing.split("\0"):
        if line:
            facts, _, name = line.partition("\t")
            _, kind, _, size = facts.split()
            found.append(_Entry(kind, size, name))
    return found


def _check_size(entries: list[_Entry], watch: Watch) -> None:
    """Refuse before files are written: a small pack can contain very large ones."""
    if len(entries) > watch.limits.files:
        raise FetchError(
            f"Fetching {watch.source} was ended.",
            why=f"It has more than {watch.limits.files:,} files.",
        )
    watch.reached(sum(int(each.size) for each in entries if each.size.isdigit()))


def _check_names(entries: list[_Entry], watch: Watch) -> None:
    """Check names by the rules for archives; git's own depend on its version and the system."""
    for each in entries:
        fault = name_fault(each.name)
        if fault is not None:
            raise RejectedArchiveError(watch.source, f"{fault}: {each.name[:200]!r}")
    files = [each.name for each in entries if each.kind == "blob"]
    folders = [each.name for each in entries if each.kind != "blob"]
    fault = collision(files, folders)
    if fault is not None:
        raise RejectedArchiveError(watch.source, fault)


class _Git:
    """The git program on one repository, with no settings but ours."""

    def __init__(self, repository: Path, tree: Path, protocol: str, watch: Watch) -> None:
        self._workspace = repository.parent
        self._watch = watch
        git = find_program("git")
        if git is None:
            raise FetchError(
                f"{watch.source} cannot be fetched.",
                why="There is no `git` on this machine outside of the current folder.",
            )
        self._command = [git, f"--git-dir={repository}", f"--work-tree={tree}"]
        for key, value in _SETTINGS.items():
            self._command += ["-c", f"{key}={value}"]
        kept = {name: os.environ[name] for name in (*_KEPT, *_PROXIES) if name in os.environ}
        # Git starts ssh and others by name: none may come from a folder of the workspace.
        search = {"PATH": os.pathsep.join(search_folders())}
        # A redirect cannot switch to another protocol.
        allowed = {"GIT_ALLOW_PROTOCOL": protocol}
        self._environment = kept | search | _ENVIRONMENT | allowed

    def run(self, *arguments: str) -> str:
        """Run one command within the fetch's limits; return its output."""
        # Files instead of pipes: they count towards the limit in bytes, and cannot block git.
        out = self._workspace / "out"
        err = self._workspace / "err"
        with out.open("w+b") as stdout, err.open("w+b") as stderr:
            status = self._wait(self._start(arguments, stdout, stderr))
            stdout.seek(0)
            stderr.seek(0)
            if status != 0:
                # An error is three lines on the screen, however many git has written.
                said = " ".join(stderr.read(4096).decode(errors="replace").split())
                raise FetchError(
                    f"git could not fetch {self._watch.source}.",
                    why=said or f"git {arguments[0]} ended with {status}.",
                )
            return stdout.read().decode(errors="surrogateescape")

    def _start(
        self, arguments: tuple[str, ...], stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self._command, *arguments],
                cwd=self._workspace,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except FileNotFoundError as missing:
            raise FetchError(
                f"{self._watch.source} cannot be fetched.", why="There is no `git` on this machine."
            ) from missing

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_SECONDS)
                self._watch.reached(_size_of(self._workspace))
        finally:
            if process.poll() is None:
                # The whole group: git's transports run in processes of their own.
                end_group(process.pid)
                process.wait()


def _size_of(folder: Path) -> int:
    """Return how many bytes a fetch has written; files come and go while git works."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(parent) / name).lstat().st_size
    return size
