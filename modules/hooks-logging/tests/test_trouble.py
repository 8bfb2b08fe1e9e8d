"""Tests of the log in trouble: too many events, a full disk, a disk that does not answer."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_hooks_logging import mount, writer

if sys.platform != "win32":
    import resource

Open = Callable[..., Awaitable[Any]]


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """Let the operating system refuse to let files grow, as it does on a full disk."""
    if sys.platform == "win32":
        pytest.skip("Windows has no limit of the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.attack("H5")
async def test_a_flood_costs_no_guard_event_and_every_loss_is_counted(open_log: Open) -> None:
    harness = await open_log(max_queue_records=10, events=["tool:heartbeat"])

    for number in range(10_000):
        await harness.hooks.emit("tool:heartbeat" if number % 100 else "tool:pre", {"n": number})
    async with asyncio.timeout(120):
        await harness.hooks.emit("orchestrator:complete", {})
    await harness.hooks.emit("tool:pre", {"n": 10_000})
    await harness.close()

    assert [data["n"] for data in harness.told("tool:pre")] == list(range(0, 10_001, 100))
    dropped = harness.told("logging:dropped")
    missing = sum(data["events"].get("tool:heartbeat", 0) for data in dropped)
    assert len(harness.told("tool:heartbeat")) + missing == 9_900
    assert missing > 0
    assert any("events are being dropped" in line for line in harness.screen.lines)
    assert any("events are missing from the log" in line for line in harness.screen.lines)
    numbers = [record["seq"] for record in harness.records()]
    assert numbers == sorted(numbers)


async def test_the_queue_is_bounded_in_characters_too(open_log: Open) -> None:
    harness = await open_log(max_queue_chars=100_000)

    for _ in range(200):
        await harness.hooks.emit("plan:start", {"text": "x" * 8_000})
    await harness.hooks.emit("orchestrator:complete", {})
    await harness.hooks.emit("tool:pre", {})
    await harness.close()

    missing = sum(data["total"] for data in harness.told("logging:dropped"))
    assert missing > 0
    assert len(harness.told("plan:start")) + missing == 200


@pytest.mark.attack("D3")
async def test_a_full_disk_is_told_once_and_the_session_goes_on(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_RETRY_SECONDS", 0.0)
    harness = await open_log()
    heard: list[Any] = []
    harness.hooks.register("logging:failed", lambda event, data: heard.append(data))  # pyright: ignore[reportUnknownLambdaType] - untyped by contract
    await harness.hooks.emit("orchestrator:complete", {"n": 1})

    with files_of_at_most(harness.path.stat().st_size + 50):
        for number in range(20):
            await harness.hooks.emit("orchestrator:complete", {"n": number, "text": "x" * 100})
        assert await wait_for(lambda: bool(heard), timeout=120)
        kept = harness.records()

    assert len(kept) == 1
    assert [data["path"] for data in heard] == [str(harness.path)]
    assert "too large" in heard[0]["error"]
    assert sum("cannot be written" in line for line in harness.screen.lines) == 1

    await harness.hooks.emit("orchestrator:complete", {"n": "again"})
    await harness.hooks.emit("tool:pre", {})
    await harness.close()

    assert harness.told("orchestrator:complete")[-1]["n"] == "again"
    assert harness.told("logging:dropped")[0]["events"]["orchestrator:complete"] == 20


@pytest.mark.attack("D3")
async def test_a_folder_that_cannot_be_made_does_not_stop_the_session(
    tmp_path: Path, open_log: Open
) -> None:
    (tmp_path / "file").touch()
    harness = await open_log(path=f"{tmp_path}/file/{{session_id}}.jsonl")

    result = await harness.hooks.emit("orchestrator:complete", {})
    await harness.close()

    assert result.action == "continue"
    assert sum("cannot be written" in line for line in harness.screen.lines) == 1


@pytest.mark.attack("D3")
async def test_a_device_in_place_of_the_file_is_refused_and_left_as_it_is(open_log: Open) -> None:
    coordinator = MockCoordinator()
    coordinator._session_id = "null"
    harness = await open_log(coordinator, path="/dev/{session_id}")
    mode = harness.path.stat().st_mode

    await harness.hooks.emit("orchestrator:complete", {})
    await harness.close()

    assert harness.path.stat().st_mode == mode
    assert any("not a regular file" in line for line in harness.screen.lines)


async def test_a_disk_that_does_not_answer_holds_neither_a_turn_nor_the_end(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amplifier_module_hooks_logging.hook._FLUSH_SECONDS", 0.05)
    monkeypatch.setattr("amplifier_module_hooks_logging.hook._CLOSE_SECONDS", 0.05)
    answered = threading.Event()

    def hang(fd: int) -> None:
        answered.wait(30)

    monkeypatch.setattr(os, "fdatasync", hang)
    harness = await open_log()

    async with asyncio.timeout(120):
        await harness.hooks.emit("orchestrator:complete", {})
        await harness.close()

    assert any("the disk does not answer" in line for line in harness.screen.lines)
    answered.set()
    harness.log.writer._thread.join(5)


async def test_a_bug_in_the_writer_does_not_end_it(open_log: Open) -> None:
    harness = await open_log()

    await harness.log("tool:pre", {"not JSON": object()})
    await harness.hooks.emit("orchestrator:complete", {})
    await harness.hooks.emit("tool:post", {})
    await harness.close()

    assert any("cannot be written" in line for line in harness.screen.lines)


async def test_nothing_is_left_running_after_the_end(open_log: Open) -> None:
    harness = await open_log()
    await harness.hooks.emit("tool:pre", {})

    await harness.close()
    await harness.close()

    assert not harness.log.writer._thread.is_alive()
    assert not any(harness.hooks.list_handlers().values())


async def test_the_handler_takes_little_of_the_loops_time(tmp_path: Path) -> None:
    coordinator = MockCoordinator()
    stop = await mount(coordinator, {"path": f"{tmp_path}/{{session_id}}.jsonl"})
    data = {"tool_name": "x", "tool_input": {"text": "y" * 500}, "facts": list(range(20))}

    started = time.thread_time()
    for _ in range(1_000):
        await coordinator.hooks.emit("tool:pre", data)
    per_event = (time.thread_time() - started) / 1_000
    await stop()

    assert per_event < 0.001
