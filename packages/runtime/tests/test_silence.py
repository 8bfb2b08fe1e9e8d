"""Silence is counted together: observers that end early hand on what they have seen."""

from __future__ import annotations

import pytest
from runtime_stage import rows

from amplifier_runtime.database.database import Database
from amplifier_runtime.worker import liveness
from amplifier_runtime.worker.liveness import Liveness, Observer


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(liveness, "monotonic", clock)
    return clock


def worker(database: Database, name: str) -> Liveness:
    return Liveness(database, name, code_version="1", concurrency=1)


async def watch(observer: Observer, clock: Clock, seconds: int) -> list[str]:
    """Look every second, the first time at once, and return who was buried."""
    buried = await observer.reap_dead_workers()
    for _ in range(seconds):
        clock.now += 1.0
        buried += await observer.reap_dead_workers()
    return buried


async def test_observers_that_live_too_short_bury_together(
    database: Database, clock: Clock
) -> None:
    await worker(database, "silent").register()
    for _ in range(2):
        assert await watch(Observer(database), clock, 2) == []
    assert await watch(Observer(database), clock, 1) == ["silent"]


async def test_a_beat_makes_what_was_seen_before_it_void(database: Database, clock: Clock) -> None:
    living = worker(database, "living")
    await living.register()
    assert await watch(Observer(database), clock, 4) == []
    await living.beat()
    assert await watch(Observer(database), clock, 4) == []


async def test_what_two_see_at_the_same_time_counts_once(database: Database, clock: Clock) -> None:
    await worker(database, "silent").register()
    first, second = Observer(database), Observer(database)
    for _ in range(5):
        assert await first.reap_dead_workers() == []
        assert await second.reap_dead_workers() == []
        clock.now += 1.0
    assert await first.reap_dead_workers() == ["silent"]


async def test_an_observer_that_could_not_look_has_seen_nothing(
    database: Database, clock: Clock
) -> None:
    await worker(database, "silent").register()
    paused = Observer(database)
    assert await watch(paused, clock, 1) == []
    clock.now += 60.0
    assert await watch(paused, clock, 3) == []
    assert await watch(paused, clock, 2) == ["silent"]


async def test_pauses_between_beats_are_not_written_down(database: Database, clock: Clock) -> None:
    living, observer = worker(database, "living"), Observer(database)
    await living.register()
    for _ in range(5):
        await watch(observer, clock, 1)
        await living.beat()
    assert await rows(database, "SELECT silence_ms FROM workers") == [{"silence_ms": 0}]
    await watch(observer, clock, 2)
    assert await rows(database, "SELECT silence_ms FROM workers") == [{"silence_ms": 2000}]
