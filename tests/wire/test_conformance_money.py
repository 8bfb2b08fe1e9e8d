"""Money: tokens and dollars as the vendor counts them; what is unknown is None and never 0."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from amplifier_core.llm_errors import NetworkError
from amplifier_core.message_models import Usage
from wire.conftest import Connect
from wire.line import request
from wire.vendor import COUNTED, Answer, Counts, Cut, Text, Vendor

PRICING = {"input": "2", "output": "10", "cache_read": "0.5"}
WAYS = pytest.mark.parametrize(
    "metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"]
)


def spent(response: Any) -> Usage:
    assert response.usage is not None
    return response.usage


@WAYS
async def test_usage_is_gross(connect: Connect, metadata: dict[str, Any] | None) -> None:
    line = await connect(Answer([Text("ok")], Counts(input=1_000, output=50, cache_read=400)))

    usage = spent(await line.ask("hi", metadata=metadata))

    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1_000, 50, 1_050)
    assert usage.cache_read_tokens == 400


@pytest.mark.needs("cache_write")
@WAYS
async def test_what_was_written_to_the_cache_is_counted(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    counts = Counts(input=1_000, output=50, cache_read=400, cache_write=500)
    line = await connect(Answer([Text("ok")], counts))

    usage = spent(await line.ask("hi", metadata=metadata))

    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        1_000, 400, 500,
    )  # fmt: skip


@pytest.mark.needs("reasoning_tokens")
@WAYS
async def test_tokens_spent_on_thinking_are_part_of_the_output(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    line = await connect(Answer([Text("ok")], Counts(input=100, output=80, reasoning=60)))

    usage = spent(await line.ask("hi", metadata=metadata))

    assert (usage.output_tokens, usage.reasoning_tokens) == (80, 60)


@pytest.mark.needs("priced")
async def test_a_known_model_has_a_price(connect: Connect) -> None:
    line = await connect(Answer.of("ok", input=100_000, output=10_000))

    usage = spent(await line.ask("hi"))

    assert isinstance(usage.cost_usd, Decimal)
    assert usage.cost_usd > 0
    assert line.of("llm:response")[0]["usage"]["cost_usd"] == str(usage.cost_usd)


@pytest.mark.needs("priced")
async def test_what_comes_from_the_cache_is_cheaper(connect: Connect) -> None:
    line = await connect(
        Answer.of("ok", input=100_000, output=10),
        Answer.of("ok", input=100_000, output=10, cache_read=90_000),
    )

    full, cached = [spent(await line.ask("hi")).cost_usd for _ in range(2)]

    assert full is not None
    assert cached is not None
    assert cached < full


async def test_an_unknown_model_has_no_price(connect: Connect) -> None:
    line = await connect(Answer.of("ok"))

    usage = spent(await line.ask("hi", model="made-up-1"))

    assert usage.cost_usd is None
    assert line.of("llm:response")[0]["usage"]["cost_usd"] is None
    assert await line.coordinator.collect_contributions("session.cost") == []


async def test_a_price_of_ones_own_wins_and_adds_up_exactly(connect: Connect) -> None:
    answer = Answer([Text("ok")], Counts(input=1_000, output=50, cache_read=400))
    line = await connect(answer, answer, pricing=PRICING)

    costs = [spent(await line.ask("hi", model="made-up-1")).cost_usd for _ in range(2)]

    assert costs == [Decimal("0.0019")] * 2
    total = await line.coordinator.collect_contributions("session.cost")
    assert [Decimal(each["cost_usd"]) for each in total] == [Decimal("0.0038")]


async def test_an_attempt_that_failed_costs_nothing(connect: Connect) -> None:
    answer = Answer.of("alpha beta", input=1_000, output=100)
    line = await connect(Cut(answer, "alpha"), answer, pricing=PRICING)

    await line.ask("hi")

    total = await line.coordinator.collect_contributions("session.cost")
    assert [Decimal(each["cost_usd"]) for each in total] == [Decimal("0.003")]


async def test_a_free_model_costs_nothing_and_is_not_unknown(connect: Connect) -> None:
    line = await connect(Answer.of("ok"), pricing={"input": "0", "output": "0"})

    assert spent(await line.ask("hi")).cost_usd == Decimal(0)


async def test_the_models_of_the_server_are_listed(connect: Connect, vendor: Vendor) -> None:
    line = await connect()

    models = await line.provider.list_models()

    assert {model.id for model in models} >= {vendor.model, "second-model"}
    assert all(model.display_name and model.context_window > 0 for model in models)
    assert all(model.max_output_tokens > 0 for model in models)


async def test_a_list_of_models_that_cannot_be_had_is_one_of_our_errors(connect: Connect) -> None:
    line = await connect()
    await line.server.close()

    with pytest.raises(NetworkError):
        await line.provider.list_models()


@pytest.mark.needs("count_tokens")
async def test_the_vendor_counts_tokens(connect: Connect) -> None:
    line = await connect()

    counted = await line.provider.count_tokens(
        request({"role": "system", "content": "Be brief."}, "How long is this?")
    )

    assert counted == COUNTED
    assert line.server.requests == []


async def test_a_provider_says_who_it_is_and_what_fits(connect: Connect, vendor: Vendor) -> None:
    line = await connect()

    info = line.provider.get_info()

    assert info.id == line.provider.name
    assert info.display_name
    assert set(info.credential_env_vars) & set(vendor.key_variables)
    assert info.defaults["model"] == vendor.model
    assert info.defaults["context_window"] > 0
    assert info.defaults["max_output_tokens"] > 0
    assert "tools" in info.capabilities
    assert "streaming" in info.capabilities


async def test_a_window_of_ones_own_wins(connect: Connect) -> None:
    line = await connect(context_window=12_345, max_output_tokens=2_345)

    defaults = line.provider.get_info().defaults

    assert (defaults["context_window"], defaults["max_output_tokens"]) == (12_345, 2_345)


async def test_a_priority_is_where_loops_look_for_it(connect: Connect) -> None:
    assert (await connect()).provider.priority == 100
    assert (await connect(priority=7)).provider.priority == 7
