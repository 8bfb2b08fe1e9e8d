"""A contained program cannot change what this process runs from, nor see its keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.sandbox import Sandbox

# What the README of tool-bash offers to those who want commands to commit.
COMMITTING = (".git/hooks", ".git/config", ".amplifier")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def git(workspace: Path, *arguments: str) -> str:
    """Run git as anybody would, outside the sandbox."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(workspace), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.attack("review H1")
def test_code_in_the_workspace_is_read_only_and_cannot_be_moved(
    bubblewrap: Sandbox, run: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = workspace / "packages" / "own" / "src"
    source.mkdir(parents=True)
    (source / "own.py").write_text("original\n", "utf-8")
    monkeypatch.setattr(sys, "path", [str(source), *sys.path])

    rename = "python3 -c 'import os, sys; os.rename(*sys.argv[1:])'"
    done = run(
        bubblewrap,
        "cat packages/own/src/own.py; echo x > packages/own/src/own.py; "
        f"{rename} packages/own packages/other; {rename} packages other; "
        "ln packages/own/src/own.py linked; echo x > packages/own/free",
        protected=(),
    )

    assert done.stdout == "original\n"
    assert done.stderr.count("busy") == 2
    assert (source / "own.py").read_text("utf-8") == "original\n"
    assert names(workspace) == ["packages"]
    assert (workspace / "packages" / "own" / "free").exists()


@pytest.mark.attack("review H1")
def test_code_in_a_folder_that_is_given_besides_the_workspace_is_read_only_too(
    bubblewrap: Sandbox, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "extra" / "src").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "extra" / "src"), *sys.path])

    run(bubblewrap, f"cd {tmp_path}/extra; touch src/x; touch y", writable=[tmp_path / "extra"])

    assert names(tmp_path / "extra") == ["src", "y"]
    assert names(tmp_path / "extra" / "src") == []


@pytest.mark.attack("review M9")
def test_our_home_is_empty_inside_a_folder_that_may_be_read(
    bubblewrap: Sandbox, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "shared" / "state"
    home.mkdir(parents=True)
    (home / "credentials.yaml").write_text("secret", "utf-8")
    monkeypatch.setenv("AMPLIFIER_HOME", str(home))

    done = run(
        bubblewrap,
        f"cd {home} && ls -A; cat {home}/credentials.yaml; touch {home}/x",
        read_only=[tmp_path / "shared"],
    )

    assert done.stdout == ""
    assert "Read-only file system" in done.stderr
    assert names(home) == ["credentials.yaml"]


@pytest.mark.attack("review M9")
@pytest.mark.parametrize("place", ["state", "deep/state"])
def test_a_workspace_with_our_home_in_it_is_refused_whether_it_is_there_or_not(
    bubblewrap: Sandbox, run: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (workspace / "state").mkdir()
    monkeypatch.setenv("AMPLIFIER_HOME", str(workspace / place))

    with pytest.raises(SandboxError, match="own keys, settings and logs"):
        run(bubblewrap, f"mkdir -p {place}; echo x > {place}/settings.yaml", protected=())

    assert names(workspace) == ["state"]


@pytest.mark.attack("review H1")
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_a_workspace_that_the_program_runs_from_is_refused(
    run: Any,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    request: pytest.FixtureRequest,
) -> None:
    sandbox: Sandbox = request.getfixturevalue(level)
    monkeypatch.setattr(sys, "path", [*sys.path, str(workspace)])

    with pytest.raises(SandboxError, match="python -P"):
        run(sandbox, "true", protected=())


@pytest.mark.attack("review H1")
def test_landlock_refuses_where_code_is_in_the_workspace(
    landlock: Sandbox, run: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(workspace / "src"), *sys.path])

    with pytest.raises(SandboxError, match="install bubblewrap"):
        run(landlock, "true", protected=())


@pytest.mark.attack("review H1")
@pytest.mark.parametrize("protected", [COMMITTING, ()])
def test_commands_can_commit_but_not_say_what_git_runs(
    bubblewrap: Sandbox, run: Any, workspace: Path, protected: tuple[str, ...]
) -> None:
    git(workspace, "init", "-q")
    (workspace / "file").write_text("text", "utf-8")
    before = (workspace / ".git" / "config").read_bytes()
    kept = names(workspace / ".git")

    done = run(
        bubblewrap,
        "git add file && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline; "
        "git config core.pager evil; echo x > .git/config; echo x > .git/hooks/pre-commit; "
        "echo x > .git/commondir; echo x > .git/config.worktree; echo x > .git/info/attributes; "
        "mkdir -p .git/modules/x; mv .git other; rm .git/config",
        protected=protected,
    )

    assert done.stdout.endswith(" one\n"), done.stderr
    assert git(workspace, "log", "--format=%s") == "one\n"
    assert (workspace / ".git" / "config").read_bytes() == before
    assert not (workspace / ".git" / "hooks" / "pre-commit").exists()
    assert set(names(workspace / ".git")) - set(kept) == {"COMMIT_EDITMSG", "index", "logs"}


@pytest.mark.attack("review H1")
def test_the_hooks_that_a_repository_names_are_read_only(
    bubblewrap: Sandbox, run: Any, workspace: Path
) -> None:
    git(workspace, "init", "-q")
    git(workspace, "config", "core.hooksPath", ".husky")
    (workspace / ".husky").mkdir()
    (workspace / ".husky" / "pre-commit").write_text("true\n", "utf-8")

    run(bubblewrap, "echo evil > .husky/pre-commit; rm -rf .husky; touch here")

    assert (workspace / ".husky" / "pre-commit").read_text("utf-8") == "true\n"
    assert (workspace / "here").exists()
