"""Any prefix of a log, torn at any byte, opens, resumes and gives a valid next request."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amplifier_foundation.live import open_live
from amplifier_foundation.store import SessionStore
from amplifier_journal.readings.requests import requests_in
from amplifier_kit.history_repair import repair_history
from end_to_end.recorded_sessions import NAMES, plan_of, record

GOING_ON = plan_of(["Going on."], tools=({"module": "tool-todo"},))
QUICK_EXAMPLES = 40
# A place in whichever log it is: the byte is taken modulo its length, both ends included.
ANY_BYTE = st.integers(0, 2**20)


class Recorded(NamedTuple):
    """A session that was really recorded: its home, its id, its log."""

    home: Path
    session_id: str
    log: bytes


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Return all ten sessions by name, each in a home of its own."""
    found: dict[str, Recorded] = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        store = SessionStore(folder / "home")
        session_id = asyncio.run(record(name, store, folder))
        log = store.read(session_id).folder / "log.jsonl"
        found[name] = Recorded(folder / "home", session_id, log.read_bytes())
    return found


@settings(max_examples=QUICK_EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(NAMES), byte=ANY_BYTE)
@example(name="parallel_tools", byte=0)
def test_a_log_torn_somewhere_goes_on_with_a_valid_request(
    recorded: dict[str, Recorded], name: str, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tear_and_go_on(recorded[name], byte, tmp_path_factory.mktemp("torn"))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(NAMES), byte=ANY_BYTE)
def test_a_log_torn_anywhere_goes_on_with_a_valid_request(
    recorded: dict[str, Recorded], name: str, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The profile says how many bytes: a thousand with `make test-all`."""
    tear_and_go_on(recorded[name], byte, tmp_path_factory.mktemp("torn"))


def tear_and_go_on(recorded: Recorded, byte: int, folder: Path) -> None:
    """Cut a copy of the log at a byte, resume the session, and look at what it asks next."""
    home = folder / "home"
    shutil.copytree(recorded.home, home)
    store = SessionStore(home)
    log = store.read(recorded.session_id).folder / "log.jsonl"
    log.write_bytes(recorded.log[: byte % (len(recorded.log) + 1)])

    asyncio.run(go_on(store, recorded.session_id, folder))

    records = list(store.read(recorded.session_id).records())
    last = requests_in(records)[-1]
    assert repair_history(last.messages) == (last.messages, [])
    assert last.messages[-1] == {"role": "user", "content": "Go on."}
    assert records[-1].data["name"] == "session:end"
    shutil.rmtree(folder)


async def go_on(store: SessionStore, session_id: str, project: Path) -> None:
    async with open_live(
        GOING_ON, store=store, project=project, session_id=session_id, resume=True
    ) as live:
        assert await live.execute("Go on.") == "Going on."
