"""One process at a time holds the lock; who lost it is told before it writes."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from amplifier_kit import writer_lock
from amplifier_kit.writer_lock import HeldError, LostError, WriterLock, opening, read_holder


def take(path: Path, *, takeover: bool = False) -> WriterLock:
    with opening(path.parent):
        lock = WriterLock.acquire(path, takeover=takeover)
        lock.sign(lock.fence + 1, "session")
        return lock


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    lock = take(tmp_path / "lock")

    with pytest.raises(HeldError, match=f"process {os.getpid()} on") as refused:
        take(tmp_path / "lock")

    holder = refused.value.holder
    assert (holder.pid, holder.fence, holder.session_id) == (os.getpid(), 1, "session")
    assert read_holder(tmp_path / "lock") == holder
    lock.release()
    assert read_holder(tmp_path / "lock") is None
    assert read_holder(tmp_path / "none") is None


def test_who_was_taken_over_is_told_and_the_next_number_is_higher(tmp_path: Path) -> None:
    first = take(tmp_path / "lock")
    first.require()

    second = take(tmp_path / "lock", takeover=True)

    with pytest.raises(LostError):
        first.require()
    second.require()
    first.release()
    with pytest.raises(HeldError):
        take(tmp_path / "lock")
    second.release()
    third = take(tmp_path / "lock")
    assert (first.fence, second.fence, third.fence) == (1, 2, 3)
    third.release()


def test_a_lock_that_was_deleted_is_lost(tmp_path: Path) -> None:
    lock = take(tmp_path / "lock")
    (tmp_path / "lock").unlink()

    with pytest.raises(LostError):
        lock.require()
    lock.release()


def test_of_many_that_take_over_at_once_one_holds_it(tmp_path: Path) -> None:
    def take_over(_: int) -> WriterLock:
        return take(tmp_path / "lock", takeover=True)

    with ThreadPoolExecutor(8) as pool:
        locks = list(pool.map(take_over, range(8)))

    holding: list[int] = []
    for lock in locks:
        with suppress(LostError):
            lock.require()
            holding.append(lock.fence)
        lock.release()
    assert holding == [8]
    assert sorted(lock.fence for lock in locks) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"pid": "x", "fence": null}'])
def test_a_lock_that_nobody_signed_is_refused_readably(tmp_path: Path, content: bytes) -> None:
    lock = take(tmp_path / "lock")
    (tmp_path / "lock").write_bytes(content)

    with pytest.raises(HeldError, match="held by another process") as refused:
        take(tmp_path / "lock")

    assert (refused.value.holder.pid, refused.value.holder.fence) == (0, 0)
    lock.release()


@pytest.mark.attack("D6")
def test_who_waits_to_open_goes_by_the_monotonic_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_lock, "_OPENING_SECONDS", 0.1)
    start = time.monotonic()
    monkeypatch.setattr(time, "time", lambda: 0.0)

    with opening(tmp_path), pytest.raises(HeldError), opening(tmp_path):
        pytest.fail("two are opening at once")

    assert time.monotonic() - start >= 0.1
