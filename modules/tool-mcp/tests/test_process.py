"""Server processes: what they can reach, what they do wrong, and that none is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.connection import Connection
from amplifier_module_tool_mcp.errors import ServerFailure
from amplifier_module_tool_mcp.seen import SeenRecord
from amplifier_module_tool_mcp.server import Server
from amplifier_module_tool_mcp.surroundings import Surroundings
from amplifier_module_tool_mcp.tools import ToolRegistry
from amplifier_module_tool_mcp.transports import Pace, ServerProcess
from amplifier_sandbox.processes.sandbox import LaunchSpec, Sandbox

SECRET = "sk-witness-7f3a9c"


def open_descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


def pid_of(harness: Any) -> int:
    """Return the number of the sandboxed server among ours: the one at the end of the chain."""
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            works_here = line and (folder / "cwd").readlink() == harness.workspace
        except OSError:
            continue
        if works_here and line.split(b"\0")[1:2] == [b"planned_server.py"]:
            return int(folder.name)
    raise AssertionError("no server runs")


@pytest.mark.attack("M2")
async def test_the_exact_command_is_shown_and_no_shell_reads_it(harness: Any) -> None:
    await harness.mount(harness.planned("; touch planted", "$(touch planted)", "a\u202eb"))

    assert (await harness.call(word="w")).success
    assert not (harness.workspace / "planted").exists()
    assert "planned_server.py '; touch planted' '$(touch planted)' 'a\\u202eb'" in harness.lines()
    started = json.loads((harness.workspace / "starts").read_text("utf-8"))
    assert started[1:] == ["; touch planted", "$(touch planted)", "a\u202eb"]


@pytest.mark.attack("M2")
@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_the_environment_holds_only_what_is_passed(
    harness: Any, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("SERVER_KEY", "for the server")
    harness.plan(does={"say": "environment"})
    await harness.mount(harness.planned(env_pass=["SERVER_KEY"], sandbox=sandbox))

    environment = json.loads((await harness.call(word="w")).output["text"])

    assert SECRET not in environment.values()
    assert environment["SERVER_KEY"] == "for the server"
    assert environment["HOME"] != os.environ["HOME"]


@pytest.mark.attack("M2")
async def test_a_server_cannot_write_outside_its_workspace(harness: Any) -> None:
    harness.plan(tools=[harness.tool(type="object")], does={"say": "write"})
    (harness.workspace / ".git").mkdir()
    await harness.mount()

    inside = await harness.call(path="mine")
    await harness.call(path=str(harness.workspace.parent / "planted"))
    in_git = await harness.call(path=".git/config")

    assert inside.success
    assert not in_git.success
    assert not (harness.workspace.parent / "planted").exists()


def without_bubblewrap(harness: Any, **more: Any) -> Server:
    """Return the planned server on a machine that has only Landlock."""
    settings = McpConfig.model_validate({"servers": {"x": harness.planned(**more)}})
    sandbox = Sandbox.detect(folders=())
    record = SeenRecord(harness.workspace.parent / "seen.json")
    around = Surroundings(
        harness.coordinator, settings, sandbox, record, LazyClient(lambda: Connection)
    )
    return Server("x", settings.servers["x"], around, ToolRegistry(around))


@pytest.mark.attack("M2")
async def test_what_needs_a_sandbox_is_not_started_without_one(harness: Any) -> None:
    with pytest.raises(ServerFailure, match="install bubblewrap"):
        await without_bubblewrap(harness, sandbox="required").connect()

    assert harness.starts() == 0


async def test_a_weaker_sandbox_is_used_and_told_of(harness: Any) -> None:
    server = without_bubblewrap(harness, env_pass=["NO_SUCH_NAME"])

    await server.connect()

    assert (await harness.call(word="w")).success
    assert "MCP server `x`: Programs run under Landlock" in harness.lines()
    assert "MCP server `x` is to get NO_SUCH_NAME, which is not set." in harness.lines()
    await server.close()


async def test_without_protection_the_person_is_told(harness: Any) -> None:
    await harness.mount(harness.planned(sandbox="off"))

    assert (await harness.call(word="w")).success
    assert harness.events("sandbox:degraded")[0]["level"] == "none"
    assert "MCP server `x`: There is no sandbox" in harness.lines()


@pytest.mark.attack("M5")
@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_server_that_dies_in_mid_call_comes_back_with_other_tools(
    harness: Any, sandbox: str
) -> None:
    if sys.platform != "linux":
        pytest.skip("it reads /proc")
    harness.plan(tools=[harness.tool(), harness.tool("old")], does={"say": "hang"}, has_child=True)
    await harness.mount(harness.planned(sandbox=sandbox), call_seconds=10)
    call = asyncio.create_task(harness.call(word="w"))
    assert await wait_for((harness.workspace / "hanging").exists, timeout=120)
    harness.plan(tools=[harness.tool(), harness.tool("new")])

    os.kill(pid_of(harness), signal.SIGKILL)
    result = await call

    assert result.error["type"] == "connection_lost"
    assert "Whether the call took effect is not known" in result.error["message"]
    assert harness.starts() == 2
    assert harness.names() == ["mcp_load", "x__new", "x__say"]
    assert not harness.coordinator.get("tools", "x__new").is_approved
    assert (await harness.call(word="again")).success
    lines = harness.lines()
    assert "MCP server `x` ended in mid-call" in lines
    assert "`old` is not offered: the server has it no more" in lines
    assert "withheld until you have seen them: x__new" in lines
    assert not any("sleep 301" in line for line in harness.processes())


@pytest.mark.attack("M5")
@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_server_that_hangs_at_the_end_is_killed_with_all_it_started(
    harness: Any, sandbox: str
) -> None:
    harness.plan(hangs_at_end=True, has_child=True)
    await harness.mount(harness.planned(sandbox=sandbox))
    assert any("sleep 301" in line for line in harness.processes())

    async with asyncio.timeout(120):
        await harness.close()

    assert harness.processes() == []
    assert "did not end when it was asked to, and was killed" in harness.lines()


@pytest.mark.attack("M5")
async def test_a_cancelled_cleanup_still_leaves_no_process(harness: Any) -> None:
    harness.plan(hangs_at_end=True, has_child=True)
    await harness.mount()
    closing = asyncio.create_task(harness.close())
    await asyncio.sleep(0)

    closing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await closing
    assert await wait_for(lambda: harness.processes() == [], timeout=120)
    # What the cleanup left to do; a loop that closes before would lose the pipes.
    assert await wait_for(lambda: asyncio.all_tasks() == {asyncio.current_task()}, timeout=120)


async def test_pipes_are_closed_that_another_process_still_holds(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("it reads /proc")
    before = open_descriptors()
    child = tmp_path / "child"
    script = "setsid sleep 301 & echo $! > started; mv started child; read line"
    launch = LaunchSpec(["/bin/sh", "-c", script], dict(os.environ), str(tmp_path))

    async def report(what: str) -> None:
        raise AssertionError(what)

    server = ServerProcess(launch, asyncio.Event(), Pace(report))
    async with server.streams(most_bytes=1_000, grace=120):
        assert await wait_for(child.exists, timeout=120)

    try:
        assert await wait_for(lambda: open_descriptors() == before, timeout=10)
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)


@pytest.mark.attack("M5")
async def test_a_closed_session_starts_no_server_again(harness: Any) -> None:
    await harness.mount()
    tool: Any = harness.coordinator.get("tools", "x__say")
    await harness.close()

    result = await tool.execute({"word": "w"})

    assert result.error == {"message": "The session is over.", "type": "unreachable"}
    assert harness.starts() == 1


@pytest.mark.attack("M5")
async def test_a_cancelled_mount_leaves_no_process(harness: Any) -> None:
    harness.plan(hangs_at_start=True)
    mounting = asyncio.create_task(harness.mount())
    assert await wait_for(lambda: harness.starts() == 1, timeout=120)

    mounting.cancel()

    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await mounting
    assert harness.processes() == []


@pytest.mark.attack("M5")
async def test_a_call_without_an_answer_ends_and_the_next_one_works(harness: Any) -> None:
    harness.plan(tools=[harness.tool(), harness.tool("hang")], does={"hang": "hang"})
    await harness.mount(call_seconds=0.3)

    late = await harness.call("x__hang", word="w")

    assert late.error["type"] == "timeout"
    assert (await harness.call(word="w")).success
    assert harness.starts() == 1


@pytest.mark.attack("M5")
@pytest.mark.parametrize(
    ("does", "kind"),
    [("foreign", "timeout"), ("nonsense", "server_error"), ("long", "connection_lost")],
)
async def test_a_wrong_answer_is_a_typed_error_and_the_session_goes_on(
    harness: Any, does: str, kind: str
) -> None:
    harness.plan(tools=[harness.tool(), harness.tool("odd")], does={"odd": does})
    await harness.mount(call_seconds=1, max_message_bytes=1_000_000)

    odd = await harness.call("x__odd", word="w")

    assert odd.error["type"] == kind
    assert (await harness.call(word="w")).output["text"] == '{"word": "w"}'


@pytest.mark.attack("M5")
async def test_of_two_answers_the_first_counts(harness: Any) -> None:
    harness.plan(tools=[harness.tool(), harness.tool("odd")], does={"odd": "twice"})
    await harness.mount()

    assert (await harness.call("x__odd", word="w")).output["text"] == "first"
    assert (await harness.call(word="w")).output["text"] == '{"word": "w"}'


@pytest.mark.attack("M5")
async def test_a_flood_on_standard_error_is_bounded_and_told_of_once(
    harness: Any, caplog: pytest.LogCaptureFixture
) -> None:
    harness.plan(stderr_lines=20_000)
    caplog.set_level("DEBUG", "amplifier_module_tool_mcp.transports")

    await harness.mount()

    assert (await harness.call(word="w")).success
    assert harness.lines().count("floods its standard error") == 1
    assert sum(len(record.getMessage()) for record in caplog.records) < 200_000


@pytest.mark.attack("M5")
async def test_too_many_tools_are_cut_and_told_of_once(harness: Any) -> None:
    harness.plan(tools=[harness.tool(f"t{number}") for number in range(1_000)])

    await harness.mount()

    assert len(harness.names()) == 257
    assert harness.lines().count("is not offered") == 1
    assert "1000 tools are more than 256" in harness.lines()


@pytest.mark.attack("M5")
async def test_a_list_without_end_is_given_up(harness: Any) -> None:
    harness.plan(endless_list=True)

    await harness.mount()

    assert harness.names() == ["mcp_load"]
    assert "more than 20 pages" in harness.lines()


async def test_what_is_no_message_on_the_output_is_ignored_and_told_of(harness: Any) -> None:
    harness.plan(greets=True)

    await harness.mount()

    assert (await harness.call(word="w")).success
    assert "writes to its output what is no message" in harness.lines()
