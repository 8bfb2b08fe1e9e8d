"""Tests of the trace: every span below what caused it, and every dollar in one of them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from amplifier_core import AmplifierSession
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import MockTool, wait_for

TASK = [{"module": "tool-task"}]


def prompt_of(span: ReadableSpan) -> str:
    """Return the prompt that a turn or a call of `task` was given."""
    attributes = span.attributes or {}
    if "gen_ai.tool.call.arguments" in attributes:
        return json.loads(str(attributes["gen_ai.tool.call.arguments"]))["prompt"]
    return json.loads(str(attributes["gen_ai.input.messages"]))[0]["parts"][0]["content"]


def tree_plan(harness: Any, **sections: Any) -> dict[str, Any]:
    """Return the plan of a lead with two workers at once, each with two helpers at once."""
    leaf = {
        "providers": [harness.model(harness.step(text="leaf", cost="0.10000000000000000000013"))]
    }
    helpers = [("task", {"prompt": f"help {each}", "agent": "helper"}) for each in range(2)]
    worker = [harness.step(*helpers, cost="0.1"), harness.step(text="worked", cost="0.2")]
    workers = [("task", {"prompt": f"work {each}", "agent": "worker"}) for each in range(2)]
    return harness.plan(
        harness.step(*workers, cost="3"),
        harness.step(text="Done.", cost="0.7"),
        tools=TASK,
        agents={"worker": {"providers": [harness.model(*worker)]}, "helper": leaf},
        **sections,
    )


@pytest.mark.parametrize("loop", ["loop-basic", "loop-events", "loop-streaming"])
async def test_the_costs_of_the_leaves_are_the_cost_of_the_session(harness: Any, loop: str) -> None:
    session = await harness.open(tree_plan(harness, loop=loop))

    await session.execute("build a harness")

    assert len(harness.spans("chat")) == 10
    assert harness.leaf_costs() == await harness.cost_of(session)
    assert harness.leaf_costs() == Decimal("4.70000000000000000000052")
    assert sum(each.value for each in harness.metrics()["amplifier.client.cost"]) == pytest.approx(
        4.7
    )


async def test_one_trace_reaches_from_the_request_to_the_deepest_child(harness: Any) -> None:
    session = await harness.open(tree_plan(harness, otel={"capture_content": True}))

    with harness.tracers.get_tracer("app").start_as_current_span("request") as request:
        await session.execute("build a harness")

    assert {each.context.trace_id for each in harness.spans()} == {request.context.trace_id}
    turns = harness.spans("invoke_agent")
    assert Counter(map(prompt_of, turns)) == {
        "build a harness": 1, "work 0": 1, "work 1": 1, "help 0": 2, "help 1": 2,
    }  # fmt: skip
    for turn in turns:
        above = harness.parent_of(turn)
        if prompt_of(turn) == "build a harness":
            assert above.name == "request"
        else:
            # In parallel, each under the very call that gave it its work.
            assert above.name == "execute_tool task"
            assert prompt_of(above) == prompt_of(turn)
            assert harness.said(above, "gen_ai.conversation.id") != harness.said(
                turn, "gen_ai.conversation.id"
            )


async def test_model_calls_and_tools_hang_below_the_turn_of_their_own_session(harness: Any) -> None:
    session = await harness.open(tree_plan(harness))

    await session.execute("build a harness")

    for span in [*harness.spans("chat"), *harness.spans("execute_tool")]:
        turn = harness.parent_of(span)
        assert turn.name.startswith("invoke_agent")
        mine, above = (harness.said(each, "gen_ai.conversation.id") for each in (span, turn))
        assert mine == above


async def test_concurrent_sessions_do_not_mix(harness: Any) -> None:
    sessions = [await harness.open(tree_plan(harness)) for _ in range(4)]

    await asyncio.gather(*(session.execute("build a harness") for session in sessions))

    traces: dict[int, list[ReadableSpan]] = {}
    for span in harness.spans():
        traces.setdefault(span.context.trace_id, []).append(span)
    assert len(traces) == 4
    assert all(len(spans) == 10 + 7 + 6 for spans in traces.values())
    roots = {
        harness.said(each, "gen_ai.conversation.id") for each in harness.spans() if not each.parent
    }
    assert roots == {session.session_id for session in sessions}


async def test_a_child_whose_plan_lacks_the_module_is_traced_all_the_same(harness: Any) -> None:
    session = await harness.open(harness.plan("Hello."))
    child = session.fork({"hooks": []})
    await child.initialize()

    with harness.tracers.get_tracer("app").start_as_current_span("request") as request:
        await child.execute("hello")
    await child.cleanup()

    (turn,) = harness.spans("invoke_agent")
    assert turn.parent.span_id == request.context.span_id
    assert harness.said(turn, "amplifier.module") == "loop-basic"
    assert len(harness.spans("chat")) == 1


async def test_a_child_that_an_app_builds_itself_joins_the_trace_it_is_handed(harness: Any) -> None:
    session = await harness.open(harness.plan("Hello."))

    class Spawn(MockTool):
        async def _execute(self, input: dict[str, Any]) -> ToolResult:
            child = AmplifierSession(harness.plan("Child."), parent_id=session.session_id)
            telemetry = session.coordinator.get_capability("otel.telemetry")
            child.coordinator.register_capability("otel.telemetry", telemetry)
            async with child:
                return ToolResult(output=await child.execute("work"))

    plan = harness.plan(harness.step(("spawn", {})), "Done.")
    session = await harness.open(plan)
    await session.coordinator.mount("tools", Spawn("spawn"))
    await session.execute("hello")

    child_turn = harness.spans("invoke_agent")[0]
    assert harness.parent_of(child_turn).name == "execute_tool spawn"
    assert harness.said(harness.parent_of(child_turn), "amplifier.module") != "tool-task"


async def test_a_background_child_hangs_below_the_call_that_started_it(harness: Any) -> None:
    slow = harness.model(harness.step(text="late", delay_seconds=0.05))
    plan = harness.plan(
        harness.step(("task", {"prompt": "dig", "agent": "digger", "background": True})),
        "Started.",
        tools=TASK,
        agents={"digger": {"providers": [slow]}},
    )
    session = await harness.open(plan)

    await session.execute("dig for gold")
    assert await wait_for(lambda: len(harness.spans("invoke_agent")) == 2, timeout=120)

    child = next(each for each in harness.spans("invoke_agent") if "digger" in each.name)
    assert child.name == "invoke_agent digger"
    assert harness.parent_of(child).name == "execute_tool task"


async def test_a_model_call_says_what_it_used_and_nobody_else_does(harness: Any) -> None:
    plan = harness.plan(
        harness.step(("todo", {}), cost="0.25"), "Done.", tools=[{"module": "tool-todo"}]
    )
    session = await harness.open(plan)

    await session.execute("hello")

    first = harness.spans("chat")[0]
    assert (first.name, first.kind) == ("chat mock-model", SpanKind.CLIENT)
    assert dict(first.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mock",
        "gen_ai.request.model": "mock-model",
        "gen_ai.conversation.id": session.session_id,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 7,
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "amplifier.cost_usd": 0.25,
        "amplifier.cost_usd_exact": "0.25",
        "amplifier.module": "provider-mock",
    }
    others = [*harness.spans("invoke_agent"), *harness.spans("execute_tool")]
    keys = {key for each in others for key in each.attributes}
    assert not any("usage" in key or "cost" in key for key in keys)
    assert {each.kind for each in others} == {SpanKind.INTERNAL}
    modules = {harness.said(each, "amplifier.module") for each in others}
    assert modules == {"loop-basic", "tool-todo"}


async def test_metrics_count_tokens_and_seconds_by_model(harness: Any) -> None:
    session = await harness.open(harness.plan(harness.step(text="a"), harness.step(text="b")))
    await session.execute("one")
    await session.execute("two")

    metrics = harness.metrics()
    tokens = {
        each.attributes["gen_ai.token.type"]: each.sum
        for each in metrics["gen_ai.client.token.usage"]
    }
    (seconds,) = metrics["gen_ai.client.operation.duration"]
    assert tokens == {"input": 200, "output": 20}
    assert seconds.count == 2
    assert seconds.explicit_bounds[:2] == (0.01, 0.02)
    assert dict(seconds.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mock",
        "gen_ai.request.model": "mock-model",
        "amplifier.module": "provider-mock",
    }


async def test_the_first_chunk_of_a_streamed_answer_is_timed(harness: Any) -> None:
    plan = harness.plan(loop="loop-streaming")
    plan["providers"] = [harness.model(harness.step(text="one two three"), stream=True)]
    session = await harness.open(plan)

    await session.execute("hello")

    (call,) = harness.spans("chat")
    seconds = harness.said(call, "gen_ai.response.time_to_first_chunk")
    assert 0 < seconds <= (call.end_time - call.start_time) / 1e9


async def test_a_stream_with_an_id_of_its_own_still_belongs_to_the_only_call(harness: Any) -> None:
    session = await harness.open(harness.plan("unused"))
    hooks, call = session.coordinator.hooks, {"provider": "vendor", "model": "big"}

    await hooks.emit("llm:request", {**call, "request_id": "call"})
    await hooks.emit("llm:stream_block_delta", {"request_id": "stream", "text": "x"})
    await hooks.emit("llm:response", {**call, "request_id": "call", "status": "ok"})
    await session.cleanup()

    (span,) = harness.spans("chat")
    assert harness.said(span, "gen_ai.response.time_to_first_chunk") > 0


async def test_a_failed_model_call_has_its_error_and_fails_the_turn(harness: Any) -> None:
    session = await harness.open(harness.plan({"error": "RateLimitError"}))

    with pytest.raises(Exception, match="scripted"):
        await session.execute("hello")

    (call,), (turn,) = harness.spans("chat"), harness.spans("invoke_agent")
    assert harness.said(call, "error.type") == "RateLimitError"
    assert call.status.status_code is turn.status.status_code is StatusCode.ERROR
    assert harness.said(turn, "amplifier.turn.status") == "error"
    (seconds,) = harness.metrics()["gen_ai.client.operation.duration"]
    assert seconds.attributes["error.type"] == "RateLimitError"


async def test_a_failed_tool_has_its_error(harness: Any) -> None:
    class Broken(MockTool):
        async def _execute(self, input: dict[str, Any]) -> ToolResult:
            if input:
                return ToolResult(success=False, error={"message": "no"})
            raise OSError("disk")

    session = await harness.open(
        harness.plan(harness.step(("dig", {}), ("dig", {"deep": True})), "Done.")
    )
    await session.coordinator.mount("tools", Broken("dig"))

    await session.execute("dig")

    errors = [harness.said(each, "error.type") for each in harness.spans("execute_tool")]
    assert sorted(errors) == ["OSError", "tool_failure"]


async def test_a_call_that_a_guard_denies_has_no_span(harness: Any) -> None:
    session = await harness.open(harness.plan(harness.step(("dig", {})), "Done."))
    await session.coordinator.mount("tools", MockTool("dig"))

    async def deny(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="deny", reason="no")

    session.coordinator.hooks.register("tool:pre", deny, priority=5, on_error="deny")
    await session.execute("dig")

    assert harness.spans("execute_tool") == []
    assert len(harness.spans("chat")) == 2


async def test_a_call_that_a_person_denies_ends_before_the_next_step(harness: Any) -> None:
    session = await harness.open(
        harness.plan(harness.step(("dig", {})), harness.step(text="Done."))
    )
    await session.coordinator.mount("tools", MockTool("dig"))

    async def ask(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="ask_user", approval_prompt="Dig?")

    session.coordinator.hooks.register("tool:pre", ask)
    await session.execute("dig")

    (call,) = harness.spans("execute_tool")
    assert harness.said(call, "error.type") == "no_result"
    assert call.end_time <= harness.spans("chat")[1].start_time


async def test_a_cancelled_turn_leaves_no_span_open(harness: Any) -> None:
    session = await harness.open(harness.plan(harness.step(text="late", delay_seconds=30)))

    async with asyncio.timeout(120):
        asked = asyncio.Event()

        async def note(event: str, data: dict[str, Any]) -> None:
            asked.set()

        session.coordinator.hooks.register("llm:request", note)
        turn = asyncio.create_task(session.execute("hello"))
        await asked.wait()
        await session.coordinator.request_cancel(immediate=True)
        await turn

    (turn_span,) = harness.spans("invoke_agent")
    assert harness.said(turn_span, "amplifier.turn.status") == "cancelled"
    assert [harness.said(each, "error.type") for each in harness.spans("chat")] == ["cancelled"]


async def test_a_model_call_beside_the_turn_is_counted_when_it_ends_after_it(harness: Any) -> None:
    session = await harness.open(harness.plan(harness.step(text="Done.", cost="1")))
    hooks, call = session.coordinator.hooks, {"provider": "vendor", "request_id": "beside"}
    await hooks.emit("llm:request", call)

    await session.execute("hello")
    usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": Decimal("0.5")}
    await hooks.emit("llm:response", {**call, "status": "ok", "usage": usage})
    await session.cleanup()

    assert harness.leaf_costs() == Decimal("1.5")


async def test_a_tool_that_asks_a_model_itself_has_the_call_below_it(harness: Any) -> None:
    session = await harness.open(harness.plan(harness.step(("ask", {})), "inner", "Done."))

    class Ask(MockTool):
        async def _execute(self, input: dict[str, Any]) -> ToolResult:
            hooks, call = session.coordinator.hooks, {"provider": "v", "request_id": "inner"}
            await hooks.emit("llm:request", {**call, "model": "small"})
            await hooks.emit("llm:response", {**call, "status": "ok"})
            return ToolResult(output="asked")

    await session.coordinator.mount("tools", Ask("ask"))
    await session.execute("hello")

    inner = next(each for each in harness.spans("chat") if each.name == "chat small")
    assert harness.parent_of(inner).name == "execute_tool ask"


async def test_a_span_that_a_tool_makes_itself_is_below_its_call(harness: Any) -> None:
    class Query(MockTool):
        async def _execute(self, input: dict[str, Any]) -> ToolResult:
            with harness.tracers.get_tracer("shop").start_as_current_span(f"query {input['n']}"):
                await asyncio.sleep(0)
            return ToolResult(output="found")

    calls = [("query", {"n": 1}), ("query", {"n": 2})]
    session = await harness.open(harness.plan(harness.step(*calls), "Done."))
    await session.coordinator.mount("tools", Query("query"))

    await session.execute("hello")

    made = [each for each in harness.spans() if each.name.startswith("query")]
    above = [harness.parent_of(each) for each in made]
    assert [each.name for each in above] == ["execute_tool query", "execute_tool query"]
    # Each below its own call, although both run at the same time.
    assert above[0] is not above[1]
