"""Modules from git: pinned, fetched once, and unable to run anything on the way."""

from __future__ import annotations

import itertools
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from amplifier_foundation.sources import (
    DriftError,
    FetchError,
    Limits,
    Lock,
    Progress,
    RejectedArchiveError,
    SourceResolver,
    UnpinnedError,
    fetch,
)
from amplifier_sandbox.platforms.process_end import end_of

Resolvers = Callable[..., SourceResolver]
Locked = Callable[..., None]
Git = Callable[..., str]
Commit = Callable[[dict[str, str]], str]
CODE = "amplifier_module_tool_echo/__init__.py"


@pytest.mark.attack("U1")
def test_a_module_by_branch_name_is_refused_without_a_pin(
    echo_uri: str, resolver_with: Resolvers, home: Path
) -> None:
    with pytest.raises(UnpinnedError) as refused:
        resolver_with().resolve("tool-echo", echo_uri)

    assert refused.value.fix == "amplifier module lock"
    assert not home.exists()


@pytest.mark.attack("U1")
def test_a_pin_without_a_commit_does_not_count(
    echo_uri: str, resolver_with: Resolvers, locked: Locked, project: Path
) -> None:
    locked("tool-echo", echo_uri)
    lock = Lock.read(project / "amplifier.lock")
    lock.pin("tool-echo", lock.modules["tool-echo"]._replace(commit=None))
    lock.write()

    with pytest.raises(UnpinnedError):
        resolver_with().resolve("tool-echo", echo_uri)
    locked("tool-echo", echo_uri)
    assert resolver_with().resolve("tool-echo", echo_uri).path.is_dir()


def test_a_pinned_module_stays_at_its_commit_while_the_branch_moves(
    echo_uri: str, resolver_with: Resolvers, locked: Locked, commit: Commit, git: Git
) -> None:
    locked("tool-echo", echo_uri)
    pinned = git("rev-parse", "HEAD")
    newer = commit({CODE: "newer = 1\n"})

    located = resolver_with().resolve("tool-echo", echo_uri)

    assert located.pin is not None
    assert located.pin.commit == pinned
    assert "newer" not in (located.path / CODE).read_text(encoding="utf-8")
    locked("tool-echo", echo_uri)
    assert resolver_with().lock.modules["tool-echo"].commit == pinned
    locked("tool-echo", echo_uri, update=True)
    assert resolver_with().lock.modules["tool-echo"].commit == newer


def test_another_machine_fetches_what_the_lock_pins(
    echo_uri: str, locked: Locked, project: Path, tmp_path: Path, commit: Commit
) -> None:
    locked("tool-echo", echo_uri)
    commit({CODE: "newer = 1\n"})
    lock = Lock.read(project / "amplifier.lock")

    there = SourceResolver(tmp_path / "other", base=project, lock=lock)

    assert "newer" not in (there.resolve("tool-echo", echo_uri).path / CODE).read_text("utf-8")


@pytest.mark.attack("U1")
def test_one_changed_byte_in_the_cache_is_refused_until_the_lock_is_made_again(
    echo_uri: str, resolver_with: Resolvers, locked: Locked
) -> None:
    locked("tool-echo", echo_uri)
    code = resolver_with().resolve("tool-echo", echo_uri).path / CODE
    code.chmod(0o644)
    code.write_bytes(code.read_bytes().replace(b"Says", b"Pays"))

    with pytest.raises(DriftError) as drift:
        resolver_with().resolve("tool-echo", echo_uri)

    assert drift.value.fix == "amplifier module lock"
    locked("tool-echo", echo_uri)
    assert b"Says" in (resolver_with().resolve("tool-echo", echo_uri).path / CODE).read_bytes()


@pytest.mark.attack("U1")
def test_bytecode_planted_in_the_cache_is_never_run(
    echo_uri: str, resolver_with: Resolvers, locked: Locked
) -> None:
    locked("tool-echo", echo_uri)
    package = (resolver_with().resolve("tool-echo", echo_uri).path / CODE).parent
    package.chmod(0o755)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "__init__.cpython-311.pyc").write_bytes(b"planted")

    resolver_with().resolve("tool-echo", echo_uri)

    assert not (package / "__pycache__").exists()


@pytest.mark.attack("U1")
def test_a_repository_that_gives_other_content_for_a_pin_is_refused(
    echo_uri: str, resolver_with: Resolvers, locked: Locked, project: Path, home: Path
) -> None:
    locked("tool-echo", echo_uri)
    lock = Lock.read(project / "amplifier.lock")
    lock.pin("tool-echo", lock.modules["tool-echo"]._replace(sha256="0" * 64))
    lock.write()

    with pytest.raises(DriftError):
        resolver_with().resolve("tool-echo", echo_uri)

    assert not (home / "cache" / ("0" * 64)).exists()


@pytest.mark.attack("U1")
def test_a_plan_that_names_another_branch_than_the_lock_is_refused(
    echo_uri: str, resolver_with: Resolvers, locked: Locked, git: Git
) -> None:
    locked("tool-echo", echo_uri)
    git("branch", "other")

    with pytest.raises(DriftError, match="@other"):
        resolver_with().resolve("tool-echo", echo_uri.replace("@main", "@other"))


def test_modules_of_one_repository_are_pinned_at_one_commit_and_kept_once(
    repository: Path, commit: Commit, module_code: str, resolver_with: Resolvers, home: Path
) -> None:
    for name in ("a", "b"):
        commit({f"modules/{name}/src/amplifier_module_tool_{name}/__init__.py": module_code})
    resolver = resolver_with()
    uris = {n: f"git+file://{repository}@main#subdirectory=modules/{n}" for n in ("a", "b")}
    first = resolver.pin("tool-a", uris["a"])
    commit({"later": "x"})
    second = resolver.pin("tool-b", uris["b"])

    assert (first.commit, first.sha256) == (second.commit, second.sha256)
    assert resolver.resolve("tool-b", uris["b"]).path.name == "b"
    assert [path.name for path in (home / "cache").iterdir()] == [first.sha256]


@pytest.mark.parametrize("ref", ["v1", "release/1", "FULL"])
def test_tags_branches_with_slashes_and_commits_are_references(
    echo_uri: str, git: Git, ref: str, resolver_with: Resolvers
) -> None:
    git("tag", "--annotate", "--message=x", "v1")
    git("branch", "release/1")
    full = git("rev-parse", "HEAD")

    pin = resolver_with().pin("tool-echo", echo_uri.replace("main", full if ref == "FULL" else ref))

    assert pin.commit == full


@pytest.mark.parametrize("change", ["@nowhere", "@main#subdirectory=nowhere"])
def test_what_is_not_there_is_said(echo_uri: str, resolver_with: Resolvers, change: str) -> None:
    with pytest.raises(FetchError, match="nowhere"):
        resolver_with().pin("tool-echo", echo_uri.replace("@main", change))


@pytest.mark.attack("S10")
def test_fetching_runs_nothing_of_the_repository(
    repository: Path,
    echo_uri: str,
    git: Git,
    commit: Commit,
    resolver_with: Resolvers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = tmp_path / "ran"
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho ran >> {ran}\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    attributes = "* filter=evil diff=evil text eol=crlf ident\n"
    modules = f'[submodule "x"]\n\tpath = x\n\turl = ext::{trap}\n'
    commit({".gitattributes": attributes, ".gitmodules": modules, "id.txt": "$Id$\n"})
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},x")
    git("commit", "--quiet", "--message=submodule")
    settings = {
        "core.fsmonitor": trap,
        "core.hooksPath": tmp_path,
        "filter.evil.smudge": trap,
        "diff.external": trap,
        "credential.helper": f"!{trap}",
        "uploadpack.packObjectsHook": trap,
        "core.sshCommand": trap,
    }
    for key, value in settings.items():
        git("config", key, str(value))
    for hook in ("post-checkout", "post-update", "reference-transaction", "pre-receive"):
        (tmp_path / hook).symlink_to(trap)
    # A person's own settings do not reach it either.
    (tmp_path / ".gitconfig").write_text((repository / ".git" / "config").read_text(), "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    ran.unlink(missing_ok=True)

    pin = resolver_with().pin("tool-echo", echo_uri)

    assert pin.commit == git("rev-parse", "main")
    assert not ran.exists()


def test_files_have_the_bytes_of_the_commit_and_links_lead_nowhere(
    repository: Path, echo_uri: str, commit: Commit, resolver_with: Resolvers
) -> None:
    (repository / "passwords").symlink_to("/etc/passwd")
    commit({".gitattributes": "* text eol=crlf ident\n", "id.txt": "$Id$\n"})
    resolver = resolver_with()
    resolver.pin("tool-echo", echo_uri)

    path = resolver.resolve("tool-echo", echo_uri).path

    assert (path / "id.txt").read_bytes() == b"$Id$\n"
    assert not (path / "passwords").is_symlink()
    assert (path / "passwords").read_text(encoding="utf-8") == "/etc/passwd"


@pytest.mark.attack("review H2")
@pytest.mark.parametrize(
    "names", [("A.py", "a.py"), ("src/a", "SRC/b"), ("x\\y",), ("a\nb",), ("d/" * 60 + "x",)]
)
def test_a_repository_with_one_bad_name_is_rejected_whole(
    echo_uri: str, commit: Commit, resolver_with: Resolvers, home: Path, names: tuple[str, ...]
) -> None:
    commit(dict.fromkeys(names, "x"))

    with pytest.raises(RejectedArchiveError):
        resolver_with().pin("tool-echo", echo_uri)

    assert list((home / "cache").iterdir()) == []


@pytest.mark.attack("U3")
@pytest.mark.parametrize("limits", [Limits(files=2), Limits(bytes=100_000)])
def test_a_repository_larger_than_the_limits_leaves_nothing_behind(
    echo_uri: str, commit: Commit, resolver_with: Resolvers, home: Path, limits: Limits
) -> None:
    commit({"zeros": "0" * 200_000, "more": "x", "most": "y"})

    with pytest.raises(FetchError, match="more than 2 files|larger than 100,000 bytes"):
        resolver_with(limits=limits).pin("tool-echo", echo_uri)

    assert list((home / "cache").iterdir()) == []


@pytest.fixture
def stubborn_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `git` that never ends, with a child of its own; both write their ids to a file."""
    programs, ids = tmp_path / "bin", tmp_path / "ids"
    programs.mkdir()
    script = f"#!/bin/sh\nsleep 600 &\necho $! $$ > {ids}\nwait\n"
    (programs / "git").write_text(script, encoding="utf-8")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return ids


def has_text(file: Path) -> bool:
    """Tell whether a file is there and not empty."""
    return file.exists() and file.stat().st_size > 0


def has_ended(process: int) -> bool:
    """Tell whether a process ends soon: one that was killed may still be on its way out."""
    try:
        end = end_of(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([end], [], [], 5)[0])
    finally:
        os.close(end)


def test_a_fetch_that_takes_too_long_is_ended_with_all_its_processes_and_told_meanwhile(
    resolver_with: Resolvers, stubborn_git: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time passes only when git has started: on a busy machine that can take seconds.
    readings = itertools.count(step=0.4)
    clock = SimpleNamespace(monotonic=lambda: next(readings) if has_text(stubborn_git) else 0.0)
    monkeypatch.setattr(fetch, "time", clock)
    told: list[Progress] = []
    resolver = resolver_with(limits=Limits(seconds=1.5), progress=told.append)

    with pytest.raises(FetchError, match=r"longer than 1\.5 seconds"):
        resolver.pin("tool-echo", "git+https://localhost/o/r@main")

    assert list((home / "cache").iterdir()) == []
    assert told[0].seconds > 1
    assert [each.done for each in told] == [False] * (len(told) - 1) + [True]
    for process in stubborn_git.read_text(encoding="utf-8").split():
        assert has_ended(int(process)), process


def test_a_machine_without_git_is_told_so(
    resolver_with: Resolvers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(FetchError, match="no `git`"):
        resolver_with().pin("tool-echo", "git+https://localhost/o/r@main")


def test_processes_that_fetch_the_same_at_once_all_get_it_whole(
    echo_uri: str, locked: Locked, home: Path, project: Path, tmp_path: Path
) -> None:
    locked("tool-echo", echo_uri)
    fresh = tmp_path / "fresh"
    program = (
        "import sys; from pathlib import Path\n"
        "from amplifier_foundation.sources import Lock, SourceResolver\n"
        f"resolver = SourceResolver(Path({str(fresh)!r}), base=Path({str(project)!r}),"
        f" lock=Lock.read(Path({str(project / 'amplifier.lock')!r})))\n"
        f"print(resolver.resolve('tool-echo', {echo_uri!r}).path)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = {process.communicate(timeout=60)[0].strip() for process in running}

    sha256 = Lock.read(project / "amplifier.lock").modules["tool-echo"].sha256
    assert answers == {str(fresh / "cache" / sha256)}
    assert [path.name for path in (fresh / "cache").iterdir()] == [sha256]
