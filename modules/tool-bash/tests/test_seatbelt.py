"""Commands on macOS: through a `sandbox-exec` that records its arguments and confines nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_tool_bash import BashTool
from amplifier_module_tool_bash.boundary_hints import boundary_hint
from linux_masks import mask_as_macos

Recorded = Callable[[], list[str]]


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A system that has what macOS has; returns the arguments of its `sandbox-exec`."""
    return mask_as_macos(monkeypatch, tmp_path_factory.mktemp("system"))


def parameters(arguments: list[str]) -> dict[str, str]:
    """Return the parameters of a profile."""
    pairs = zip(arguments, arguments[1:], strict=False)
    return dict(value.split("=", 1) for option, value in pairs if option == "-D")


@pytest.fixture
async def tool(macos: Recorded, mounted: Any) -> BashTool:
    return await mounted()


async def run(tool: BashTool, command: str, **more: Any) -> dict[str, Any]:
    """Run one command as a loop does, and return what is reported."""
    call = {"command": command, **more}
    await tool.widenings(call)
    async with asyncio.timeout(60):
        result = await tool.execute(call)
    assert result.output is not None, result.error
    return result.output


async def test_a_command_runs_by_the_profile_of_its_workspace(
    tool: BashTool, macos: Recorded, workspace: Path
) -> None:
    output = await run(tool, "echo $((6*7)); pwd; exit 5")

    assert output["stdout"] == f"42\n{workspace}\n"
    assert output["exit_code"] == 5
    given = macos()
    assert given[0] == "-p"
    assert "(deny default)" in given[1]
    assert given[-5:-1] == ["/bin/bash", "--noprofile", "--norc", "-c"]
    found = parameters(given)
    assert found["WRITABLE_0"] == str(workspace)
    assert str(workspace / ".git") in found.values()


async def test_the_home_is_the_real_folder_and_lasts_and_the_temporary_one_does_not(
    tool: BashTool, amplifier_home: Path
) -> None:
    first = await run(
        tool, 'echo kept >"$HOME/file"; echo gone >"$TMPDIR/file"; echo $HOME $TMPDIR'
    )
    second = await run(tool, 'cat "$HOME/file"; ls "$TMPDIR"; echo $TMPDIR')

    home, temporary = first["stdout"].split()
    assert Path(home).is_relative_to(amplifier_home)
    assert second["stdout"].splitlines()[0] == "kept"
    assert second["stdout"].splitlines()[1:] != [temporary]
    assert not os.path.exists(temporary)  # noqa: PTH110, ASYNC240 - a short look


async def test_no_environment_of_the_user_reaches_a_command(tool: BashTool) -> None:
    output = await run(tool, "env")

    assert "sk-witness" not in output["stdout"]
    assert "PROXY" not in output["stdout"]


async def test_a_network_that_was_granted_is_one_port_of_localhost(
    tool: BashTool, macos: Recorded
) -> None:
    closed = await run(tool, "true")
    assert closed["exit_code"] == 0
    assert "network-outbound" not in macos()[1]

    opened = await run(tool, "echo $HTTPS_PROXY", network=["example.org"], reason="to look")

    port = opened["stdout"].strip().rpartition(":")[2]
    assert f'(allow network-outbound (remote ip "localhost:{port}"))' in macos()[1]
    assert macos()[1].count("network-") == 1


async def test_a_command_that_takes_too_long_ends_with_all_of_its_group(
    tool: BashTool, processes_of: Callable[[], list[str]]
) -> None:
    output = await run(tool, "sleep 300 & sleep 301", timeout_seconds=1)

    assert "was stopped after" in output["trouble"]
    await wait_for(lambda: not [each for each in processes_of() if "sleep" in each])


async def test_a_process_that_left_the_group_ends_with_the_command_it_belongs_to(
    tool: BashTool, processes_of: Callable[[], list[str]]
) -> None:
    output = await run(tool, "setsid -w sleep 302", timeout_seconds=1)

    assert "was stopped after" in output["trouble"]
    await wait_for(lambda: not [each for each in processes_of() if "sleep" in each])


async def test_a_background_command_ends_with_its_session(
    mounted: Any, macos: Recorded, coordinator: MockCoordinator, workspace: Path
) -> None:
    tool = await mounted()
    call = {"command": "echo $$ >pid; exec sleep 300", "background": True, "reason": "a server"}
    await tool.widenings(call)
    started = await tool.execute(call)
    assert started.success, started.error
    process = int((workspace / "pid").read_text("utf-8"))
    os.kill(process, 0)

    stop = {"operation": "stop", "job": "job-1"}
    await coordinator.get_mounted("tools")["bash_jobs"].execute(stop)

    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_a_command_that_uses_too_much_memory_is_stopped(
    mounted: Any, macos: Recorded
) -> None:
    tool = await mounted(memory_bytes=64 * 1024**2)

    output = await run(tool, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 60")

    assert "bytes of memory" in output["trouble"]


async def test_the_model_is_told_what_is_different(tool: BashTool) -> None:
    assert "no localhost" in tool.description
    assert "TMPDIR is empty" in tool.description


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("touch: /x: Operation not permitted", "outside of the workspace"),
        ("fatal: Unable to create '.git/index.lock': Operation not permitted", "To commit"),
    ],
)
def test_a_denial_is_recognised_as_the_boundary(said: str, hint: str) -> None:
    assert hint in (boundary_hint({}, said, "make", [], denies=True) or "")
    assert boundary_hint({}, said, "make", []) is None
