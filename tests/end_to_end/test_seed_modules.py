"""The modules of the module contracts, as written there, used as a user of the command would.

Each project is put together from the contracts' own blocks. It is named by its path, installed,
taken from a `source` and validated with the commands that the contracts show.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from contract.requirements import requirement
from contract.seed_modules import KINDS, write_project
from contract.seeds import BLOCKS

_AMPLIFIER = str(Path(sys.executable).with_name("amplifier"))
_PLAIN = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock"}],
}
_SECTIONS = {"tool": "tools", "provider": "providers", "hook": "hooks"}
_VALIDATIONS = ("S1:419", "S1:625", "S1:947", "S1:1318", "S1:1973")


class Answer(NamedTuple):
    """What a prompt is answered with when the module of a kind takes part."""

    prompt: str
    text: str
    needs: tuple[str, ...] = ()


_WORKED = r"\[mock\] I called my_tool and got: worked on use my_tool for hello"
ANSWERS = {
    "tool": Answer("use my_tool for hello", _WORKED),
    "provider": Answer("hello", r"model-v1 answers\."),
    "hook": Answer("use my_tool on /etc/passwd", ".*got: .*Access denied", ("tool",)),
    "orchestrator": Answer("use my_tool for hello", f"my-orchestrator: {_WORKED}", ("tool",)),
    "context": Answer("use my_tool for hello", _WORKED, ("tool",)),
}


class User:
    """Somebody with the command, a home and a project folder in which the five modules are."""

    def __init__(self, folder: Path, compiled: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        (self.home / "bundles").mkdir(parents=True)
        self.project.mkdir()
        kept = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        own = {"HOME": str(folder), "AMPLIFIER_HOME": str(self.home), "MY_API_KEY": "not-a-key"}
        # Where compiled files are kept, as on a machine where the command is installed.
        self.environment = {**kept, **own, "PYTHONPYCACHEPREFIX": str(compiled)}

    def amplifier(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Type a command in the project's folder."""
        return self.shell([_AMPLIFIER, *arguments], **environment)

    def shell(self, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Run any program in the project's folder."""
        return subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    def write_bundle(self, name: str, content: dict[str, Any]) -> None:
        """Write a bundle of the user's own."""
        path = self.home / "bundles" / f"{name}.yaml"
        path.write_text(json.dumps({"bundle": {"name": name}, **content}), encoding="utf-8")

    def mounted(self) -> dict[str, str]:
        """Return the modules of the newest session and their states, as its log has them."""
        logs = sorted(self.home.rglob("log.jsonl"), key=lambda each: each.stat().st_mtime_ns)
        records = map(json.loads, logs[-1].read_text(encoding="utf-8").splitlines())
        opened = next(each["data"] for each in records if each["kind"] == "session.opened")
        return {each["module_id"]: each["state"] for each in opened["modules"]}


@pytest.fixture
def user(tmp_path: Path, compiled: Path) -> User:
    found = User(tmp_path, compiled)
    found.write_bundle("plain", _PLAIN)
    return found


@pytest.fixture
def five(user: User) -> User:
    """A user who has written the five modules of the contracts."""
    for kind in KINDS:
        write_project(user.project, kind)
    return user


def require_answer(user: User, kind: str, done: subprocess.CompletedProcess[str]) -> None:
    """Check that the module took part: the answer shows it, or the log of the session."""
    # The hook of the contracts denies a call, which ends a run without a terminal with 3.
    assert done.returncode == (3 if kind == "hook" else 0), done.stderr
    assert re.fullmatch(ANSWERS[kind].text, done.stdout.strip()), done.stdout
    assert user.mounted()[f"my-{kind}"] == "mounted"


@requirement("VALID-23")
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_as_the_contracts_show_it_runs_from_its_path(five: User, kind: str) -> None:
    answer = ANSWERS[kind]
    modules = [part for each in (kind, *answer.needs) for part in ("--module", f"./my-{each}")]

    done = five.amplifier("run", "-b", "plain", *modules, answer.prompt)

    require_answer(five, kind, done)


@pytest.mark.parametrize("root", ["", pytest.param("src", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_as_the_contracts_show_it_runs_from_a_source(
    user: User, kind: str, root: str
) -> None:
    answer = ANSWERS[kind]
    bundle: dict[str, Any] = json.loads(json.dumps(_PLAIN))
    for each in (kind, *answer.needs):
        entry = {"module": f"my-{each}", "source": str(write_project(user.project, each, root))}
        if each in _SECTIONS:
            # The last tool and hook do not matter, the first provider answers.
            bundle[_SECTIONS[each]] = [entry]
        else:
            bundle["session"][each] = entry
    user.write_bundle("sourced", bundle)

    done = user.amplifier("run", "-b", "sourced", answer.prompt)

    require_answer(user, kind, done)


@pytest.mark.slow
def test_modules_as_the_contracts_show_them_run_when_they_are_installed(five: User) -> None:
    installed = five.home / "installed"
    projects = [f"./my-{kind}" for kind in KINDS]
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    pip = five.shell(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(installed), *projects]
    )
    assert pip.returncode == 0, pip.stderr

    for kind in KINDS:
        answer = ANSWERS[kind]
        modules = [part for each in (kind, *answer.needs) for part in ("--module", f"my-{each}")]
        path = str(installed)
        done = five.amplifier("run", "-b", "plain", *modules, answer.prompt, PYTHONPATH=path)
        require_answer(five, kind, done)

    listed = five.amplifier("module", "list", PYTHONPATH=str(installed)).stdout
    validated = five.amplifier("module", "validate", "my-tool", PYTHONPATH=str(installed))
    assert all(f"my-{kind}" in listed for kind in KINDS)
    assert validated.returncode == 0, validated.stdout + validated.stderr


_ALL_OF_THEM = """
import asyncio, json, sys
from amplifier_core import AmplifierSession
from amplifier_core.loader import ModuleLoader

async def main():
    async with AmplifierSession(json.loads(sys.argv[1]), loader=ModuleLoader()) as session:
        print(await session.execute("use my_tool on /etc/passwd"))

asyncio.run(main())
"""


def test_the_kernel_alone_finds_them_all_in_a_search_path(five: User) -> None:
    plan = {
        "session": {"orchestrator": "my-orchestrator", "context": "my-context"},
        "providers": [{"module": "provider-mock"}],
        "tools": [{"module": "my-tool", "required": True}],
        "hooks": [{"module": "my-hook", "required": True}],
    }

    done = five.shell(
        [sys.executable, "-c", _ALL_OF_THEM, json.dumps(plan)],
        AMPLIFIER_MODULES=str(five.project),
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "my-orchestrator: [mock] I called my_tool and got: Access denied\n"


@pytest.mark.slow
@requirement("VALID-23", "SONE-419", "SONE-625", "SONE-947", "SONE-1318", "SONE-1973")
@pytest.mark.parametrize("name", _VALIDATIONS)
def test_the_validation_commands_of_the_contracts_succeed(five: User, name: str) -> None:
    command = BLOCKS[name].text
    folder = Path(_AMPLIFIER).parent

    done = five.shell(
        ["bash", "-c", command], PATH=f"{folder}{os.pathsep}{os.environ['PATH']}", MY_API_KEY=""
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "structure" in done.stdout
    assert "failed" not in done.stdout


@pytest.mark.slow
@requirement("VALID-23", "SONE-96")
def test_the_plain_validation_command_of_the_contracts_succeeds(user: User) -> None:
    folder = write_project(user.project, "tool")
    project = (folder / "pyproject.toml").read_text(encoding="utf-8")
    module = folder.rename(user.project / "my-module")
    named = project.replace('my-tool = "', 'my-module = "')
    (module / "pyproject.toml").write_text(named, encoding="utf-8")
    path = f"{Path(_AMPLIFIER).parent}{os.pathsep}{os.environ['PATH']}"

    done = user.shell(["bash", "-c", BLOCKS["S1:96"].text], PATH=path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "my-module (tool)" in done.stdout
