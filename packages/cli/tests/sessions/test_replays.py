"""Replays of sessions with modules that are not installed, and with children."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
def use(home: Path, tmp_path: Path) -> Callable[..., None]:
    """Write the two modules, and have a bundle of the user's own name them beside a script."""
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

    def write(*script: Any, **more: Any) -> None:
        bundle = {
            "bundle": {"name": "own"},
            "includes": ["default"],
            "providers": [_mock(script)],
            "tools": [{"module": "tool-mode", "source": str(tmp_path / "elsewhere/tool-mode")}],
            "hooks": [{"module": "hooks-mode", "source": str(tmp_path / "elsewhere/hooks-mode")}],
            **more,
        }
        (home / "bundles").mkdir(parents=True)
        (home / "bundles" / "own.yaml").write_text(json.dumps(bundle), encoding="utf-8")

    return write


def _mock(script: Sequence[Any]) -> dict[str, Any]:
    return {"module": "provider-mock", "config": {"script": list(script)}}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def test_modules_with_a_source_act_in_the_replay_as_they_did(
    amplifier: Command, home: Path, project: Path, use: Callable[..., None]
) -> None:
    use(_call("mode"), _call("write_file", file_path="a.txt", content="x"), "Done.")
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


def test_a_replay_without_its_modules_says_what_to_do(
    amplifier: Command, home: Path, use: Callable[..., None]
) -> None:
    use("Done.")
    amplifier("run", "-b", "own", "plan it")
    (home / "bundles" / "own.yaml").unlink()

    replayed = amplifier("session", "replay", "last")

    assert replayed.returncode == 2
    assert "There is no bundle `own`" in replayed.stderr
    assert "Traceback" not in replayed.stderr


def test_a_child_that_read_what_is_not_trusted_replays_and_so_does_its_parent(
    amplifier: Command, project: Path, use: Callable[..., None]
) -> None:
    agent = {"description": "Looks.", "providers": [_mock([_call("mode"), "I looked."])]}
    script = (_call("task", prompt="Look.", agent="looker"), _call("bash", command="touch x"))
    use(*script, "Done.", agents={"looker": agent}, hooks=[])
    run = amplifier("run", "-b", "own", "--allow", "mode", "--allow", "bash", "have a look")
    # Nobody can be asked about it.
    assert "text from outside was read before" in run.stderr
    assert not (project / "x").exists()

    replayed = amplifier("session", "replay", "last")

    assert replayed.stdout.count("replayed without a difference") == 2, replayed.stdout


def test_a_session_with_a_budget_in_dollars_replays(amplifier: Command) -> None:
    run = amplifier("run", "--budget", "1", "hello")
    assert run.returncode == 0, run.stderr

    replayed = amplifier("session", "replay", "last")

    assert replayed.returncode == 0, replayed.stdout
