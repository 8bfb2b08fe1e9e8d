"""Two real processes, one session: one writes, the other is told who, a take-over is final."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.store import LeaseLostError, Record, SessionHeldError, SessionStore
from amplifier_foundation.store.log_file import encode_line

Start = Callable[..., Any]

pytestmark = pytest.mark.attack("D5")


def texts(store: SessionStore) -> list[str]:
    return [record.data["text"] for record in store.read("s").records()]


def faked(offset: str) -> list[str]:
    """Return what to put before a command to give it another clock."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not libraries:
        pytest.skip("faketime is not installed")
    return ["env", f"LD_PRELOAD={libraries[0]}", f"FAKETIME={offset}"]


def stop(pid: int) -> None:
    """Stop a process, and wait until it has stopped."""
    assert sys.platform == "linux", "it reads /proc"
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline


def test_the_second_process_is_told_who_writes_and_since_when(
    store: SessionStore, start: Start
) -> None:
    first = start()
    first.ask("create")

    with pytest.raises(SessionHeldError) as refused:
        store.open("s")

    holder = refused.value.holder
    assert (holder.pid, holder.host, holder.fence) == (first.pid, platform.node(), 1)
    assert holder.since.startswith("20")
    assert f"process {first.pid} on {holder.host}, since {holder.since}" in str(refused.value)
    assert store.holder("s") == holder == store.read("s").holder
    with pytest.raises(SessionHeldError):
        store.delete("s")
    assert first.ask("append", "prompt", {"text": "still mine"}) == 1


def test_the_session_of_a_dead_process_is_free(store: SessionStore, start: Start) -> None:
    first = start()
    first.ask("create")
    first.ask("append", "prompt", {"text": "acknowledged"})
    first.end()

    assert store.holder("s") is None
    with store.open("s") as writer:
        assert writer.append("prompt", {"text": "next"}) == 2

    assert texts(store) == ["acknowledged", "next"]


def test_a_stopped_process_can_write_nothing_after_a_takeover(
    store: SessionStore, start: Start
) -> None:
    if sys.platform != "linux":
        pytest.skip("it reads /proc")
    first = start()
    first.ask("create")
    first.ask("append", "prompt", {"text": "before"})
    stop(first.pid)
    first.tell("append", "prompt", {"text": "late"})

    with pytest.raises(SessionHeldError):
        store.open("s")
    with store.open("s", takeover=True) as writer:
        writer.append("prompt", {"text": "after"})
        writer.update(title="mine")
        written = (writer.folder / "log.jsonl").read_bytes()
        os.kill(first.pid, signal.SIGCONT)

        assert first.answer()[0] == "LeaseLostError"
        assert first.ask("append", "prompt", {"text": "late again"})[0] == "LeaseLostError"
        assert first.ask("update")[0] == "LeaseLostError"
        assert first.ask("close") is None
        assert (writer.folder / "log.jsonl").read_bytes() == written
        with pytest.raises(SessionHeldError):
            store.open("s")

    assert texts(store) == ["before", "after"]
    assert store.read("s").metadata["title"] == "mine"


def test_a_write_under_way_during_the_takeover_is_not_acknowledged(
    store: SessionStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.open("s")
    write, new = os.write, list[Any]()

    def meanwhile(fd: int, data: bytes) -> int:
        # The old writer has made its check; now the other one comes.
        if not new:
            new.append(None)
            new[0] = store.open("s", takeover=True)
        return write(fd, data)

    monkeypatch.setattr(os, "write", meanwhile)
    with pytest.raises(LeaseLostError):
        old.append("prompt", {"text": "late"})
    monkeypatch.undo()
    assert new[0].append("prompt", {"text": "four"}) == 4
    old.close()
    new[0].close()

    reader = store.read("s")
    assert [each.data["text"] for each in reader.records()] == ["one", "two", "three", "four"]
    assert [each.kind for each in reader.damage] == ["fenced"]


def test_what_the_old_writer_was_told_is_saved_is_there_after_the_takeover(
    store: SessionStore, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.open("s")
    truncate = os.ftruncate

    late = encode_line(4, "", 2, "prompt", '{"text":"just in time"}')

    def meanwhile(fd: int, length: int) -> None:
        truncate(fd, length)
        with log.open("ab") as file:
            file.write(late)

    # The new writer signs its lock by this call, after it has read the log.
    monkeypatch.setattr(os, "ftruncate", meanwhile)
    new = store.open("s", takeover=True)
    monkeypatch.undo()

    assert new.append("prompt", {"text": "five"}) == 5
    for writer in (old, new):
        writer.close()
    assert texts(store) == ["one", "two", "three", "just in time", "five"]


def test_each_writer_has_a_higher_number_even_if_the_lock_is_lost(
    store: SessionStore, log: Path
) -> None:
    (log.parent / "log.lock").unlink()
    with store.open("s") as writer:
        writer.append("prompt", {"text": "four"})

    assert b'"fence":2,"kind":"prompt"' in log.read_bytes().splitlines()[-1]


async def test_a_watcher_sees_each_record_across_a_takeover(store: SessionStore, log: Path) -> None:
    seen: asyncio.Queue[Record] = asyncio.Queue()

    async def watch() -> None:
        async for record in store.read("s").tail(after=2):
            seen.put_nowait(record)

    async def next_text() -> str:
        return (await seen.get()).data["text"]

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(120):
        assert await next_text() == "three"
        first = store.open("s")
        first.append("prompt", {"text": "four"})
        assert await next_text() == "four"
        second = store.open("s", takeover=True)
        second.append("prompt", {"text": "five " * 20_000})
        assert await next_text() == "five " * 20_000
        for writer in (first, second):
            writer.close()
        store.delete("s")
        await watching
    assert seen.empty()


async def test_a_watcher_waits_for_the_rest_of_a_line(store: SessionStore, log: Path) -> None:
    whole = log.read_bytes()  # noqa: ASYNC240 - nothing else runs
    log.write_bytes(whole[:-30])  # noqa: ASYNC240 - nothing else runs
    records = store.read("s").tail(after=1)

    async with asyncio.timeout(120):
        assert (await anext(records)).data["text"] == "two"
        with log.open("ab") as file:
            file.write(whole[-30:])
        assert (await anext(records)).data["text"] == "three"
    await records.aclose()


@pytest.mark.attack("D6")
def test_a_clock_that_jumps_changes_neither_order_nor_lease(
    store: SessionStore, project: Path, start: Start
) -> None:
    store.create("other", project=project).close()
    first = start(*faked("+2d"))
    first.ask("create")
    first.ask("append", "prompt", {"text": "in two days"})

    second = start(*faked("-1h"))
    assert second.ask("open")[0] == "SessionHeldError"
    first.end()
    assert second.ask("open") == [1]
    assert second.ask("append", "prompt", {"text": "an hour ago"}) == 2
    second.ask("close")

    records = list(store.read("s").records())
    assert [each.data["text"] for each in records] == ["in two days", "an hour ago"]
    assert records[0].at > records[1].at
    assert store.read("s").damage == []
    assert store.find("last") == "s"
    # Used last, although the clock of the other one was ahead.
    with store.open("other") as writer:
        writer.append("prompt", {"text": "now"})
    assert store.find("last") == "other"
