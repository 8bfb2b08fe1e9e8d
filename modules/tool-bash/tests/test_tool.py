"""What the tool says: of itself, of a result, of wrong input, and while a command runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.effects import Declaration, declaration_of
from amplifier_core.testing import wait_for


async def test_it_declares_what_it_does(mounted: Any) -> None:
    tool = await mounted(max_timeout_seconds=60)

    assert declaration_of(tool) == Declaration("unsafe", 65.0, output_trusted=False)


async def test_a_result_says_how_it_went(bash: Any) -> None:
    result = await bash("echo out; echo err >&2; exit 3")

    output = result.output
    assert (result.success, result.error["message"]) == (
        False,
        "The command ended with exit code 3.",
    )
    assert 0 < output.pop("duration_seconds") < 5
    assert output == {
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
        "stdout_bytes": 4,
        "stderr_bytes": 4,
        "is_truncated": False,
        "trouble": "The command ended with exit code 3.",
    }


async def test_a_signal_is_named(bash: Any) -> None:
    result = await bash("kill -TERM $$")

    assert "exit code 143 (killed by SIGTERM)" in result.error["message"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "command: Field required"),
        ({"command": ""}, "command: "),
        ({"command": "x" * 100_001}, "command: "),
        ({"command": "ls", "cwd": "/"}, "cwd: Extra inputs are not permitted"),
        ({"command": "ls", "timeout_seconds": 0}, "timeout_seconds: "),
        ({"command": "ls", "timeout_seconds": 601}, "timeout_seconds: may be at most 600"),
        ({"command": "ls\0x"}, "was not run: embedded null byte"),
        ({"command": "ls \ud800"}, "command: "),
        ({"command": "ä" * 99_999}, "was not run: "),
    ],
)
async def test_wrong_input_is_answered_in_plain_words(
    mounted: Any, given: dict[str, Any], said: str
) -> None:
    result = await (await mounted()).execute(given)

    assert not result.success
    assert said in result.error["message"]


async def test_output_is_announced_while_the_command_runs(
    mounted: Any, coordinator: Any, workspace: Any
) -> None:
    tool = await mounted(ask=False)
    heard: list[dict[str, Any]] = []

    async def hear(event: str, data: dict[str, Any]) -> None:
        heard.append(data)

    coordinator.hooks.register("tool:output", hear)
    command = "echo first; echo wrong >&2; until [ -e go ]; do sleep 0.01; done; echo last"
    facts = {"tool_name": "bash", "tool_call_id": "call-7", "tool_input": {"command": command}}
    await coordinator.hooks.emit("tool:pre", facts)
    running = asyncio.create_task(tool.execute({"command": command}))

    assert await wait_for(lambda: len(heard) >= 2, timeout=120)
    (workspace / "go").touch()
    await asyncio.wait_for(running, 120)

    texts = {
        stream: "".join(event["text"] for event in heard if event["stream"] == stream)
        for stream in ("stdout", "stderr")
    }
    assert texts == {"stdout": "first\nlast\n", "stderr": "wrong\n"}
    assert {(event["tool_name"], event["tool_call_id"]) for event in heard} == {("bash", "call-7")}


async def test_a_flood_is_announced_at_a_bounded_rate(mounted: Any, coordinator: Any) -> None:
    tool = await mounted(timeout_seconds=1, max_output_bytes=10**12)
    heard: list[dict[str, Any]] = []

    async def hear(event: str, data: dict[str, Any]) -> None:
        heard.append(data)

    coordinator.hooks.register("tool:output", hear)

    result = await tool.execute({"command": "yes"})

    announced = sum(len(event["text"]) + event["skipped_bytes"] for event in heard)
    assert announced == result.output["stdout_bytes"]
    assert 1 <= len(heard) <= 20
    assert max(len(event["text"]) for event in heard) <= 4_096


async def test_other_hooks_can_know_its_events(mounted: Any, coordinator: Any) -> None:
    await mounted()

    assert await coordinator.collect_contributions("observability.events") == [
        ["tool:output", "sandbox:degraded", "sandbox:stopped"]
    ]


async def test_a_command_is_shown_as_it_will_run_and_can_be_changed(mounted: Any) -> None:
    tool = await mounted(sandbox="off: run commands unprotected")

    shown = await tool.preview_call({"command": "ls\npwd", "timeout_seconds": 5})

    assert shown is not None
    assert (shown.title, shown.covers, shown.text, shown.editable) == (
        "this command outside of the sandbox",
        ("command",),
        "ls\npwd",
        "command",
    )
    assert await tool.preview_call({"command": 7}) is None
