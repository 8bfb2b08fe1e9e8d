"""The home folder is not a project, and nobody else writes what Amplifier reads in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attacks.machine import Machine, write
from end_to_end.model_server import ModelServer, Said

SECRETS = {
    ".netrc": "machine git.corp login bob password hunter2hunter2",
    ".pgpass": "db.corp:5432:*:admin:Tr0ub4dor-and-3",
    ".ssh/config": "Host bastion.corp-internal",
    ".aws/credentials": "aws_secret_access_key = not-a-real-key-but-private",
    ".amplifier/projects/other/sessions/1/log.jsonl": "what was said in another project",
}


@pytest.fixture
def secrets(machine: Machine) -> dict[Path, str]:
    """Files of a user's home folder by their path, each with text that no model may get."""
    return {write(machine.user_home / name, f"{text}\n"): text for name, text in SECRETS.items()}


def looking_everywhere(secrets: dict[Path, str], folder: Path) -> Said:
    """Call every tool that looks, for each secret by both of its names."""
    calls: list[tuple[str, dict[str, Any]]] = []
    for path in secrets:
        calls.append(("read_file", {"file_path": str(path)}))
        if path.is_relative_to(folder):
            calls.append(("read_file", {"file_path": str(path.relative_to(folder))}))
        calls.append(("bash", {"command": f"cat {path}"}))
    pattern = "password|admin|bastion|private|another project"
    calls.append(("grep", {"pattern": pattern, "include_hidden": True, "include_ignored": True}))
    calls.append(("glob", {"pattern": "**/*", "include_hidden": True, "include_ignored": True}))
    calls.append(("list_directory", {"path": "."}))
    return Said(calls=calls)


def tool_results(server: ModelServer) -> str:
    """Return everything that tools returned to the model, as one text."""
    messages = server.requests[-1]["messages"]
    return "\n".join(str(each["content"]) for each in messages if each["role"] == "tool")


def require_nothing_seen(server: ModelServer, secrets: dict[Path, str]) -> None:
    """Fail when the model got a secret, or the name of a file that has one."""
    seen = tool_results(server)
    assert seen
    for text in secrets.values():
        assert text not in seen
    assert "id_ed25519.pub" not in seen


@pytest.mark.attack("M8")
def test_no_tool_reads_the_home_folder_that_a_session_is_started_in(
    machine: Machine, secrets: dict[Path, str]
) -> None:
    write(machine.user_home / ".ssh/id_ed25519.pub", "ssh-ed25519 AAAA")
    with ModelServer([looking_everywhere(secrets, machine.user_home), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "look around", cwd=machine.user_home)

        require_nothing_seen(server, secrets)
    assert done.returncode == 0
    assert "home folder, not a project" in done.stderr
    assert done.stdout.strip() == "done"


@pytest.mark.slow
@pytest.mark.attack("M8")
@pytest.mark.parametrize("where", ["above", "root", "link", "own folder", "inside of it"])
def test_no_tool_reads_the_home_folder_from_a_folder_that_leads_to_it(
    machine: Machine, secrets: dict[Path, str], tmp_path: Path, where: str
) -> None:
    folders = {
        "above": machine.user_home.parent,
        "root": Path("/"),
        "link": tmp_path / "link",
        "own folder": machine.home,
        "inside of it": machine.home / "projects" / "other",
    }
    folders["link"].symlink_to(machine.user_home)
    folder = folders[where]
    with ModelServer([looking_everywhere(secrets, folder), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "look around", cwd=folder)

        require_nothing_seen(server, secrets)
    assert "not a project" in done.stderr


@pytest.mark.slow
@pytest.mark.attack("M8")
def test_no_tool_reads_a_folder_that_contains_the_folder_of_keys(
    machine: Machine, secrets: dict[Path, str]
) -> None:
    inside = machine.project / "kept-here"
    inside.mkdir(mode=0o700)
    machine.environment["AMPLIFIER_HOME"] = str(inside)
    secrets[write(inside / "notes.txt", "private: a key")] = "private: a key"
    with ModelServer([looking_everywhere(secrets, machine.project), Said(["done"])]) as server:
        machine.use(server)
        machine.amplifier("run", "look around")

        require_nothing_seen(server, secrets)


@pytest.mark.slow
@pytest.mark.attack("M8")
def test_another_home_variable_does_not_open_the_home_folder_of_the_user(
    machine: Machine, secrets: dict[Path, str], tmp_path: Path
) -> None:
    """AMPLIFIER_HOME is in the real home folder here; HOME leads away from it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    machine.environment["HOME"] = str(elsewhere)
    with ModelServer([looking_everywhere(secrets, machine.user_home), Said(["done"])]) as server:
        machine.use(server)
        machine.amplifier("run", "look around", cwd=machine.user_home)

        require_nothing_seen(server, secrets)


@pytest.mark.slow
@pytest.mark.attack("M8")
def test_nothing_is_written_to_the_home_folder(machine: Machine) -> None:
    call = ("write_file", {"file_path": "notes.txt", "content": "hello"})
    with ModelServer([Said(calls=[call]), Said(["done"])]) as server:
        machine.use(server)
        machine.user_settings(
            {"modules": {"hooks": [{"module": "hooks-approval", "config": {"default": "allow"}}]}}
        )
        machine.amplifier("run", "write", cwd=machine.user_home)

        assert "not a project" in tool_results(server)
    assert not (machine.user_home / "notes.txt").exists()


def test_a_project_in_the_home_folder_is_read_as_ever(machine: Machine) -> None:
    machine.write("plan.txt", "the plan of the project")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"file_path": "plan.txt"}),
        ("grep", {"pattern": "plan"}),
    ]
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "look around")

        assert tool_results(server).count("the plan of the project") == 2
    assert "not a project" not in done.stderr
