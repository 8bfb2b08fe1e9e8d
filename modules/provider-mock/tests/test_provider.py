"""What the mock says about itself, what it costs, and how it is mounted."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import ChatRequest, ChatResponse, Provider, ToolCallBlock, Usage
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_mock import MockProvider, mount
from contract.requirements import requirement

Build = Callable[..., MockProvider]
Ask = Callable[..., ChatRequest]


@requirement("PROV-3")
def test_the_limits_that_contexts_budget_by_are_configurable(build: Build) -> None:
    info = build(context_window=8_000, max_output_tokens=500, model="tiny").get_info()

    limits = {"model": "tiny", "context_window": 8_000, "max_output_tokens": 500}
    assert info.defaults == limits


async def test_the_one_model_has_the_configured_name(build: Build) -> None:
    [model] = await build(model="tiny").list_models()

    assert (model.id, model.context_window, model.max_output_tokens) == ("tiny", 128_000, 4_096)


async def test_the_model_may_be_named_as_for_all_other_providers(build: Build) -> None:
    [model] = await build(default_model="tiny").list_models()

    assert model.id == "tiny"


@requirement("PROV-1")
def test_it_is_a_provider_with_the_priority_that_loops_read(build: Build) -> None:
    assert isinstance(build(), Provider)
    assert build().priority == 100
    assert build(priority=1).priority == 1


@requirement("PROV-2")
async def test_usage_is_estimated_and_free(build: Build, ask: Ask) -> None:
    tool = {"clock": {"description": "d" * 40}}

    plain = await build(mode="echo").complete(ask("x" * 400))
    with_tool = await build(mode="echo").complete(ask("x" * 400, tools=tool))

    assert plain.usage is not None
    assert with_tool.usage is not None
    assert 100 <= plain.usage.input_tokens < 110
    assert with_tool.usage.input_tokens > plain.usage.input_tokens + 10
    assert plain.usage.total_tokens == plain.usage.input_tokens + plain.usage.output_tokens
    assert plain.usage.cost_usd == Decimal(0)


async def test_a_script_may_say_what_a_call_used_and_cost(build: Build, ask: Ask) -> None:
    usage = {"input_tokens": 10, "cache_read_tokens": 4, "cost_usd": "0.25"}
    provider = build(script=[{"text": "a" * 8, "usage": usage}], after_script="repeat")

    response = await provider.complete(ask("hello"))
    await provider.complete(ask("hello"))

    expected = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13, "cache_read_tokens": 4}
    assert response.usage == Usage(**expected, cost_usd=Decimal("0.25"))
    assert provider.cost_usd == Decimal("0.50")


async def test_a_replayed_response_without_usage_costs_nothing(
    build: Build, ask: Ask, tmp_path: Path
) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text('{"content": []}\n', encoding="utf-8")
    provider = build(replay_file=file)

    assert (await provider.complete(ask("hello"))).usage is None
    assert provider.cost_usd == 0


def test_calls_are_found_among_the_blocks_when_there_is_no_list(build: Build) -> None:
    block = ToolCallBlock(id="c", name="clock", input={"zone": "UTC"})

    [call] = build().parse_tool_calls(ChatResponse(content=[block]))

    assert (call.id, call.name, call.arguments) == ("c", "clock", {"zone": "UTC"})


@requirement("PROV-4")
async def test_it_mounts_under_its_name_without_a_key() -> None:
    coordinator = MockCoordinator()

    cleanup: Any = await mount(coordinator, {})

    assert isinstance(coordinator.get("providers")["mock"], MockProvider)
    assert cleanup is None


async def test_an_unknown_key_stops_the_mount_and_is_named() -> None:
    coordinator = MockCoordinator()

    with pytest.raises(ValidationError, match="scirpt"):
        await mount(coordinator, {"scirpt": ["hello"]})

    assert coordinator.get("providers") == {}


@requirement("PROV-11")
async def test_cost_and_events_are_contributed_to_their_channels(ask: Ask) -> None:
    coordinator = MockCoordinator()
    usage = {"cost_usd": "0.25"}
    await mount(coordinator, {"script": [{"text": "hi", "usage": usage}]})

    before = await coordinator.collect_contributions("session.cost")
    await coordinator.get_mounted("providers")["mock"].complete(ask("hello"))
    after = await coordinator.collect_contributions("session.cost")
    [events] = await coordinator.collect_contributions("observability.events")

    assert before == [{"cost_usd": "0"}]
    assert after == [{"cost_usd": "0.25"}]
    assert "llm:stream_block_delta" in events


async def test_equal_providers_give_equal_answers_to_equal_requests(build: Build, ask: Ask) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools = {"read_file": {"description": "Read a file.", "parameters": schema}}

    answers = [await build().complete(ask("read it", tools=tools)) for _ in range(2)]

    assert json.loads(answers[0].model_dump_json()) == json.loads(answers[1].model_dump_json())
