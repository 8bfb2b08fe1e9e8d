"""Stored sessions: continued after a restart, with images, replayed without a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier import Agent, Image
from amplifier_foundation.file_sessions import FileSessions
from amplifier_foundation.store import SessionHeldError
from amplifier_journal.replay.replayer import replay
from end_to_end.shop import Deps, Ticket, calls, lookup, script


async def test_a_session_continues_where_its_log_ends(tmp_path: Path) -> None:
    agent = Agent(script(calls("lookup", order_id=7), "It is ann's."), tools=[lookup], deps=Deps)
    later = Agent(script("Still ann's."), tools=[lookup], deps=Deps)

    async with agent.session("c1", store=tmp_path, deps=Deps("ann")) as session:
        await session.run("Whose is 7?")
    async with later.session("c1", store=tmp_path, deps=Deps("ann")) as session:
        await session.run("Sure?")
        messages = await session.messages()

    said = [each["content"] for each in messages if each["role"] == "user"]
    assert said == ["Whose is 7?", "Sure?"]
    assert FileSessions(tmp_path).session_ids() == ["c1"]


async def test_images_and_types_of_a_turn_are_recorded_and_replayed(tmp_path: Path) -> None:
    agent = Agent(script('{"title": "A cat"}', "Fine."))

    async with agent.session("c1", store=tmp_path) as session:
        done = await session.run(["What is this?", Image(b"png")], output=Ticket)
        await session.run("Thanks.")

    assert done.output == Ticket(title="A cat")
    log = FileSessions(tmp_path).read("c1")
    (first, second) = [each.data for each in log.records() if each.kind == "prompt"]
    assert first["text"] == "What is this?"
    assert first["content"][1]["source"]["data"] == "cG5n"
    assert first["output_schema"]["title"] == "Ticket"
    assert "content" not in second
    assert "output_schema" not in second
    replayed = await replay(log)
    assert replayed.differences == []
    assert replayed.turns == 2


async def test_a_session_has_one_writer(tmp_path: Path) -> None:
    agent = Agent(script("Hi."))

    async with agent.session("c1", store=tmp_path):
        with pytest.raises(SessionHeldError):
            async with agent.session("c1", store=tmp_path):
                pass


async def test_sessions_are_forked_and_deleted(tmp_path: Path) -> None:
    await Agent(script("Hi.")).run("Hello", store=tmp_path)
    sessions = FileSessions(tmp_path)
    (first,) = sessions.session_ids()

    copy = sessions.fork(first)
    sessions.delete(first)

    assert sessions.session_ids() == [copy]
