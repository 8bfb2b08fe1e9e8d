"""Contract of the hook registry: who is registered, who is called, and in which order."""

from __future__ import annotations

import asyncio
import inspect
from datetime import datetime
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult
from contract.doubles import Listener, deny, raising
from contract.requirements import requirement


@requirement("HOOK-1")
def test_a_registry_needs_nothing_and_names_eight_events() -> None:
    registry = HookRegistry()

    names = {name: value for name, value in vars(type(registry)).items() if name.isupper()}

    assert names == {
        "SESSION_START": "session:start",
        "SESSION_END": "session:end",
        "PROMPT_SUBMIT": "prompt:submit",
        "TOOL_PRE": "tool:pre",
        "TOOL_POST": "tool:post",
        "CONTEXT_PRE_COMPACT": "context:pre_compact",
        "ORCHESTRATOR_COMPLETE": "orchestrator:complete",
        "USER_NOTIFICATION": "user:notification",
    }


@requirement("HOOK-2", "HOOK-3", "HOOK-5", "HOOK-11")
async def test_handlers_run_by_priority_however_they_were_registered() -> None:
    registry = HookRegistry()
    order: list[str] = []

    def note(name: str) -> Any:
        async def handler(event: str, data: dict[str, Any]) -> None:
            order.append(name)

        return handler

    registry.register("tool:pre", note("late"), 999, "late")
    registry.register(event="tool:pre", handler=note("tie one"), priority=10, name="tie one")
    registry.on("tool:pre", note("tie two"), 10, name="tie two")
    registry.on("tool:pre", note("early"), priority=-10, name="early")
    registry.register("tool:pre", note("default"), name="default")
    await registry.emit("tool:pre", {})

    assert order == ["early", "default", "tie one", "tie two", "late"]
    assert registry.list_handlers("tool:pre") == {"tool:pre": order}
    assert registry.list_handlers("tool:post") == {"tool:post": []}


@requirement("HOOK-4")
async def test_a_remover_takes_away_its_own_registration_and_nothing_else() -> None:
    registry = HookRegistry()
    first, second = Listener(), Listener()
    remove_first = registry.register("a:b", first, name="same")
    registry.register("a:b", second, name="same")
    registry.register("c:d", first, name="same")

    remove_first()
    remove_first()
    await registry.emit("a:b", {})
    await registry.emit("c:d", {})

    assert first.events == ["c:d"]
    assert second.events == ["a:b"]


@requirement("HOOK-6")
@pytest.mark.parametrize("priority", ["10", 1.5, None])
def test_a_priority_that_is_no_integer_is_refused(priority: Any) -> None:
    with pytest.raises(TypeError):
        HookRegistry().register("a:b", Listener(), priority)


@requirement("HOOK-7")
def test_handlers_without_a_name_get_names_of_their_own() -> None:
    registry = HookRegistry()
    for event in ("a:b", "a:b", "c:d"):
        registry.register(event, Listener())

    names = [name for names in registry.list_handlers().values() for name in names]

    assert len(set(names)) == 3
    assert all(names)


@requirement("HOOK-8")
async def test_what_cannot_be_called_fails_loudly_when_the_event_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = HookRegistry()
    nonsense: Any = "not callable"
    heard = Listener()
    registry.register("a:b", nonsense, name="nonsense")
    registry.register("a:b", heard)

    result = await registry.emit("a:b", {})

    assert result.action == "continue"
    assert heard.events == ["a:b"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "nonsense" in caplog.text


@requirement("HOOK-9", "HOOK-10", "HOOK-12")
async def test_unregistering_a_name_removes_it_from_every_event() -> None:
    registry = HookRegistry()
    assert registry.list_handlers() == {}
    shared, other = Listener(), Listener()
    registry.register("a:b", shared, name="shared")
    registry.register("c:d", shared, name="shared")
    registry.register("c:d", other, name="other")

    registry.unregister("shared")
    registry.unregister("nobody")
    await registry.emit("a:b", {})
    await registry.emit("c:d", {})

    assert shared.calls == []
    assert registry.list_handlers() == {"a:b": [], "c:d": ["other"]}


@requirement("HOOK-13", "HOOK-14", "HOOK-34")
async def test_default_fields_lie_under_the_data_of_every_event() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)
    registry.set_default_fields(old=True)
    registry.set_default_fields(session_id="s", parent_id=None)

    await registry.emit("a:b", {})
    assert (heard.data["session_id"], heard.data["parent_id"]) == ("s", None)
    assert "old" not in heard.data

    result = await registry.emit("a:b", {"session_id": "mine"})
    assert heard.data["session_id"] == "mine"
    assert result.action == "continue"
    assert result.data is not None
    assert result.data["session_id"] == "mine"
    assert result.data["parent_id"] is None
    assert "timestamp" in result.data


@requirement("HOOK-15")
async def test_emitting_gives_a_coroutine_that_can_be_a_task() -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener())

    emitting = registry.emit("a:b", "text")
    collecting = registry.emit_and_collect("a:b", "text")

    assert inspect.iscoroutine(emitting)
    assert inspect.iscoroutine(collecting)
    assert (await asyncio.create_task(emitting)).action == "continue"
    assert await asyncio.create_task(collecting) == []


@requirement("HOOK-16")
async def test_changes_made_while_emitting_count_from_the_next_emit_on() -> None:
    registry = HookRegistry()
    late, leaving = Listener(), Listener()

    async def change(event: str, data: dict[str, Any]) -> None:
        registry.register("a:b", late, name="late")
        registry.unregister("leaving")

    remove = registry.register("a:b", change, -1)
    registry.register("a:b", leaving, name="leaving")
    await registry.emit("a:b", {})
    assert (late.calls, len(leaving.calls)) == ([], 1)

    remove()
    await registry.emit("a:b", {})
    assert (len(late.calls), len(leaving.calls)) == (1, 1)


@requirement("HOOK-17", "HOOK-18")
async def test_without_handlers_the_data_comes_back_untouched() -> None:
    registry = HookRegistry()
    registry.set_default_fields(session_id="s")
    registry.register("c:d", Listener())
    inner = object()

    result = await registry.emit("a:b", {"inner": inner})

    assert isinstance(result, HookResult)
    assert result.action == "continue"
    assert result.data is not None
    assert list(result.data) == ["inner"]
    assert result.data["inner"] is inner


@requirement("HOOK-19")
async def test_every_event_is_stamped_with_the_time_in_utc() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    for _ in range(3):
        await registry.emit("a:b", {"timestamp": "forged"})

    stamps = [data["timestamp"] for _, data in heard.calls]
    assert all(stamp.endswith("+00:00") for stamp in stamps)
    times = [datetime.fromisoformat(stamp) for stamp in stamps]
    assert times == sorted(times)


class _Counter:
    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def plain(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        self.seen.append((event, data["n"]))
        return {"action": "continue", "data": {"ignored": True}}

    async def bound(self, event: str, data: dict[str, Any]) -> HookResult:
        self.seen.append((event, data["n"]))
        return HookResult()

    async def __call__(self, event: str, data: dict[str, Any]) -> None:
        self.seen.append((event, data["n"]))


@requirement("HOOK-20", "HOOK-25", "HOOK-55")
async def test_functions_methods_and_callable_objects_all_serve_as_handlers() -> None:
    registry = HookRegistry()
    counter = _Counter()

    def coroutine(event: str, data: dict[str, Any]) -> Any:
        return counter(event, data)

    for handler in (counter.plain, counter.bound, counter, coroutine):
        for event in ("a:b", "c:d"):
            registry.on(event, handler, name="counter", priority=10)

    assert (await registry.emit("a:b", {"n": 1})).action == "continue"
    assert (await registry.emit("c:d", {"n": 2})).action == "continue"

    assert counter.seen == [("a:b", 1)] * 4 + [("c:d", 2)] * 4


@requirement("HOOK-21")
async def test_handlers_run_on_the_callers_loop() -> None:
    registry = HookRegistry()
    loops: list[asyncio.AbstractEventLoop] = []

    async def handler(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    registry.register("a:b", handler)
    await registry.emit("a:b", {})

    assert loops == [asyncio.get_running_loop()]
    assert loops[0] is asyncio.get_running_loop()


@requirement("HOOK-22", "HOOK-23")
@pytest.mark.parametrize("error", [RuntimeError("boom"), asyncio.CancelledError()])
async def test_a_failing_handler_is_logged_and_the_next_one_runs(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("tool:pre", raising(error), 1, name="broken")
    registry.register("tool:pre", heard, 2)

    async with asyncio.timeout(120):
        result = await registry.emit("tool:pre", {})

    assert result.action == "continue"
    assert heard.events == ["tool:pre"]
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "tool:pre" in record.getMessage()
    assert "broken" in record.getMessage()


@requirement("HOOK-24")
async def test_cancelling_the_emitting_task_reaches_handler_and_caller() -> None:
    registry = HookRegistry()
    started = asyncio.Event()
    outcome: list[str] = []

    async def waits(event: str, data: dict[str, Any]) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            outcome.append("cancelled")
            raise

    later = Listener()
    registry.register("a:b", waits)
    registry.register("a:b", later, 1)
    async with asyncio.timeout(120):
        task = asyncio.create_task(registry.emit("a:b", {}))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert outcome == ["cancelled"]
    assert later.calls == []


@requirement("HOOK-54")
async def test_emits_interleave_while_handlers_of_one_emit_never_overlap() -> None:
    registry = HookRegistry()
    running: dict[str, int] = {}
    together: set[str] = set()

    async def handler(event: str, data: dict[str, Any]) -> None:
        assert running.get(data["who"], 0) == 0
        running[data["who"]] = 1
        together.update(who for who, count in running.items() if count)
        await asyncio.sleep(0)
        running[data["who"]] = 0

    for _ in range(3):
        registry.register("a:b", handler)
    async with asyncio.timeout(120):
        results = await asyncio.gather(
            registry.emit("a:b", {"who": "one"}), registry.emit("a:b", {"who": "two"})
        )

    assert [result.data and result.data["who"] for result in results] == ["one", "two"]
    assert together == {"one", "two"}


@requirement("HOOK-54")
async def test_a_handler_may_emit_events_itself() -> None:
    registry = HookRegistry()
    audit = Listener(deny("inner no"))

    async def outer(event: str, data: dict[str, Any]) -> HookResult:
        inner = await registry.emit("approval:required", {"for": event})
        return HookResult(action="deny", reason=inner.reason)

    registry.register("tool:pre", outer, -10)
    registry.register("approval:required", audit)

    result = await registry.emit("tool:pre", {})

    assert (result.action, result.reason) == ("deny", "inner no")
    assert audit.data["for"] == "tool:pre"
