"""Limits that all commands of a session and of its sub-agents share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import wait_for


def plan_for(workspace: Path, **config: Any) -> dict[str, Any]:
    settings = {"working_dir": str(workspace), "ask": False, **config}
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock"}],
        "tools": [{"module": "tool-bash", "config": settings}],
    }


@pytest.mark.attack("review M1")
async def test_a_forked_session_shares_the_limits_of_the_first_one(workspace: Path) -> None:
    plan = plan_for(workspace, parallel_commands=1, timeout_seconds=8, max_timeout_seconds=8)
    async with asyncio.timeout(120), AmplifierSession(plan) as session:
        child = session.fork({})
        async with child:
            waits = "touch started; until [ -e go ]; do sleep 0.02; done"
            first: Any = session.coordinator.get("tools", "bash")
            second: Any = child.coordinator.get("tools", "bash")
            running = asyncio.create_task(first.execute({"command": waits}))
            assert await wait_for((workspace / "started").exists, timeout=120)

            refused = await second.execute({"command": "touch ran"})
            (workspace / "go").touch()
            ended = await running
            allowed = await second.execute({"command": "true"})

    assert "1 other commands of this session still ran" in refused.error["message"]
    assert not (workspace / "ran").exists()
    assert ended.success
    assert allowed.success


@pytest.mark.attack("review L6")
async def test_a_command_that_fills_the_disk_is_stopped_with_a_message_and_an_event(
    mounted: Any, coordinator: Any
) -> None:
    heard: list[dict[str, Any]] = []

    async def hear(event: str, data: dict[str, Any]) -> None:
        heard.append(data)

    coordinator.hooks.register("sandbox:stopped", hear)
    tool = await mounted(max_disk_bytes=32 * 1024**2, keep_free_bytes=0)

    # It exceeds the limit even if another program deletes files on this disk meanwhile.
    fill = "for n in {1..200}; do fallocate -l 20M full.$n; sleep 0.1; done"
    stopped = await tool.execute({"command": fill})
    full = await tool.execute({"command": "rm full.1; echo text > file"})
    removed = await tool.execute({"command": "rm full.*"})
    again = await tool.execute({"command": "echo text > file"})

    message = stopped.error["message"]
    assert "33,554,432 bytes (`max_disk_bytes`)" in message
    assert len(message.splitlines()) == 3
    assert "max_disk_bytes" in heard[0]["reason"]
    assert "wrote more than 0 bytes to a file" in full.error["message"]
    assert removed.success
    assert again.success


@pytest.mark.attack("review L6")
async def test_a_file_that_is_larger_than_all_that_may_be_added_cannot_be_made(
    mounted: Any, workspace: Path
) -> None:
    tool = await mounted(max_disk_bytes=1024**2)

    result = await tool.execute({"command": "head -c 2000000 /dev/zero > large"})

    assert "wrote more than 1,048,576 bytes to a file" in result.error["message"]
    assert (workspace / "large").stat().st_size == 1024**2


@pytest.mark.attack("review M1")
@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("tail -n 1 /dev/zero", True),
        ("tail --lines=1 --pid=/proc/1", True),
        ("cat -f/dev/urandom", True),
        ("cat link", True),
        ("cat pipe", True),
        ("cat /*", True),
        ("cat file *.txt /dev/null", False),
        ("ls . sub 2>/dev/null", False),
    ],
)
async def test_what_may_have_no_end_is_asked_about_whatever_the_rules_allow(
    command: str, asked: bool, mounted: Any, coordinator: Any, workspace: Path
) -> None:
    (workspace / "link").symlink_to("/dev/zero")
    (workspace / "file").touch()
    (workspace / "sub").mkdir()
    process = await asyncio.create_subprocess_exec("mkfifo", str(workspace / "pipe"))
    await process.wait()
    await mounted(allow=["tail *", "cat *", "ls *"])

    facts = {"tool_name": "bash", "tool_input": {"command": command}}
    answer = await coordinator.hooks.emit("tool:pre", facts)

    assert (answer.action == "ask_user") == asked
