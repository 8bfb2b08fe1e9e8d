"""Fewer connections than wanted: waiting for one of the own, and closing what others wait for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from amplifier_runtime.database import connections
from amplifier_runtime.database.connections import PatientPool, is_full, wait_for_server


class Refused(Exception):
    """As a driver says it while connecting: without a state."""

    def __init__(self) -> None:
        super().__init__("FATAL:  sorry, too many clients already")


class Connection:
    """A connection of a driver, as far as a pool sees it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def rollback(self) -> None:
        """Do nothing: there is nothing to take back."""

    def close(self) -> None:
        self._server.open -= 1


class Server:
    """Accepts so many connections at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open = 0
        self.refusals = threading.Semaphore(0)

    def connect(self) -> Any:
        if self.open >= self.most:
            self.refusals.release()
            raise Refused
        self.open += 1
        return Connection(self)


def pool_of(server: Server, size: int = 5, timeout: float = 30.0) -> PatientPool:
    return PatientPool(server.connect, pool_size=size, max_overflow=0, timeout=timeout)


def test_who_is_refused_another_connection_waits_for_one_of_the_own() -> None:
    server = Server(most=1)
    pool = pool_of(server)
    first = pool.connect()
    got = threading.Event()

    def take() -> None:
        pool.connect().close()
        got.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert server.refusals.acquire(timeout=120)
    assert not got.is_set()
    first.close()
    assert got.wait(120)
    thread.join()


def test_who_has_none_gets_one_when_another_process_gives_one_back() -> None:
    server = Server(most=1)
    other = pool_of(server).connect()
    got = threading.Event()

    def take() -> None:
        pool_of(server).connect()
        got.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert server.refusals.acquire(timeout=120)
    other.invalidate()
    assert got.wait(120)
    thread.join()


def test_nobody_waits_longer_than_the_timeout() -> None:
    server = Server(most=0)
    with pytest.raises(Refused):
        pool_of(server, timeout=0.0).connect()


def test_a_server_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([OSError("failed: Connection refused"), OSError("the system is starting up")])

    def connect() -> str:
        for answer in answers:
            raise answer
        return "connected"

    assert wait_for_server(connect, 120.0) == "connected"
    assert caplog.text.count("the database is away") == 1


@pytest.mark.parametrize(
    ("said", "patience"), [("Connection refused", 0.0), ("password authentication failed", 120.0)]
)
def test_a_server_is_not_waited_for_in_vain(said: str, patience: float) -> None:
    def connect() -> None:
        raise OSError(said)

    with pytest.raises(OSError, match=said):
        wait_for_server(connect, patience)


def test_any_other_failure_is_not_waited_for() -> None:
    def connect() -> Any:
        raise ConnectionError("connection refused")

    with pytest.raises(ConnectionError):
        PatientPool(connect, pool_size=1, max_overflow=0).connect()


def test_after_a_refusal_no_connection_is_kept_beside_an_idle_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(most=2)
    pool = pool_of(server, timeout=0.0)
    taken = [pool.connect(), pool.connect()]
    with pytest.raises(Refused):
        pool.connect()
    for each in taken:
        each.close()
    assert server.open == 1
    assert "no free connection" in caplog.text


def test_what_is_not_needed_for_a_while_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(connections, "monotonic", lambda: now[0])
    server = Server(most=5)
    pool = pool_of(server)
    taken = [pool.connect() for _ in range(3)]
    for each in taken:
        each.close()
    assert server.open == 3
    now[0] = 6.0
    for _ in range(3):
        pool.connect().close()
    assert server.open == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("FATAL:  sorry, too many clients already", True),
        ('FATAL:  too many connections for role "app"', True),
        ("FATAL:  remaining connection slots are reserved for roles", True),
        ("connection refused", False),
    ],
)
def test_a_server_without_a_free_connection_is_known_by_what_it_says(
    said: str, *, expected: bool
) -> None:
    assert is_full(Exception(said)) is expected
