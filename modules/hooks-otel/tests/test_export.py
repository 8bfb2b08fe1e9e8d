"""Tests of the way out: what a receiver gets, and what happens when there is none."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from pydantic import ValidationError

from amplifier_core import AmplifierSession
from amplifier_core.errors import SessionError
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_hooks_otel import mount


def otlp(receiver: Any, **config: Any) -> dict[str, Any]:
    return {"otlp": {"endpoint": receiver.url, "service_name": "diggers", **config}}


async def test_a_receiver_gets_spans_and_metrics_over_http(harness: Any, receiver: Any) -> None:
    plan = harness.plan(harness.step(text="Done.", cost="0.5"), otel=otlp(receiver))
    async with AmplifierSession(plan, display_system=harness) as session:
        await session.execute("hello")

    names = {span.name: span for span in receiver.spans()}
    assert set(names) == {"invoke_agent", "chat mock-model"}
    assert names["chat mock-model"].parent_span_id == names["invoke_agent"].span_id
    resource = receiver.got["/v1/traces"][0].resource_spans[0].resource
    about = {each.key: each.value.string_value for each in resource.attributes}
    assert about["service.name"] == "diggers"
    assert about["service.instance.id"] == session.session_id
    (metrics,) = receiver.got["/v1/metrics"][-1].resource_metrics[0].scope_metrics
    assert {each.name for each in metrics.metrics} == {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
        "amplifier.client.cost",
    }
    assert harness.lines == []


async def test_a_receiver_that_fails_is_told_of_once_and_the_turns_go_on(
    harness: Any, receiver: Any
) -> None:
    receiver.status = 400
    session = await harness.open(harness.plan("one", "two", "three", otel=otlp(receiver)))

    async with asyncio.timeout(120):
        assert await session.execute("a") == "one"
        assert await wait_for(lambda: bool(harness.lines), timeout=120)
        assert await session.execute("b") == "two"
        assert await wait_for(lambda: len(receiver.got["/v1/traces"]) > 1, timeout=120)
        assert await session.execute("c") == "three"
        await session.cleanup()

    (line,) = harness.lines
    assert "OpenTelemetry data is lost" in line
    ((_, told),) = harness.recorder.events
    assert (told["cause"], told["message"]) == ("not_exported", line)


async def test_a_receiver_that_hangs_holds_no_turn_and_no_end(harness: Any, receiver: Any) -> None:
    receiver.gate.clear()
    config = otlp(receiver, timeout_seconds=0.3)
    session = await harness.open(harness.plan(*["ok"] * 50, otel=config))

    started = time.monotonic()
    await session.execute("first")
    assert await asyncio.to_thread(receiver.asked.wait, 5)
    for _ in range(49):
        await session.execute("more")
    assert time.monotonic() - started < 5
    assert receiver.spans() == []
    async with asyncio.timeout(120):
        await session.cleanup()

    assert len([line for line in harness.lines if "data is lost" in line]) == 1


async def test_an_end_that_cannot_send_in_time_says_so(
    harness: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amplifier_module_hooks_otel.otlp._CLOSE_SECONDS", 0.05)
    receiver.gate.clear()
    session = await harness.open(harness.plan("ok", otel=otlp(receiver)))
    await session.execute("hello")

    async with asyncio.timeout(120):
        await session.cleanup()

    assert any("not sent in time" in line for line in harness.lines)
    assert "not_flushed" in [data["cause"] for _, data in harness.recorder.events]
    receiver.gate.set()


async def test_a_refused_connection_is_told_of(harness: Any, receiver: Any) -> None:
    config = otlp(receiver, timeout_seconds=0.2)
    receiver.server_close()
    session = await harness.open(harness.plan("ok", otel=config))

    assert await session.execute("hello") == "ok"
    await session.cleanup()

    assert len(harness.lines) == 1


async def test_an_exporter_of_the_app_that_raises_is_told_of_too(harness: Any) -> None:
    class Broken(SpanExporter):
        def export(self, spans: Any) -> Any:
            raise OSError("no route")

    harness.tracers.add_span_processor(SimpleSpanProcessor(Broken()))
    session = await harness.open(harness.plan("ok"))

    assert await session.execute("hello") == "ok"
    await session.cleanup()

    (line,) = harness.lines
    assert "data is lost" in line


async def test_without_a_provider_the_person_is_told_that_nothing_is_recorded(harness: Any) -> None:
    session = await harness.open(harness.plan("ok"), handed=False)
    await session.execute("hello")
    await session.cleanup()

    (line,) = harness.lines
    assert "nothing is recorded" in line
    assert [data["cause"] for _, data in harness.recorder.events] == ["no_provider"]


async def test_the_log_of_the_sdk_is_left_as_it_was(harness: Any) -> None:
    loggers = [logging.getLogger(f"opentelemetry.{each}") for each in ("sdk", "exporter")]
    before = [list(each.handlers) for each in loggers]
    session = await harness.open(harness.plan("ok"))
    during = [len(each.handlers) for each in loggers]
    await session.cleanup()

    assert during == [len(each) + 1 for each in before]
    assert [list(each.handlers) for each in loggers] == before


async def test_a_failure_of_its_own_denies_nothing_and_is_told(
    harness: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get_tracer(self, name: str) -> Any:
            return self

        def start_span(self, *args: Any) -> Any:
            raise ValueError("planted")

    harness.tracers, tracers = Broken(), harness.tracers
    session = await harness.open(harness.plan("ok", "ok"))
    harness.tracers = tracers

    assert await session.execute("hello") == "ok"
    assert await session.execute("hello") == "ok"
    await session.cleanup()

    assert harness.lines == ["Something is missing in the trace: execution:start."]
    assert "planted" in caplog.text


async def test_without_the_sdk_the_mount_says_what_to_install(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "amplifier_module_hooks_otel.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)

    with pytest.raises(SessionError, match="opentelemetry-exporter-otlp-proto-http"):
        await harness.open(harness.plan("ok", otel={"otlp": {}}))


async def test_unknown_keys_stop_the_mount() -> None:
    with pytest.raises(ValidationError, match="endpoint"):
        await mount(MockCoordinator(), {"endpoint": "http://127.0.0.1"})


async def test_a_child_with_a_configuration_of_its_own_is_told_that_the_root_decides(
    harness: Any,
) -> None:
    session = await harness.open(harness.plan("ok", otel={"agent_name": "lead"}))
    own = {"module": "hooks-otel", "config": {"agent_name": "child", "capture_content": True}}
    child = session.fork({"hooks": [own]})
    async with child:
        await child.execute("secret plan")

    assert [span.name for span in harness.spans("invoke_agent")] == ["invoke_agent child"]
    assert "secret plan" not in str([span.attributes for span in harness.spans()])
    assert any("its root's holds" in line for line in harness.lines)
