"""Contract of the hook registry: what handlers and callers see of the data, and collecting it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from amplifier_core import HookRegistry, HookResult, ToolResult
from contract.doubles import Listener, deny, raising
from contract.requirements import requirement


@requirement("HOOK-40")
async def test_changing_the_view_in_place_reaches_nobody() -> None:
    registry = HookRegistry()
    heard = Listener()

    async def vandal(event: str, data: dict[str, Any]) -> None:
        data["list"].append("added")
        data["deep"]["dict"]["n"] = 99
        data["new"] = True
        del data["keep"]

    registry.register("a:b", vandal, 1)
    registry.register("a:b", heard, 2)
    caller = {"list": [1], "deep": {"dict": {"n": 1}}, "keep": "me"}

    result = await registry.emit("a:b", caller)

    untouched = {"list": [1], "deep": {"dict": {"n": 1}}, "keep": "me"}
    assert caller == untouched
    assert result.data is not None
    for view in (heard.data, result.data):
        assert {key: view[key] for key in untouched} == untouched
        assert "new" not in view


@requirement("HOOK-40")
async def test_a_view_kept_by_one_handler_cannot_change_later_events() -> None:
    registry = HookRegistry()
    first, second = Listener(), Listener()
    registry.register("a:b", first, 1)
    registry.register("a:b", second, 2)

    await registry.emit("a:b", {"list": [1]})

    assert first.data == second.data
    assert first.data is not second.data
    assert first.data["list"] is not second.data["list"]


class _Model(BaseModel):
    cost: Decimal = Decimal("0.5")


@requirement("HOOK-41")
async def test_handlers_see_data_that_json_can_carry() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    await registry.emit(
        "a:b",
        {
            "cost": Decimal("1.23"),
            "when": datetime(2024, 1, 1, 12, 0, 0),
            "aware": datetime(2024, 1, 1, tzinfo=UTC),
            "pair": (1, 2),
            "by_number": {1: "one"},
            "model": _Model(),
            "result": ToolResult(output={"cost": Decimal("2.50")}),
            "anything": object(),
            "set": {1},
        },
    )

    json.dumps(heard.data, allow_nan=False)
    assert heard.data["cost"] == "1.23"
    assert heard.data["when"] == "2024-01-01 12:00:00"
    assert heard.data["pair"] == [1, 2]
    assert heard.data["by_number"] == {"1": "one"}


@requirement("HOOK-41")
async def test_a_handler_may_answer_with_values_json_does_not_know() -> None:
    registry = HookRegistry()
    heard = Listener()
    answer = HookResult(action="modify", data={"cost": Decimal("1.5")})
    registry.register("a:b", Listener(answer), 1)
    registry.register("a:b", heard, 2)

    result = await registry.emit("a:b", {"cost": Decimal("1.0")})

    assert heard.data == {"cost": "1.5"}
    assert result.data is not None
    assert str(result.data["cost"]) == "1.5"


@requirement("HOOK-42")
async def test_what_nobody_changed_comes_back_as_the_callers_own_object() -> None:
    registry = HookRegistry()
    registry.register("tool:post", Listener())
    own = ToolResult(output={"stdout": "héllo", "n": None})
    rows = [{"a": 1}]

    result = await registry.emit("tool:post", {"result": own, "rows": rows})

    assert result.data is not None
    assert result.data["result"] is own
    assert result.data["rows"] is rows


@requirement("HOOK-42")
async def test_identity_survives_a_modification_of_something_else() -> None:
    registry = HookRegistry()

    async def edit_one(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "note": "edited", "rows": [{"a": 2}]})

    registry.register("tool:post", edit_one)
    own = ToolResult(output={"stdout": "héllo"})
    rows = [{"a": 1}]

    result = await registry.emit("tool:post", {"result": own, "rows": rows, "note": "raw"})

    assert result.data is not None
    assert result.data["result"] is own
    assert result.data["rows"] == [{"a": 2}]
    assert result.data["note"] == "edited"
    assert rows == [{"a": 1}]


@requirement("HOOK-43")
@pytest.mark.parametrize("data", [None, "a string", "{}", 7, [1, 2]])
async def test_data_that_is_no_dict_is_passed_as_it_is(data: Any) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    result = await registry.emit("a:b", data)
    silent = await registry.emit("nobody:listens", data)

    assert heard.data == data
    assert (result.action, result.data) == ("continue", {})
    assert silent.action == "continue"


class _OldModel:
    def model_dump(self) -> dict[str, Any]:
        return {"n": 1}


@requirement("HOOK-44")
@pytest.mark.parametrize("data", [_OldModel(), _Model()])
async def test_a_model_as_data_is_dumped(data: Any) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    result = await registry.emit("a:b", data)

    assert result.action == "continue"
    assert {"n": 1}.items() <= heard.data.items() or {"cost": "0.5"}.items() <= heard.data.items()


@requirement("HOOK-45")
async def test_data_that_contains_itself_is_refused() -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener())
    loop: dict[str, Any] = {}
    loop["self"] = loop

    with pytest.raises(ValueError, match="Circular"):
        await registry.emit("a:b", loop)


def _correlated() -> tuple[HookRegistry, Listener]:
    registry = HookRegistry()
    heard = Listener()
    for event in (
        "llm:request",
        "llm:response",
        "llm:stream_block_delta",
        "provider:error",
        "provider:retry",
        "provider:throttle",
        "provider:request",
        "tool:pre",
    ):
        registry.register(event, heard)
    return registry, heard


async def _ids(events: list[tuple[str, str | None]]) -> list[str | None]:
    """Emit events, with or without an explicit request id, and give the ids handlers saw."""
    registry, heard = _correlated()

    async def run() -> list[str | None]:
        for event, explicit in events:
            await registry.emit(event, {"request_id": explicit} if explicit else {})
        return [data.get("request_id") for _, data in heard.calls]

    return await asyncio.create_task(run())


@requirement("HOOK-46", "HOOK-47")
async def test_a_model_call_gets_one_id_from_request_to_response() -> None:
    first, answered, after = await _ids(
        [("llm:request", None), ("llm:response", None), ("llm:response", None)]
    )
    explicit = await _ids([("llm:request", "mine"), ("provider:error", None)])
    orphan = await _ids([("provider:error", None), ("provider:error", "given")])

    assert UUID(first).version == 4
    assert answered == first
    assert after is None
    assert explicit == ["mine", "mine"]
    assert orphan == [None, "given"]


@requirement("HOOK-46")
async def test_a_request_id_is_added_even_when_nobody_listens() -> None:
    result = await asyncio.create_task(HookRegistry().emit("llm:request", {}))

    assert result.data is not None
    assert UUID(result.data["request_id"]).version == 4


@requirement("HOOK-48")
async def test_retries_keep_the_call_open_and_may_rename_it() -> None:
    ids = await _ids(
        [
            ("llm:request", "a"),
            ("provider:retry", None),
            ("provider:throttle", "b"),
            ("provider:retry", None),
            ("llm:response", None),
            ("provider:retry", None),
        ]
    )

    assert ids == ["a", "a", "b", "b", "b", None]


@requirement("HOOK-49")
async def test_calls_in_separate_tasks_do_not_mix() -> None:
    registry, heard = _correlated()
    both_open = asyncio.Barrier(2)

    async def call(name: str) -> None:
        await registry.emit("llm:request", {"who": name, "request_id": name})
        await both_open.wait()
        await registry.emit("llm:stream_block_delta", {"who": name})
        await registry.emit("provider:request", {"who": name})
        await registry.emit("tool:pre", {"who": name})
        await registry.emit("llm:response", {"who": name})

    async with asyncio.timeout(120):
        await asyncio.gather(call("one"), call("two"))

    for event, data in heard.calls:
        expected = data["who"] if event in ("llm:request", "llm:response") else None
        assert data.get("request_id") == expected, event


@requirement("HOOK-50", "HOOK-52", "HOOK-53")
async def test_collecting_gives_the_data_of_each_handler_in_order() -> None:
    registry = HookRegistry()
    registry.set_default_fields(session_id="s")
    heard = Listener(HookResult(data={"from": "listener", "cost": Decimal("1.5")}))
    registry.register("a:b", heard, 1)
    registry.register("a:b", Listener(deny(data={})), 2)
    registry.register("a:b", Listener(HookResult(action="deny")), 3)
    registry.register("a:b", Listener({"source": "bare"}), 4)
    registry.register("a:b", Listener({"data": {"from": "dict"}}), 0)
    registry.register("a:b", Listener(None), 5)

    collected = await registry.emit_and_collect("a:b", {"n": Decimal("1")}, timeout=2.0)

    assert collected == [{"from": "dict"}, {"from": "listener", "cost": Decimal("1.5")}, {}]
    assert set(heard.data) == {"n"}
    assert await registry.emit_and_collect("nobody:listens", {}) == []


@requirement("HOOK-51")
async def test_collecting_skips_handlers_that_fail_or_hang() -> None:
    registry = HookRegistry()

    async def hangs(event: str, data: dict[str, Any]) -> HookResult:
        await asyncio.Event().wait()
        return HookResult(data={"never": True})

    registry.register("a:b", hangs)
    registry.register("a:b", raising(RuntimeError("boom")))
    registry.register("a:b", raising(asyncio.CancelledError()))
    registry.register("a:b", Listener(HookResult(data={"ok": True})))

    async with asyncio.timeout(120):
        assert await registry.emit_and_collect("a:b", {}, timeout=0.01) == [{"ok": True}]


@requirement("HOOK-53")
async def test_collecting_without_a_limit_waits_and_with_a_negative_one_does_not() -> None:
    registry = HookRegistry()

    async def slow(event: str, data: dict[str, Any]) -> HookResult:
        await asyncio.sleep(0.01)
        return HookResult(data={"slow": True})

    registry.register("a:b", slow)

    async with asyncio.timeout(120):
        assert await registry.emit_and_collect("a:b", {}, timeout=None) == [{"slow": True}]
        assert await registry.emit_and_collect("a:b", {}, timeout=-1) == []
