"""A folder gets no program run by being looked at with git, nor by naming one git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from attacks.machine import Machine, write
from end_to_end.model_server import ModelServer, Said

LOOKING = ("git status", "git diff", "git log")


def git(folder: Path, *arguments: str) -> str:
    """Run git as the author of a folder would."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(machine: Machine) -> Path:
    """A repository with one commit, one change, and a script that leaves a trace."""
    project = machine.project
    script = machine.write("hidden.sh", "#!/bin/sh\necho $0 >> ran\ncat\n")
    script.chmod(0o755)
    machine.write("f.txt", "one\n")
    machine.write(".gitattributes", "*.txt filter=x diff=y\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "one")
    machine.write("f.txt", "one\ntwo\n")
    return project


def look(machine: Machine, *commands: str) -> list[str]:
    """Have the model run commands with nobody there to ask; return what each came to."""
    script = [Said(calls=[("bash", {"command": command})]) for command in commands]
    with ModelServer([*script, Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "what changed?")
        assert len(server.requests) > len(commands), done.stderr
        messages = server.requests[-1]["messages"]
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


@pytest.mark.attack("review M15")
def test_looking_at_an_untrusted_repository_runs_nothing_that_it_names(
    machine: Machine, repository: Path
) -> None:
    for key in ("diff.external", "filter.x.clean", "diff.y.textconv", "gpg.program"):
        git(repository, "config", key, "./hidden.sh")
    git(repository, "config", "log.showSignature", "true")

    results = look(machine, *LOOKING)

    assert not (repository / "ran").exists()
    assert all("by which git may run a program" in each for each in results), results


@pytest.mark.slow
@pytest.mark.attack("review M15")
@pytest.mark.parametrize(
    "settings",
    [
        {"filter.other.process": "./hidden.sh"},
        {"filter.x.clean": "./hidden.sh"},
        {"diff.y.textconv": "./hidden.sh"},
        {"diff.y.command": "./hidden.sh"},
        {"include.path": "../settings"},
    ],
)
def test_no_single_setting_runs_anything(
    machine: Machine, repository: Path, settings: dict[str, str]
) -> None:
    machine.write("settings", "[diff]\n\texternal = ./hidden.sh\n")
    machine.write(".gitattributes", "*.txt filter=x diff=y\n*.sh filter=other\n")
    for key, value in settings.items():
        git(repository, "config", key, value)
    (repository / "hidden.sh").touch()

    look(machine, *LOOKING)

    assert not (repository / "ran").exists()


@pytest.mark.slow
@pytest.mark.attack("review M15")
def test_the_settings_of_a_submodule_run_nothing(machine: Machine, repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    write(inner / "f.txt", "one\n")
    write(inner / ".gitattributes", "* filter=x\n")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "one")
    git(repository, "add", "inner")
    git(inner, "config", "filter.x.clean", f"touch {repository}/ran; cat")
    write(inner / "f.txt", "two\n")

    look(machine, *LOOKING)

    assert not (repository / "ran").exists()


@pytest.mark.slow
def test_an_ordinary_repository_is_looked_at_unasked(machine: Machine, repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://example.org/x.git")

    status, diff, log = look(machine, *LOOKING)

    assert "f.txt" in status
    assert "+two" in diff
    assert "one" in log


@pytest.mark.slow
@pytest.mark.attack("review H6")
def test_a_git_of_the_project_does_not_fetch_sources(machine: Machine) -> None:
    source = machine.user_home / "source"
    source.mkdir()
    git(source, "init", "-q")
    write(source / "bundle.yaml", "bundle: {name: fetched, version: 1.0.0}\n")
    git(source, "add", ".")
    git(source, "commit", "-qm", "one")
    for name in ("git", "ssh"):
        planted = machine.write(
            f".venv/bin/{name}", f"#!/bin/sh\ntouch {machine.project}/ran-planted\nexit 1\n"
        )
        planted.chmod(0o755)
    path = machine.environment["PATH"]
    machine.environment["PATH"] = f"{machine.project}/.venv/bin:.venv/bin:{path}"

    bundle = {
        "bundle": {"name": "x", "version": "1.0.0"},
        "tools": [{"module": "tool-x", "source": f"git+file://{source}@HEAD"}],
    }

    done = machine.amplifier(
        "module", "lock", "-b", str(write(machine.user_home / "x.yaml", bundle))
    )

    assert not (machine.project / "ran-planted").exists()
    assert not list(machine.user_home.rglob("ran-planted")), done.stderr
    assert "tool-x" in done.stdout, done.stderr
