"""Stored sessions: continued after a restart, with images and files, and replayed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplifier import Agent, AgentError, File, Image, SessionOpenError, Sessions
from amplifier.testing import replay_sync
from amplifier_foundation.file_sessions import FileSessions
from amplifier_journal.replay.replayer import replay
from end_to_end.shop import Deps, Ticket, calls, lookup, script, thread_of_this_call

TESTS = Path(__file__).parents[3] / "tests"


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


async def test_images_files_and_types_of_a_turn_are_recorded_and_replayed(tmp_path: Path) -> None:
    agent = Agent(script('{"title": "A cat"}', "Fine."))
    report = File(b"%PDF", name="report.pdf")

    async with agent.session("c1", store=tmp_path) as session:
        done = await session.run(["What is this?", Image(b"png"), report], output=Ticket)
        await session.run("Thanks.")

    assert done.output == Ticket(title="A cat")
    log = FileSessions(tmp_path).read("c1")
    (first, second) = [each.data for each in log.records() if each.kind == "prompt"]
    assert first["text"] == "What is this?"
    assert first["content"][1]["source"]["data"] == "cG5n"
    assert first["content"][2]["source"] == {
        "type": "base64",
        "media_type": "application/pdf",
        "data": "JVBERg==",
        "name": "report.pdf",
    }
    assert first["output_schema"]["title"] == "Ticket"
    assert "content" not in second
    assert "output_schema" not in second
    replayed = await replay(log)
    assert replayed.differences == []
    assert replayed.turns == 2


async def test_a_session_has_one_writer(tmp_path: Path) -> None:
    agent = Agent(script("Hi."))

    async with agent.session("c1", store=tmp_path):
        with pytest.raises(SessionOpenError, match="Session `c1` is open in process") as raised:
            async with agent.session("c1", store=tmp_path):
                pass

    assert "open a fork: Sessions(store).fork(id)" in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_session_that_is_not_there_is_explained_to_a_program(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"no session `c9`\. Sessions\(store\)\.ids\(\)"):
        replay_sync(tmp_path, "c9")
    with pytest.raises(AgentError, match="no session `c9`"):
        Sessions(tmp_path).messages("c9")


async def test_sessions_are_read_forked_and_deleted_without_opening_them(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)

    async with Agent(script("Hi.")).session("c1", store=tmp_path) as session:
        await session.run("Hello")
        read = sessions.messages("c1")
        assert read == await session.messages()
    copy = sessions.fork("c1")
    sessions.delete("c1")

    assert [each["content"] for each in read if each["role"] == "user"] == ["Hello"]
    assert sessions.ids() == [copy]


def test_a_saved_bundle_is_run_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    Agent("mock:demo", instructions="You run a shop.", tools=[thread_of_this_call]).save_bundle(
        file
    )
    project = tmp_path / "project"
    project.mkdir()

    done = subprocess.run(
        [sys.executable, "-m", "amplifier_cli", "run", "-b", str(file), "Please call where."],
        cwd=project,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.stdout == "[mock] I called where and got: False\n", done.stderr


def test_the_command_shows_a_prompt_without_the_data_of_its_files(tmp_path: Path) -> None:
    async def ask_about_a_report() -> None:
        async with Agent(script("A report.")).session("c1", store=tmp_path) as session:
            await session.run(["What is this?", File(b"%PDF" * 1_000, name="report.pdf")])

    asyncio.run(ask_about_a_report())

    done = subprocess.run(
        [sys.executable, "-m", "amplifier_cli", "session", "show", "c1"],
        env={**os.environ, "HOME": str(tmp_path), "AMPLIFIER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert "What is this?" in done.stdout
    assert "A report." in done.stdout
    assert "JVBERg" not in done.stdout + done.stderr
