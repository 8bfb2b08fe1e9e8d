"""A session whose modules are not installed is replayed with them, as they are pinned."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# Each starts the command several times.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

# As the published modes work: a tool changes what the session keeps, and a hook acts on it.
_TOOL = """
from amplifier_core import ToolResult

class Mode:
    name = "mode"
    description = "Sets a mode."
    input_schema = {"type": "object", "properties": {}}

    def __init__(self, state):
        self.state = state

    async def execute(self, input):
        self.state["active_mode"] = "plan"
        return ToolResult(success=True, output="set")

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Mode(coordinator.session_state), name="mode")
"""
_HOOK = """
import datetime

from amplifier_core import HookResult

async def mount(coordinator, config=None):
    state = coordinator.session_state
    state["finder"] = object()

    async def tell(event, data):
        told = f"It is {datetime.datetime.now():%Y-%m-%d %H:%M:%S}, mode {state.get('active_mode')}"
        return HookResult(action="inject_context", context_injection=told, ephemeral=True)

    async def guard(event, data):
        if state.get("active_mode") == "plan" and data["tool_name"] == "write_file":
            return HookResult(action="deny", reason="This is a plan.")
        return HookResult()

    coordinator.hooks.register("provider:request", tell, name="mode")
    coordinator.hooks.register("tool:pre", guard, name="mode")
"""


@pytest.fixture
def modes(home: Path, tmp_path: Path) -> None:
    """Write the two modules, and a bundle of the user's own that names them."""
    for name, source in (("tool-mode", _TOOL), ("hooks-mode", _HOOK)):
        package = f"amplifier_module_{name.replace('-', '_')}"
        folder = tmp_path / "elsewhere" / name
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text(source, encoding="utf-8")
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "1"\n'
            f'[project.entry-points."amplifier.modules"]\n{name} = "{package}:mount"\n',
            encoding="utf-8",
        )
    write = {"name": "write_file", "arguments": {"file_path": "a.txt", "content": "x"}}
    script = [
        {"tool_calls": [{"name": "mode", "arguments": {}}]},
        {"tool_calls": [write]},
        "Done.",
    ]
    bundle = {
        "bundle": {"name": "own"},
        "includes": ["default"],
        "providers": [{"module": "provider-mock", "config": {"script": script}}],
        "tools": [{"module": "tool-mode", "source": str(tmp_path / "elsewhere" / "tool-mode")}],
        "hooks": [{"module": "hooks-mode", "source": str(tmp_path / "elsewhere" / "hooks-mode")}],
    }
    (home / "bundles").mkdir(parents=True)
    (home / "bundles" / "own.yaml").write_text(json.dumps(bundle), encoding="utf-8")


@pytest.mark.usefixtures("modes")
def test_modules_with_a_source_act_in_the_replay_as_they_did(
    amplifier: Command, home: Path, project: Path
) -> None:
    run = amplifier("run", "-b", "own", "--allow", "mode", "--allow", "write_file", "plan it")
    assert run.stdout == "Done.\n", run.stderr
    assert not (project / "a.txt").exists()

    replayed = amplifier("session", "replay", "last")

    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "replayed without a difference" in replayed.stdout
    (log,) = home.rglob("log.jsonl")
    records = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    states = [each["data"]["values"] for each in records if each["kind"] == "state"]
    assert states[-1]["active_mode"] == "plan"
    assert "finder" not in states[-1]


@pytest.mark.usefixtures("modes")
def test_a_replay_without_its_modules_says_what_to_do(
    amplifier: Command, home: Path, tmp_path: Path
) -> None:
    amplifier("run", "-b", "own", "--allow", "mode", "--allow", "write_file", "plan it")
    (home / "bundles" / "own.yaml").unlink()

    replayed = amplifier("session", "replay", "last")

    assert replayed.returncode == 2
    assert "There is no bundle `own`" in replayed.stderr
    assert "Traceback" not in replayed.stderr
