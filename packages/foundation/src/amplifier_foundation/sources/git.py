"""Fetching a commit with git, so that nothing of the repository runs and nothing else is asked."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

from amplifier_foundation.sources.errors import FetchError
from amplifier_foundation.sources.fetching import Watch
from amplifier_foundation.sources.uri import Source

__all__ = ["fetch_commit"]

_POLL_SECONDS = 0.05
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.symlinks": "false",  # a link arrives as a file that says where it pointed
    "core.autocrlf": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
# The person's own settings are not read either: what is pinned here must be the same elsewhere.
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
    "GIT_ASKPASS": "/bin/false",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_KEPT = ("PATH", "HOME", "USER", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")
# Files get the bytes of the commit, whatever its .gitattributes say.
_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding\n"


def fetch_commit(source: Source, commit: str | None, workspace: Path, watch: Watch) -> str:
    """Put the files of a commit into `workspace/tree`; return the full commit.

    `commit` is what to fetch, else what the source's reference stands for at this moment.
    Submodules are left out.

    Raises:
        FetchError: git says no, or it takes too long or too much.
    """
    repository, tree = workspace / "repository", workspace / "tree"
    tree.mkdir()
    git = _Git(repository, tree, watch)
    git.run("init", "--quiet", "--template=")
    (repository / "info").mkdir(exist_ok=True)
    (repository / "info" / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
    wanted = commit or source.ref or "HEAD"
    git.run("fetch", "--quiet", "--depth=1", "--no-tags", "--", source.location, wanted)
    found = git.run("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
    _check_size(git.run("ls-tree", "-r", "-l", "-z", found), watch)
    git.run("read-tree", found)
    git.run("checkout-index", "--all", "--force")
    return found


def _check_size(listing: str, watch: Watch) -> None:
    """Say no before the files are written: a small pack can hold very large ones."""
    sizes = [line.split(None, 4)[3] for line in listing.split("\0") if line]
    if len(sizes) > watch.limits.files:
        raise FetchError(
            f"Fetching {watch.source} was ended.",
            why=f"It has more than {watch.limits.files:,} files.",
        )
    watch.reached(sum(int(size) for size in sizes if size.isdigit()))


class _Git:
    """The git program, on one repository that has no settings but ours."""

    def __init__(self, repository: Path, tree: Path, watch: Watch) -> None:
        self._workspace = repository.parent
        self._watch = watch
        self._command = ["git", f"--git-dir={repository}", f"--work-tree={tree}"]
        for key, value in _SETTINGS.items():
            self._command += ["-c", f"{key}={value}"]
        kept = {name: os.environ[name] for name in (*_KEPT, *_PROXIES) if name in os.environ}
        self._environment = kept | _ENVIRONMENT

    def run(self, *arguments: str) -> str:
        """Run one command within the fetch's limits; return what it wrote."""
        out, err = self._workspace / "out", self._workspace / "err"
        with out.open("w+b") as stdout, err.open("w+b") as stderr:
            status = self._wait(self._start(arguments, stdout, stderr))
            stdout.seek(0)
            stderr.seek(0)
            if status != 0:
                said = stderr.read(4096).decode(errors="replace").strip()
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
                # The transport's own processes too.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _size_of(folder: Path) -> int:
    """Return how much a fetch has written so far; files come and go while git works."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(parent) / name).lstat().st_size
    return size
