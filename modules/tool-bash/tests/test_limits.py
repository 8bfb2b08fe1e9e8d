"""Limits hold, and nothing outlives its call: not a bomb, not a daemon, not a flood."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for

MEGABYTE = 1_000_000
FORK_BOMB = "bomb(){ bomb|bomb& }; bomb & while :; do :; done"
DAEMON = "setsid sh -c 'setsid sleep 300 </dev/null >/dev/null 2>&1 &' & sleep 300"


def own_bytes(field: str) -> int:
    """Return a figure of this process: `VmRSS` is what it holds, `VmHWM` the most it held."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def forget_peak() -> int:
    """Let `VmHWM` begin anew, and return where it begins."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return own_bytes("VmRSS")


async def gone_within_two_seconds(processes_of: Callable[[], list[str]]) -> bool:
    return await wait_for(lambda: not processes_of(), timeout=120)


@pytest.mark.attack("S5")
@pytest.mark.parametrize(
    ("command", "config", "trouble"),
    [
        (FORK_BOMB, {"timeout_seconds": 1, "processes": 64}, "stopped after"),
        ("while :; do :; done", {"timeout_seconds": 1}, "stopped after"),
        ("while :; do :; done", {"cpu_seconds": 1, "timeout_seconds": 8}, "exit code 1"),
        ("tail /dev/zero", {"memory_bytes": 64 * MEGABYTE}, "out of memory"),
        ("dd if=/dev/zero of=/tmp/x bs=1M", {"temporary_bytes": 8 * MEGABYTE}, "exit code 1"),
        ("dd if=/dev/zero of=/dev/shm/x bs=1M", {"temporary_bytes": 8 * MEGABYTE}, "exit code 1"),
        ("yes", {"max_output_bytes": MEGABYTE}, "wrote more than"),
        ("head -c 1G /dev/zero", {"max_output_bytes": 50 * MEGABYTE}, "wrote more than"),
    ],
    ids=["forks", "time", "processor", "memory", "tmp", "shm", "endless output", "1 GB"],
)
async def test_what_uses_too_much_is_stopped_and_leaves_nothing(
    command: str,
    config: dict[str, Any],
    trouble: str,
    mounted: Any,
    processes_of: Callable[[], list[str]],
) -> None:
    tool = await mounted(**config)
    before = forget_peak()

    result = await tool.execute({"command": command})

    assert not result.success
    assert trouble in result.error["message"]
    assert await gone_within_two_seconds(processes_of)
    assert own_bytes("VmHWM") - before < 50 * MEGABYTE


@pytest.mark.attack("S5")
async def test_output_is_cut_in_the_middle_and_counted_truly(mounted: Any) -> None:
    tool = await mounted(output_bytes=1_000)

    result = await tool.execute({"command": "seq 1 200000; echo done >&2"})

    output = result.output
    assert output["stdout_bytes"] == sum(len(str(n)) + 1 for n in range(1, 200_001))
    assert output["stdout"].startswith("1\n2\n3\n")
    assert output["stdout"].endswith("199999\n200000\n")
    assert (
        f"{output['stdout_bytes'] - 1_000} of {output['stdout_bytes']} bytes left out"
        in (output["stdout"])
    )
    assert (output["stderr"], output["is_truncated"]) == ("done\n", True)


@pytest.mark.attack("S6")
@pytest.mark.parametrize(
    "command", ["sleep 1d", DAEMON, FORK_BOMB], ids=["sleep", "daemon", "bomb"]
)
async def test_a_cancelled_command_is_dead_within_two_seconds(
    command: str, mounted: Any, processes_of: Callable[[], list[str]], workspace: Path
) -> None:
    tool = await mounted(processes=64)
    call = asyncio.create_task(tool.execute({"command": f"touch started; {command}"}))
    assert await wait_for((workspace / "started").exists, timeout=120)
    assert processes_of()

    cancelled = time.monotonic()
    call.cancel()
    await asyncio.wait([call], timeout=120)

    assert call.cancelled()
    assert await gone_within_two_seconds(processes_of)
    assert time.monotonic() - cancelled < 2


@pytest.mark.attack("S6")
async def test_a_daemon_ends_with_the_command_that_left_it(
    bash: Any, processes_of: Callable[[], list[str]]
) -> None:
    result = await bash("setsid sleep 300 >/dev/null 2>&1 & echo $!")

    assert result.success
    assert await gone_within_two_seconds(processes_of)


@pytest.mark.attack("S6")
async def test_a_daemon_that_holds_the_output_does_not_hold_the_call(bash: Any) -> None:
    started = time.monotonic()

    result = await bash("(setsid sleep 300 &) ; echo here")

    assert result.output["stdout"] == "here\n"
    assert time.monotonic() - started < 2


async def test_calls_in_parallel_do_not_disturb_each_other(mounted: Any) -> None:
    tool = await mounted()

    results = await asyncio.gather(*(tool.execute({"command": f"echo {n}"}) for n in range(10)))

    assert [result.output["stdout"] for result in results] == [f"{n}\n" for n in range(10)]
