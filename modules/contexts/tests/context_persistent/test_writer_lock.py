"""One writer at a time; who lost the file writes nothing that counts."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.errors import AmplifierError
from amplifier_core.testing import MockCoordinator
from amplifier_module_contexts.context_persistent import PersistentContextManager, mount
from amplifier_module_contexts.context_persistent.errors import (
    ContextFencedError,
    ContextInUseError,
)
from amplifier_module_contexts.context_persistent.message_log import MessageLog

Open = Callable[..., Awaitable[PersistentContextManager]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def content(path: Path) -> bytes:
    return path.read_bytes()


async def test_the_second_opener_is_told_who_has_it(open_context: Open, path: Path) -> None:
    await open_context()

    with pytest.raises(ContextInUseError) as refused:
        await mount(MockCoordinator(), {"path": str(path)})

    said = str(refused.value)
    assert isinstance(refused.value, AmplifierError)
    assert f"`{path}` is open in process {os.getpid()} on {socket.gethostname()}, since 2" in said
    assert "session test-session" in said
    assert "`takeover: true`" in said


async def test_a_closed_conversation_can_be_opened_by_the_next(open_context: Open) -> None:
    first = await open_context()
    await first.add_message(user("one"))
    await first.close()

    second = await open_context()

    assert await second.get_messages() == [user("one")]


def test_each_opening_has_a_higher_number_even_if_the_lock_file_is_lost(path: Path) -> None:
    fences: list[bytes] = []
    for opening in range(4):
        MessageLog.open(path, "s").close()
        fences.append(path.read_bytes().splitlines()[-1].partition(b",")[0])
        if opening == 1:
            path.with_name(f"{path.name}.lock").unlink()

    assert fences == [b'{"fence":1', b'{"fence":2', b'{"fence":3', b'{"fence":4']


async def test_who_was_taken_over_is_refused_and_writes_nothing(
    open_context: Open, path: Path
) -> None:
    first = await open_context()
    await first.add_message(user("before"))
    second = await open_context(takeover=True)
    before = content(path)

    for write in (
        first.add_message(user("too late")),
        first.set_messages([user("too late")]),
        first.clear(),
    ):
        with pytest.raises(ContextFencedError, match="Nothing was written"):
            await write

    assert content(path) == before
    assert await first.get_messages() == [user("before")]
    await second.add_message(user("after"))
    assert await second.get_messages() == [user("before"), user("after")]


async def test_an_app_that_takes_the_session_over_takes_the_conversation_over(
    open_context: Open, path: Path
) -> None:
    first = await open_context()
    await first.add_message(user("before"))
    coordinator = MockCoordinator()
    coordinator.register_capability("session.takeover", True)

    close = await mount(coordinator, {"path": str(path)})

    assert await coordinator.get_mounted("context").get_messages() == [user("before")]
    with pytest.raises(ContextFencedError):
        await first.add_message(user("too late"))
    await close()


async def test_after_a_takeover_the_new_writer_holds_the_lock(
    open_context: Open, path: Path
) -> None:
    first = await open_context()
    second = await open_context(takeover=True)
    await first.close()

    with pytest.raises(ContextInUseError):
        await open_context()

    await second.add_message(user("still the writer"))


def test_a_write_that_was_already_under_way_does_not_count(path: Path) -> None:
    old = MessageLog.open(path, "s")
    old.append(message=user("one"))
    new = MessageLog.open(path, "s", takeover=True)
    new.append(message=user("two"))

    # The old writer had made its check before the takeover and writes after it.
    with path.open("ab") as late:
        late.write(b'{"fence":1,"message":{"role":"user","content":"late"}}\n')
        late.write(b'{"fence":1,"reset":[]}\n')
    new.append(message=user("three"))
    for log in (old, new):
        log.close()
    again = MessageLog.open(path, "s")
    again.close()

    assert again.messages == [user("one"), user("two"), user("three")]
    assert again.recovery.fenced_records == 2


def test_of_many_that_take_over_at_once_one_is_the_writer(path: Path) -> None:
    def take_over(_: int) -> MessageLog:
        return MessageLog.open(path, "s", takeover=True)

    with ThreadPoolExecutor(8) as pool:
        logs = list(pool.map(take_over, range(8)))
    written = 0
    for log in logs:
        with contextlib.suppress(ContextFencedError):
            log.append(message=user("mine"))
            written += 1
    for log in logs:
        log.close()
    again = MessageLog.open(path, "s")
    again.close()

    assert written == 1
    assert again.messages == [user("mine")]
    fences = [json.loads(line).get("fence") for line in path.read_bytes().splitlines()[1:]]
    assert fences == [1, 2, 3, 4, 5, 6, 7, 8, 8, 9]


def test_what_the_old_writer_wrote_until_the_takeover_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = MessageLog.open(path, "s")
    truncate = os.ftruncate

    def meanwhile(fd: int, length: int) -> None:
        truncate(fd, length)
        with path.open("ab") as file:
            file.write(b'{"fence":1,"message":{"role":"user","content":"just in time"}}\n')

    # The new writer signs its lock by this call, after it has read the file.
    monkeypatch.setattr(os, "ftruncate", meanwhile)
    new = MessageLog.open(path, "s", takeover=True)
    for log in (old, new):
        log.close()

    assert new.messages == [user("just in time")]


async def test_a_lock_file_that_was_deleted_stops_the_writer(
    open_context: Open, path: Path
) -> None:
    context = await open_context()
    path.with_name(f"{path.name}.lock").unlink()

    with pytest.raises(ContextFencedError):
        await context.add_message(user("unprotected"))


async def test_an_unsigned_lock_is_refused_readably(path: Path) -> None:
    log = MessageLog.open(path, "s")
    path.with_name(f"{path.name}.lock").write_bytes(b"")

    with pytest.raises(ContextInUseError, match="a process that has not said which"):
        MessageLog.open(path, "s")
    log.close()
