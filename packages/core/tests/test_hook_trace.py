"""Tests of who answered what: the trace, the name in a denial, and the limit nobody chose."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult
from amplifier_core.hooks import HookTrace
from contract.doubles import Listener, deny, modify, raising
from contract.requirements import requirement


def short(traces: list[HookTrace]) -> list[tuple[str, str, str]]:
    return [(each.event, each.handler, each.action) for each in traces]


@requirement("HOOK-57")
async def test_every_answer_of_an_emit_is_traced_in_order() -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener(None), name="silent")
    registry.register("a:b", Listener(modify({"n": 2})), name="editor")
    registry.register("a:b", Listener("rubbish"), name="broken")
    registry.register("a:b", Listener(), name="never asked")
    traces: list[HookTrace] = []
    registry.trace(traces.append)

    await registry.emit("a:b", {})

    assert short(traces) == [
        ("a:b", "silent", "continue"),
        ("a:b", "editor", "modify"),
        ("a:b", "broken", "deny"),
    ]
    assert all(each.seconds >= 0 and each.error is None for each in traces)


@requirement("HOOK-57")
async def test_a_handler_that_fails_is_traced_with_its_error() -> None:
    registry = HookRegistry()
    registry.register("a:b", raising(RuntimeError("boom")), name="observer")
    registry.register("a:b", raising(RuntimeError("bang")), name="guard", on_error="deny")
    traces: list[HookTrace] = []
    registry.trace(traces.append)

    await registry.emit("a:b", {})

    assert short(traces) == [("a:b", "observer", "continue"), ("a:b", "guard", "deny")]
    assert [each.error for each in traces] == ["RuntimeError: boom", "RuntimeError: bang"]


async def test_collecting_is_traced_too_and_nothing_is_once_it_was_undone() -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener(HookResult(data={"n": 1})), name="giver")
    traces: list[HookTrace] = []
    undo = registry.trace(traces.append)

    await registry.emit_and_collect("a:b", {})
    undo()
    undo()
    await registry.emit("a:b", {})

    assert short(traces) == [("a:b", "giver", "continue")]


async def test_the_time_of_a_trace_is_that_of_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("amplifier_core.hooks.time.perf_counter", lambda: now[0])
    registry = HookRegistry()

    def slow(event: str, data: Any) -> None:
        now[0] += 2.5

    registry.register("a:b", slow)
    traces: list[HookTrace] = []
    registry.trace(traces.append)

    await registry.emit("a:b", {})

    assert [each.seconds for each in traces] == [2.5]


async def test_a_trace_that_fails_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener(deny("no")))
    traces: list[HookTrace] = []

    def fail(trace: HookTrace) -> None:
        raise RuntimeError("boom")

    registry.trace(fail)
    registry.trace(traces.append)

    assert (await registry.emit("a:b", {})).reason == "no"
    assert len(traces) == 1
    assert "hook trace failed event=a:b" in caplog.text


@requirement("HOOK-58")
@pytest.mark.parametrize(
    "answer",
    [deny("no"), deny("no", denied_by="somebody else"), {"action": "deny", "reason": "no"}],
)
async def test_a_denial_names_its_handler_and_keeps_its_reason(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    registry = HookRegistry()
    registry.register("tool:pre", Listener(), -1, "before")
    registry.register("tool:pre", Listener(answer), name="fence")

    with caplog.at_level(logging.INFO):
        result = await registry.emit("tool:pre", {})

    assert (result.action, result.reason, result.denied_by) == ("deny", "no", "fence")
    assert "hook denied event=tool:pre handler=fence" in caplog.text


@requirement("HOOK-58")
async def test_what_is_not_denied_names_nobody() -> None:
    registry = HookRegistry()
    registry.register("tool:pre", Listener(modify({"n": 1})), name="editor")

    assert (await registry.emit("tool:pre", {})).denied_by is None


@requirement("HOOK-59")
@pytest.mark.parametrize(
    ("options", "expected"), [({}, [3600.0]), ({"timeout": None}, []), ({"timeout": 7.0}, [7.0])]
)
async def test_a_handler_that_waits_has_an_hour_unless_it_says_otherwise(
    options: dict[str, Any], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    limits: list[float] = []

    def noting(delay: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        limits.append(delay)
        return call_later(delay, *args, **kwargs)

    async def wait(event: str, data: Any) -> None:
        await asyncio.sleep(0)

    registry = HookRegistry()
    registry.register("tool:pre", wait, on_error="deny", **options)
    monkeypatch.setattr(loop, "call_later", noting)

    assert (await registry.emit("tool:pre", {})).action == "continue"
    assert limits == expected


@requirement("HOOK-59")
async def test_a_guard_that_reaches_the_default_limit_denies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(event: str, data: Any) -> None:
        await asyncio.Event().wait()

    registry = HookRegistry()
    registry.register("tool:pre", never, name="guard", on_error="deny")
    loop = asyncio.get_running_loop()

    def immediately(delay: float, callback: Any, *args: Any) -> asyncio.Handle:
        return loop.call_soon(callback, *args)

    monkeypatch.setattr(loop, "call_later", immediately)

    result = await registry.emit("tool:pre", {})

    assert (result.action, result.denied_by) == ("deny", "guard")
    assert result.reason == "Guard `guard` failed on tool:pre: TimeoutError: no result after 3600 s"


async def test_a_handler_that_never_waits_costs_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("tool:pre", heard)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", None)

    await registry.emit("tool:pre", {})

    assert len(heard.calls) == 1


def test_a_trace_cannot_be_changed_by_one_of_several_who_get_it() -> None:
    trace = HookTrace("tool:pre", "guard", "deny", 0.1)

    with pytest.raises(FrozenInstanceError):
        trace.action = "continue"  # pyright: ignore[reportAttributeAccessIssue] - that is the point


def test_a_trace_made_without_an_error_has_none() -> None:
    assert HookTrace("a:b", "mine", "continue", 0.5).error is None
