"""A file that was cut short or damaged opens, and says what it lost."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import EventRecorder
from amplifier_module_contexts.context_persistent import PersistentContextManager
from amplifier_module_contexts.context_persistent.errors import ContextFormatError
from amplifier_module_contexts.context_persistent.message_log import MessageLog

Open = Callable[..., Awaitable[PersistentContextManager]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def write(path: Path, *texts: str) -> bytes:
    log = MessageLog.open(path, "s")
    for text in texts:
        log.append(message=user(text))
    log.close()
    return path.read_bytes()


def cut_off(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:-count])


def test_wherever_the_last_record_was_cut_all_others_are_there(path: Path) -> None:
    whole = write(path, "one", "two", 'three "\n\u00e9\ud83d')
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    torn = path.with_name(f"{path.name}.torn")

    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        torn.unlink(missing_ok=True)
        log = MessageLog.open(path, "s")
        log.append(message=user("next"))
        log.close()
        again = MessageLog.open(path, "s")
        again.close()

        assert log.recovery.torn_bytes == cut - last
        assert again.messages == [user("one"), user("two"), user("next")]
        assert again.recovery == (0, 0, 0)
        assert torn.exists() == (cut > last)
        assert not torn.exists() or torn.read_bytes() == whole[last:cut] + b"\n"


@pytest.mark.parametrize("cut", range(20))
def test_a_file_whose_first_line_was_cut_opens_empty(path: Path, cut: int) -> None:
    whole = write(path)
    path.write_bytes(whole[:cut])

    log = MessageLog.open(path, "s")
    log.close()

    assert log.messages == []
    assert json.loads(path.read_bytes().split(b"\n")[0]) == {"schema": 1}


async def test_a_torn_line_is_announced(
    open_context: Open, path: Path, recorder: EventRecorder, screen: Any
) -> None:
    write(path, "one", "two")
    cut_off(path, 5)

    await open_context()

    [(_, told)] = recorder.get_events("context:recovered")
    assert told["messages"] == 1
    assert told["torn_bytes"] > 0
    assert told["path"] == str(path)
    assert "has been recovered with 1 messages" in screen.lines[0]


async def test_a_sound_file_announces_nothing(
    open_context: Open, path: Path, recorder: EventRecorder, screen: Any
) -> None:
    write(path, "one")

    await open_context()

    assert recorder.events == []
    assert screen.lines == []


@pytest.mark.parametrize(
    "bad",
    [
        b"\x00\xff rubbish",
        b'{"fence":1,"message":{"role":"us',
        b"[1,2]",
        b'{"fence":1,"message":"no message"}',
        b'{"fence":"1","message":{"role":"user"}}',
        b'{"message":{"role":"user"}}',
        b'{"fence":1,"reset":{"role":"user"}}',
        b"[" * 100_000,
    ],
)
def test_an_unreadable_line_costs_itself_alone_and_is_kept_aside(path: Path, bad: bytes) -> None:
    lines = write(path, "one", "two").splitlines(keepends=True)
    lines.insert(3, bad + b"\n")
    path.write_bytes(b"".join(lines))

    for _ in range(2):
        log = MessageLog.open(path, "s")
        log.close()

        assert log.messages == [user("one"), user("two")]
        assert log.recovery == (0, 1, 0)
        assert path.with_name(f"{path.name}.torn").read_bytes() == bad + b"\n"


def test_a_file_of_bare_messages_is_read_and_goes_on(path: Path) -> None:
    path.write_text(json.dumps(user("old")) + "\n", encoding="utf-8")

    log = MessageLog.open(path, "s")
    log.append(message=user("new"))
    log.close()
    again = MessageLog.open(path, "s")
    again.close()

    assert again.messages == [user("old"), user("new")]
    assert again.recovery == (0, 0, 0)


def test_a_newer_format_is_refused_untouched_and_the_lock_let_go(path: Path) -> None:
    path.write_text('{"schema": 2}\n{"fence": 9, "what": "ever"}\n', encoding="utf-8")
    before = path.read_bytes()

    for _ in range(2):
        with pytest.raises(ContextFormatError, match="has format 2; .* reads format 1"):
            MessageLog.open(path, "s")

    assert path.read_bytes() == before


def test_a_record_that_does_not_fit_the_disk_leaves_no_half_of_itself(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MessageLog.open(path, "s")
    log.append(message=user("one"))
    write_some = os.write

    def full_disk(fd: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write_some(fd, data[:-10])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        with pytest.raises(OSError, match="No space left"):
            log.append(message=user("does not fit"))
    log.append(message=user("two"))
    log.close()
    again = MessageLog.open(path, "s")
    again.close()

    assert again.messages == [user("one"), user("two")]
    assert again.recovery == (0, 0, 0)
