"""The same agent in a database: submitted, streamed, approved, updated, listed and deleted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amplifier import (
    Agent,
    AgentError,
    Done,
    File,
    Image,
    Question,
    Restarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from amplifier.testing import ScriptedModel
from amplifier_runtime.errors import NoDatabaseError, NotFoundError, SessionBusyError
from amplifier_sandbox.platforms.signals import KILL
from end_to_end.shop import (
    Deps,
    Ticket,
    calls,
    lookup,
    name_the_files,
    only_small_orders,
    pay,
    refund,
    script,
)

TESTS = Path(__file__).parents[3] / "tests"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'turns.sqlite'}"


async def test_a_turn_is_run_by_a_worker_with_the_dependencies_of_its_session(url: str) -> None:
    agent = Agent(
        script(calls("lookup", order_id=7), "Found."),
        instructions="You run a shop.",
        tools=[lookup],
        deps=Deps,
        guards=[only_small_orders],
    )

    async with agent.durable(url) as durable, durable.worker():
        turn = await durable.submit("c1", "Where is 7?", key="r1", deps=Deps("ann"))
        again = await durable.submit("c1", "Where is 7?", key="r1", deps=Deps("ann"))
        events = [each async for each in turn.stream()]
        done = await durable.turn("c1", turn.turn_id).result()

    assert again.turn_id == turn.turn_id
    assert [each.output for each in events if isinstance(each, ToolEnded)] == [
        {"number": 7, "customer": "ann"}
    ]
    assert [each.input for each in events if isinstance(each, ToolStarted)] == [{"order_id": 7}]
    assert events[-1] == done
    assert done.output == "Found."
    assert done.usage.calls == 2
    assert done.stop_reason == "completed"


async def test_a_sub_agent_elsewhere_has_the_dependencies_too(url: str) -> None:
    helper = Agent(
        script(calls("lookup", order_id=3), "It is ann's."),
        tools=[lookup],
        deps=Deps,
        description="Looks up orders.",
    )
    lead = Agent(
        script(calls("task", agent="helper", prompt="Whose is 3?"), "Done."),
        deps=Deps,
        agents={"helper": helper},
    )

    async with lead.durable(url) as durable, durable.worker():
        turn = await durable.submit("c1", "Find out.", deps=Deps("ann"))
        events = [each async for each in turn.stream()]

    assert [each.output for each in events if isinstance(each, ToolEnded)] == ["It is ann's."]


async def test_a_question_is_answered_by_another_process_than_the_one_that_asks(url: str) -> None:
    agent = Agent(script(calls("refund", order_id=7), "Done."), tools=[refund])
    asked: list[Question] = []

    async with agent.durable(url) as durable, durable.worker():
        turn = await durable.submit("c1", "Refund 7.")
        async for event in turn.stream():
            match event:
                case Question(answer=answer):
                    asked.append(event)
                    with pytest.raises(AgentError, match="is not an option"):
                        await answer("Perhaps")
                    await answer("Allow once")
                case ToolEnded(name, output, error):
                    assert (name, output, error) == ("refund", "refunded 7 (none)", None)
                case TextDelta() | ToolStarted() | Done() | Restarted():
                    pass
                case _:
                    raise AssertionError(event)

    assert asked[0].prompt.startswith("Allow refund?")
    assert "Allow once" in asked[0].options


async def test_images_and_types_of_a_turn_reach_the_worker(url: str) -> None:
    agent = Agent(script('{"title": "A cat"}'))

    async with agent.durable(url) as durable, durable.worker():
        prompt = ["What is this?", Image(b"png")]
        turn = await durable.submit("c1", prompt, output=Ticket, metadata={"request": 7})
        done = await turn.result()

    assert done.output == Ticket(title="A cat")


async def test_files_of_a_turn_reach_the_model_of_the_worker(url: str) -> None:
    agent = Agent(ScriptedModel(name_the_files))
    prompt = ["Read these.", File(b"%PDF", name="a.pdf"), File(b"hi", "text/plain", "b.txt")]

    async with agent.durable(url) as durable, durable.worker():
        done = await (await durable.submit("c1", prompt)).result()

    assert done.output == "a.pdf: JVBERg==, b.txt: aGk="


async def test_a_session_gets_the_tools_and_instructions_of_a_changed_agent(url: str) -> None:
    first = Agent(script("No tools."))
    changed = Agent(script(calls("lookup", order_id=7), "Found."), tools=[lookup], deps=Deps)

    async with first.durable(url) as durable, durable.worker():
        await (await durable.submit("c1", "Hi")).result()
    async with changed.durable(url) as durable:
        waiting = await durable.submit("c2", "Hi", deps=Deps("bob"))
        with pytest.raises(SessionBusyError, match="not finished"):
            await durable.update("c2", deps=Deps("bob"))
        with pytest.raises(SessionBusyError):
            await durable.delete("c2")
        async with durable.worker():
            await waiting.result()
            await durable.update("c1", deps=Deps("ann"))
            done = await (await durable.submit("c1", "Where is 7?")).result()

    assert done.usage.calls == 2


async def test_sessions_are_listed_and_deleted_with_their_children(url: str) -> None:
    helper = Agent(script("Yes."), description="Says yes.")
    agent = Agent(
        script(calls("task", agent="helper", prompt="Yes?"), "Done."), agents={"helper": helper}
    )

    async with agent.durable(url) as durable, durable.worker():
        await (await durable.submit("c1", "Hi")).result()
        turn = await durable.submit("c2", "Hi")
        await turn.result()
        assert await durable.session_ids() == ["c2", "c1"]
        await durable.delete("c1")
        assert await durable.session_ids() == ["c2"]
        with pytest.raises(NotFoundError):
            await durable.delete("c1")
        assert (await turn.result()).output == "Done."


async def test_a_cancelled_turn_ends_its_stream(url: str) -> None:
    agent = Agent({"module": "provider-mock", "config": {"delay_seconds": 60, "mode": "echo"}})

    async with agent.durable(url) as durable, durable.worker():
        turn = await durable.submit("c1", "Hi")
        await turn.cancel(immediate=True)
        done = await turn.result()

    assert done.output == ""
    assert done.stop_reason == "cancelled"


async def test_tenants_do_not_see_each_others_sessions(url: str) -> None:
    agent = Agent(script("Hi."))

    async with agent.durable(url, tenant="a") as mine, agent.durable(url, tenant="b") as theirs:
        await mine.submit("c1", "Hi")
        assert await theirs.session_ids() == []


async def test_dependencies_without_a_type_are_refused_and_not_dropped(url: str) -> None:
    agent = Agent(script("Hi."))

    async with agent.durable(url) as durable:
        with pytest.raises(AgentError, match="does not name their type"):
            await durable.submit("c1", "Hi", deps=Deps("ann"))  # pyright: ignore[reportArgumentType, reportCallIssue] - that is the mistake


@pytest.mark.parametrize("place", ["/nonexistent/shop.sqlite", "localhost:1/shop"])
async def test_a_database_that_cannot_be_used_is_an_error_and_not_a_wait(place: str) -> None:
    scheme = "sqlite:///" if place.endswith("sqlite") else "postgresql://"

    with pytest.raises(NoDatabaseError, match="The database cannot be used"):
        async with Agent(script("Hi.")).durable(scheme + place):
            pass


def test_functions_of_a_script_are_pointed_out(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from amplifier import Agent\n"
        "def clock() -> str:\n    return 'noon'\n"
        "Agent('mock:demo', tools=[clock]).durable('sqlite:///x.sqlite')\n",
        encoding="utf-8",
    )

    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert "only workers in this process find them" in done.stderr


@contextmanager
def worker_process(url: str, home: Path, *, ends_by: signal.Signals) -> Generator[None]:
    """Run `amplifier worker` in an environment that can import the tools."""
    command = [sys.executable, "-m", "amplifier_cli", "worker", "--database", url]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "AMPLIFIER_HOME": str(home)}
    process = subprocess.Popen(command, env=environment)
    try:
        yield
    finally:
        process.send_signal(ends_by)
        process.wait()


@pytest.mark.slow
async def test_a_turn_whose_worker_is_killed_continues_on_another(url: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    agent = Agent(
        script(calls("pay", ledger=str(ledger)), {"text": "Paid.", "delay_seconds": 2}),
        tools=[pay],
    )

    async with agent.durable(url) as durable:
        turn = await durable.submit("c1", "Pay.")
        with worker_process(url, tmp_path, ends_by=KILL):
            async for event in turn.stream():
                if isinstance(event, ToolEnded):
                    break
        with worker_process(url, tmp_path, ends_by=signal.SIGTERM):
            done = await turn.result()

    assert done.output == "Paid."
    assert done.usage.calls == 2
    assert ledger.read_text(encoding="utf-8") == "paid\n"
