"""Tests of turns in a database: the spans of every worker belong to the trace of the submitter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from amplifier import Agent, ToolEnded
from amplifier_core.testing import wait_for
from amplifier_sandbox.platforms.signals import KILL

TRACER = TracerProvider().get_tracer("app")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'turns.sqlite'}"


@contextmanager
def worker(url: str, home: Path, *, ends_by: signal.Signals = signal.SIGTERM) -> Generator[None]:
    """Run `amplifier worker` in a process."""
    command = [sys.executable, "-m", "amplifier_cli", "worker", "--database", url]
    process = subprocess.Popen(command, env={**os.environ, "AMPLIFIER_HOME": str(home)})
    try:
        yield
    finally:
        process.send_signal(ends_by)
        process.wait()


def model(*steps: Any) -> dict[str, Any]:
    return {"module": "provider-mock", "config": {"script": list(steps)}}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def otel(receiver: Any) -> dict[str, Any]:
    config = {"otlp": {"endpoint": receiver.url}}
    return {"module": "hooks-otel", "config": config, "required": True}


def names(receiver: Any) -> set[str]:
    return {span.name for span in receiver.spans()}


@pytest.mark.slow
async def test_the_spans_of_a_worker_are_below_the_span_that_submitted_the_turn(
    receiver: Any, url: str, tmp_path: Path
) -> None:
    helper = Agent(model("Yes."), description="Says yes.")
    lead = Agent(
        model(calls("task", agent="helper", prompt="Yes?"), "Done."),
        agents={"helper": helper},
        hooks=[otel(receiver)],
    )

    with worker(url, tmp_path):
        async with lead.durable(url) as durable:
            with TRACER.start_as_current_span("POST /ask") as span:
                turn = await durable.submit("c1", "Hi")
            await turn.result()

    above = span.get_span_context()
    assert {each.trace_id.hex() for each in receiver.spans()} == {f"{above.trace_id:032x}"}
    turns = [each for each in receiver.spans() if each.name == "invoke_agent"]
    tasks = {each.span_id for each in receiver.spans() if each.name == "execute_tool task"}
    # The helper is a turn of its own, and the lead's is parked meanwhile.
    first, of_helper, second = turns
    assert {first.parent_span_id.hex(), second.parent_span_id.hex()} == {f"{above.span_id:016x}"}
    assert of_helper.parent_span_id in tasks


@pytest.mark.slow
async def test_after_a_worker_is_killed_the_next_one_continues_the_trace(
    receiver: Any, url: str, tmp_path: Path
) -> None:
    agent = Agent(
        model(calls("todo", todos=[]), {"text": "Done.", "delay_seconds": 2}),
        tool_modules=[{"module": "tool-todo"}],
        hooks=[otel(receiver)],
    )

    async with agent.durable(url) as durable:
        with TRACER.start_as_current_span("POST /ask") as span:
            turn = await durable.submit("c1", "Hi")
        with worker(url, tmp_path, ends_by=KILL):
            async for event in turn.stream():
                if isinstance(event, ToolEnded):
                    break
            assert await wait_for(lambda: "execute_tool todo" in names(receiver), timeout=20)
        of_first = list(receiver.spans())
        with worker(url, tmp_path):
            await turn.result()

    above = span.get_span_context()
    (of_second,) = [each for each in receiver.spans() if each.name == "invoke_agent"]
    assert of_second.parent_span_id.hex() == f"{above.span_id:016x}"
    assert {each.trace_id for each in of_first} == {of_second.trace_id}


async def test_each_turn_of_a_session_belongs_to_the_trace_it_was_submitted_in(
    receiver: Any, url: str
) -> None:
    agent = Agent(model("One.", "Two."), hooks=[otel(receiver)])

    async with agent.durable(url) as durable, durable.worker():
        with TRACER.start_as_current_span("POST /ask") as span:
            turn = await durable.submit("c1", "Hi")
        await turn.result()
        await (await durable.submit("c1", "Hi again")).result()

    traced, alone = [each for each in receiver.spans() if each.name == "invoke_agent"]
    assert traced.parent_span_id.hex() == f"{span.get_span_context().span_id:016x}"
    assert alone.parent_span_id == b""
    assert alone.trace_id != traced.trace_id
