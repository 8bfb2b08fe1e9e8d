"""Git is let to look at a repository unasked only where nothing in it can name a program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from amplifier_sandbox.own.git_settings import git_environment, objection_to_git

PLAIN = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\thooksPath = .husky/_
# a comment
[remote "origin"]
\turl = https://example.org/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "feature/x"]
\tremote = origin
\tmerge = refs/heads/feature/x
[user]
\tname = A B
[filter "lfs"]
\tclean = git-lfs clean -- %f
\tprocess = git-lfs filter-process
\trequired = true
[lfs]
\trepositoryformatversion = 0
[http "https://example.org/"]
\textraheader = AUTHORIZATION: basic x
"""
HOSTILE = [
    "[diff]\n\texternal = ./evil",
    "[diff] external = ./evil",
    "[DIFF]\n\tEXTERNAL = ./evil",
    '[diff "y"]\n\ttextconv = ./evil',
    '[diff "y"]\n\tcommand = ./evil',
    "[diff.y]\n\ttextconv = ./evil",
    '[filter "x"]\n\tclean = ./evil',
    '[filter "lfs"]\n\tclean = ./evil',
    '[filter "lfs"]\n\tprocess = git-lfs filter-process; ./evil',
    "[gpg]\n\tprogram = ./evil",
    '[gpg "ssh"]\n\tprogram = ./evil',
    "[core]\n\tsshCommand = ./evil",
    "[core]\n\tgitProxy = ./evil",
    "[core]\n\talternateRefsCommand = ./evil",
    "[include]\n\tpath = ../evil",
    '[includeIf "gitdir:x"]\n\tpath = ../evil',
    "[alias]\n\tx = !./evil",
    "[pager]\n\tlog = ./evil",
    "[credential]\n\thelper = !./evil",
    '[remote "o"]\n\tuploadpack = ./evil',
    '[remote "o"]\n\tpromisor = true',
    '[remote "o"]\n\tvcs = evil',
    '[hook "x"]\n\tcommand = ./evil',
    '[merge "x"]\n\tdriver = ./evil',
    '[submodule "x"]\n\tupdate = !./evil',
    '[trailer "x"]\n\tcommand = ./evil',
    "[extensions]\n\tpartialClone = o",
    "[gc]\n\trecentObjectsHook = ./evil",
    "[core]\n\teditor = a \\\n[diff]\n\texternal = ./evil",
    "=[diff]",
    "[unknown]\n\tkey = value",
    "[core]\x0b\n\tx = y",
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_an_ordinary_repository_is_let_pass(repository: Path) -> None:
    assert objection_to_git(repository) is None

    (repository / ".git" / "config").write_text(PLAIN, "utf-8")

    assert objection_to_git(repository) is None
    (repository / "deep").mkdir()
    assert objection_to_git(repository / "deep") is None


@pytest.mark.attack("review M15")
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", ["config", "config.worktree"])
def test_whatever_may_name_a_program_is_asked_about(
    repository: Path, hostile: str, name: str
) -> None:
    (repository / ".git" / name).write_text(f"{PLAIN}{hostile}\n", "utf-8")

    assert objection_to_git(repository) is not None
    (repository / "deep").mkdir()
    assert objection_to_git(repository / "deep") is not None


@pytest.mark.attack("review M15")
def test_settings_that_cannot_be_read_are_asked_about(repository: Path) -> None:
    (repository / ".git" / "config").write_bytes(b"[core]\n\tx = \xff\n")
    assert "cannot be read" in (objection_to_git(repository) or "")

    (repository / ".git" / "config").write_bytes(b"# " + b"x" * 1_000_001)
    assert "cannot be read" in (objection_to_git(repository) or "")


@pytest.mark.attack("review M15")
def test_a_repository_elsewhere_is_asked_about(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text("gitdir: ../x\n", "utf-8")
    assert "elsewhere" in (objection_to_git(other) or "")

    (other / ".git").unlink()
    (other / ".git").symlink_to("../.git")
    assert "elsewhere" in (objection_to_git(other) or "")

    (repository / ".git" / "commondir").write_text("../x", "utf-8")
    assert "elsewhere" in (objection_to_git(repository) or "")


@pytest.mark.attack("review M15")
def test_a_folder_that_is_a_repository_itself_is_asked_about(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path], check=True)

    assert "without a working folder" in (objection_to_git(tmp_path) or "")


@pytest.mark.attack("review M15")
def test_submodules_are_asked_about(repository: Path) -> None:
    inner = repository / "inner"
    subprocess.run(["git", "init", "-q", inner], check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = ["git", "-C", inner, *who, "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(commit, check=True)
    assert objection_to_git(repository) is None

    subprocess.run(["git", "-C", repository, "add", "inner"], check=True, capture_output=True)

    assert "submodules" in (objection_to_git(repository) or "")


@pytest.mark.attack("review M15")
@pytest.mark.parametrize("key", ["core.editor", "core.fsmonitor", "core.hooksPath"])
def test_a_program_in_a_setting_that_passes_is_not_run_under_our_environment(
    repository: Path, key: str
) -> None:
    program = repository / "programs" / "pre-commit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{repository}/was_run'\n", "utf-8")
    program.chmod(0o755)
    named = program.parent if key == "core.hooksPath" else program
    subprocess.run(["git", "-C", repository, "config", key, named], check=True)
    assert objection_to_git(repository) is None

    environment = {"PATH": os.environ["PATH"], "HOME": str(repository), **git_environment()}
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = ["git", "-C", repository, *who, "commit", "--allow-empty"]
    subprocess.run(commit, env=environment, capture_output=True, check=False)

    assert not (repository / "was_run").exists()
