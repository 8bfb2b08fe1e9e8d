"""Who can be a member, and what the members have in common."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import AmplifierSession, ChatRequest, Message
from amplifier_core.llm_errors import ConfigurationError, LLMError
from amplifier_core.message_models import ChatResponse, TextBlock, ToolCall
from amplifier_core.models import ModelInfo
from amplifier_core.testing import MockProvider
from amplifier_module_provider_failover.config import FailoverConfig

DOWN = {"script": [{"error": "NetworkError"}], "after_script": "repeat"}
HELLO = ChatRequest(messages=[Message(role="user", content="Hello")])


class Counting(MockProvider):
    """A provider that can count, and that reads tool calls in a way of its own."""

    async def count_tokens(self, request: ChatRequest) -> int:
        return len(request.model or "")

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return [ToolCall(id="own", name=self.name, arguments={})]


class Unlisted(MockProvider):
    """A provider that cannot say which models it has."""

    def __init__(self) -> None:
        super().__init__()
        self.list_models.side_effect = LLMError("no route")


def says(text: str, **config: Any) -> dict[str, Any]:
    return {"script": [text], "after_script": "repeat", **config}


async def test_a_missing_member_is_named_when_the_session_is_ready(caplog: Any) -> None:
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [
            {"module": "provider-failover", "config": {"providers": ["nobody", "mock"]}},
            {"module": "provider-mock", "config": says("Here.")},
        ],
    }
    async with AmplifierSession(plan) as session:
        assert "`nobody` cannot take over: no provider of that name is mounted" in caplog.text
        assert await session.execute("Hello") == "Here."


async def test_a_missing_member_is_announced_once(build: Any) -> None:
    harness = await build({"south": says("South.")}, providers=["nobody", "south"])

    await harness.session.execute("One")
    await harness.session.execute("Two")

    assert harness.announced("provider:failover_missing", "provider") == [{"provider": "nobody"}]
    assert len(harness.screen.lines) == 1


async def test_without_any_member_a_call_says_what_to_mount(build: Any) -> None:
    harness = await build({}, providers=["north"])

    with pytest.raises(ConfigurationError, match="mount north next to the failover"):
        await harness.failover.complete(HELLO)


async def test_without_a_list_all_other_providers_are_members(build: Any) -> None:
    harness = await build({"north": DOWN, "south": says("South.")}, providers=[])

    assert await harness.session.execute("Hello") == "South."


async def test_a_failover_is_never_a_member(build: Any) -> None:
    harness = await build({"south": says("South.")}, providers=["failover", "south"])

    assert await harness.session.execute("Hello") == "South."
    missing = harness.announced("provider:failover_missing", "provider")
    assert missing == [{"provider": "failover"}]


async def test_its_limits_are_the_smallest_of_all_members(build: Any) -> None:
    harness = await build(
        {
            "north": says("North.", context_window=200_000, max_output_tokens=4_000),
            "south": says("South.", context_window=100_000, max_output_tokens=8_000, model="small"),
        }
    )
    await harness.coordinator.mount("providers", Unlisted(), name="east")

    info = harness.failover.get_info()

    assert (info.id, info.display_name) == ("failover", "Failover (Mock)")
    expected = {"model": "mock-model", "context_window": 100_000, "max_output_tokens": 4_000}
    assert info.defaults == expected


async def test_it_describes_the_member_whose_turn_it_is(build: Any) -> None:
    harness = await build({"north": DOWN, "south": says("South.", model="small")})
    await harness.failover.complete(HELLO)

    assert harness.failover.get_info().defaults["model"] == "small"


async def test_its_models_are_those_of_all_members(build: Any) -> None:
    harness = await build({"north": says("N.", model="big"), "south": says("S.", model="small")})

    models: list[ModelInfo] = await harness.failover.list_models()

    assert [model.id for model in models] == ["north/big", "south/small"]


async def test_a_member_that_cannot_list_its_models_is_shown(build: Any) -> None:
    harness = await build({"north": says("N.")}, providers=["east", "north"])
    await harness.coordinator.mount("providers", Unlisted(), name="east")

    assert [model.id for model in await harness.failover.list_models()] == ["north/mock-model"]
    expected = "provider-failover warning: east cannot list its models: no route"
    assert harness.screen.lines == [expected]


async def test_models_that_nobody_can_list_are_an_error(build: Any) -> None:
    harness = await build({}, providers=["east"])
    await harness.coordinator.mount("providers", Unlisted(), name="east")

    with pytest.raises(LLMError, match="no route"):
        await harness.failover.list_models()


@pytest.mark.parametrize(
    ("named", "sent"),
    [
        (None, ["mock-model", "mock-model"]),
        ("big", ["big", "mock-model"]),
        ("north/big", ["big", "mock-model"]),
        ("vendor/big", ["vendor/big", "mock-model"]),
    ],
)
async def test_a_named_model_is_sent_to_its_owner_only(
    build: Any, named: str | None, sent: list[str]
) -> None:
    harness = await build({"north": DOWN, "south": says("South.")})

    await harness.failover.complete(HELLO.model_copy(update={"model": named}))

    assert harness.announced("llm:request", "model") == [{"model": model} for model in sent]


async def test_a_model_of_another_member_puts_that_member_first(build: Any) -> None:
    harness = await build({"north": says("North."), "south": says("South.")})

    answer = await harness.failover.complete(HELLO, model="south/small")

    assert answer.content[0].text == "South."
    assert harness.announced("llm:request", "model") == [{"model": "small"}]


async def test_a_named_model_can_be_mapped_for_the_others(build: Any) -> None:
    harness = await build({"north": DOWN, "south": says("South.")}, models={"south": "middle"})

    await harness.failover.complete(HELLO, model="big")

    sent = harness.announced("llm:request", "model")
    assert sent == [{"model": "big"}, {"model": "middle"}]


async def test_tool_calls_are_read_by_the_member_that_made_them(build: Any) -> None:
    harness = await build({"north": DOWN}, providers=["north", "own"])
    await harness.coordinator.mount("providers", Counting(name="own"))

    answer = await harness.failover.complete(HELLO)

    assert answer.metadata == {"provider": "own"}
    assert [call.id for call in harness.failover.parse_tool_calls(answer)] == ["own"]


async def test_tool_calls_of_an_unknown_maker_are_read_all_the_same(build: Any) -> None:
    harness = await build({"north": says("North.")})
    call = ToolCall(id="call-1", name="clock", arguments={})
    response = ChatResponse(content=[TextBlock(text="hm")], tool_calls=[call])

    assert harness.failover.parse_tool_calls(response) == [call]


async def test_tokens_are_counted_by_the_member_whose_turn_it_is(build: Any) -> None:
    harness = await build({"north": DOWN}, providers=["own", "north"])
    await harness.coordinator.mount("providers", Counting(name="own"))

    named = HELLO.model_copy(update={"model": "own/four"})
    assert await harness.failover.count_tokens(named) == len("four")


async def test_tokens_are_counted_by_the_owner_of_the_requested_model(build: Any) -> None:
    harness = await build({}, providers=["first", "other"])
    for name in ("first", "other"):
        await harness.coordinator.mount("providers", Counting(name=name))

    named = HELLO.model_copy(update={"model": "other/four"})
    assert await harness.failover.count_tokens(named) == len("four")


async def test_tokens_are_counted_by_the_next_member_if_the_owner_cannot(build: Any) -> None:
    models = {"own": "the-model"}
    harness = await build({"north": DOWN}, providers=["own", "north"], models=models)
    await harness.coordinator.mount("providers", Counting(name="own"))

    named = HELLO.model_copy(update={"model": "north/four"})
    assert await harness.failover.count_tokens(named) == len("the-model")


@pytest.mark.parametrize("members", [{}, {"north": DOWN}], ids=["nobody", "one that cannot"])
async def test_nothing_is_counted_when_no_member_can(build: Any, members: dict[str, Any]) -> None:
    harness = await build(members)

    assert getattr(harness.failover, "count_tokens", None) is None


async def test_loops_choose_it_before_its_members(build: Any) -> None:
    harness = await build({"north": says("North.", priority=1)})
    harness.coordinator.hooks.register("provider:request", harness.recorder.record)

    await harness.session.execute("Hello")

    assert harness.announced("provider:request", "provider") == [{"provider": "failover"}]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"provider": ["north"]}, "provider\n"),
        ({"providers": ["north", "north"]}, "names a member twice"),
        ({"providers": ["north"], "models": {"south": "small"}}, "no members: south"),
        ({"switch_on": ["TypeError"]}, "`TypeError` is no LLM error"),
        ({"cool_down_seconds": -1}, "greater than or equal to 0"),
    ],
)
def test_a_wrong_configuration_is_refused_with_a_reason(
    config: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        FailoverConfig.model_validate(config)
