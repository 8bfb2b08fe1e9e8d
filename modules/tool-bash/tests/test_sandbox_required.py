"""Without a sandbox nothing runs, unless the configuration says so in so many words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_tool_bash import BashTool, mount
from amplifier_module_tool_bash.config import UNPROTECTED, BashConfig
from amplifier_sandbox.processes.sandbox import Sandbox


async def events_of(coordinator: Any, name: str) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []

    async def hear(event: str, data: dict[str, Any]) -> None:
        heard.append(data)

    coordinator.hooks.register(name, hear)
    return heard


@pytest.mark.attack("S9")
async def test_without_a_sandbox_every_call_is_refused_with_the_reason(
    coordinator: MockCoordinator, workspace: Path
) -> None:
    reasons = ("bubblewrap is not installed in /usr/bin", "the kernel has no Landlock")
    settings = BashConfig(working_dir=str(workspace))
    tool = BashTool(settings, Sandbox("none", reasons=reasons), coordinator)
    heard = await events_of(coordinator, "sandbox:degraded")

    result = await tool.execute({"command": "touch ran"})

    assert not result.success
    assert result.error is not None
    assert all(reason in result.error["message"] for reason in reasons)
    assert not (workspace / "ran").exists()
    assert [event["level"] for event in heard] == ["none"]


@pytest.mark.attack("S9")
async def test_a_bwrap_in_the_path_is_not_the_one_that_runs(
    mounted: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = workspace / "bwrap"
    planted.write_text("#!/bin/sh\ntouch /planted-bwrap-ran; touch ran\n", "utf-8")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{workspace}:{os.environ['PATH']}")
    monkeypatch.chdir(workspace)

    result = await (await mounted()).execute({"command": "echo contained"})

    assert result.output["stdout"] == "contained\n"
    assert not (workspace / "ran").exists()


@pytest.mark.attack("S9")
async def test_landlock_does_not_pretend_to_protect_paths(
    coordinator: MockCoordinator, workspace: Path
) -> None:
    sandbox = Sandbox.detect(folders=())
    settings = BashConfig(working_dir=str(workspace))

    result = await BashTool(settings, sandbox, coordinator).execute({"command": "touch ran"})

    assert sandbox.level == "landlock"
    assert result.error is not None
    assert "protect no paths" in result.error["message"]
    assert not (workspace / "ran").exists()


async def test_landlock_runs_commands_when_no_path_is_protected(
    coordinator: MockCoordinator, workspace: Path
) -> None:
    settings = BashConfig(working_dir=str(workspace), protected_paths=[])
    tool = BashTool(settings, Sandbox.detect(folders=()), coordinator)
    heard = await events_of(coordinator, "sandbox:degraded")

    result = await tool.execute({"command": "echo x > mine; cat mine; echo x > ../outside/planted"})

    assert result.output is not None
    assert result.output["stdout"] == "x\n"
    assert "Permission denied" in result.output["stderr"]
    assert [path.name for path in (workspace.parent / "outside").iterdir()] == ["witness"]
    assert [event["level"] for event in heard] == ["landlock"]


@pytest.mark.parametrize("word", ["off", False, None, "none", "off: run commands unprotecte"])
def test_protection_cannot_be_waived_in_fewer_words(word: Any) -> None:
    with pytest.raises(ValidationError, match="off: run commands unprotected"):
        BashConfig.model_validate({"sandbox": word})


async def test_unprotected_every_result_and_every_line_says_so(
    mounted: Any, coordinator: Any, processes_of: Callable[[], list[str]]
) -> None:
    tool = await mounted(sandbox=UNPROTECTED)
    heard = await events_of(coordinator, "sandbox:degraded")
    shown = coordinator.display_system.show_message
    assert "There is no sandbox" in shown.call_args.args[0]
    shown.reset_mock()

    results = [
        await tool.execute({"command": command}) for command in ("true", "sleep 300 & false")
    ]

    for result in results:
        assert result.get_serialized_output().startswith('{"warning": "UNPROTECTED: ')
    lines = [call.args[0] for call in shown.call_args_list]
    assert [line.startswith("A command runs without any protection") for line in lines] == [
        True
    ] * 2
    assert len(heard) == 2
    assert await wait_for(lambda: not processes_of(), timeout=120)


@pytest.mark.attack("S4")
async def test_even_unprotected_the_environment_is_scrubbed(mounted: Any) -> None:
    tool = await mounted(sandbox=UNPROTECTED)

    result = await tool.execute({"command": "env"})

    assert "ANTHROPIC" not in result.output["stdout"]


@pytest.mark.parametrize(
    "folder", ["/", "/etc", "/usr", "/proc/self", str(Path.home()), "/no/such/folder"]
)
async def test_a_workspace_that_gives_away_the_machine_is_refused(
    coordinator: MockCoordinator, folder: str
) -> None:
    cleanup = await mount(coordinator, {"working_dir": folder})

    result = await coordinator.get_mounted("tools")["bash"].execute({"command": "true"})
    await cleanup()

    assert not result.success
    assert "the workspace" in result.error["message"]


async def test_an_unknown_key_stops_the_mount() -> None:
    with pytest.raises(ValidationError, match="timeout"):
        await mount(MockCoordinator(), {"timeout": 3})
