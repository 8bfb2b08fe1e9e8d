"""The provider as a whole: mounting, counting, what it admits, and what servers do differently."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal

import pytest

from amplifier_core.llm_errors import ConfigurationError, StreamError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_chat_completions import mount
from wire.line import READ_FILE, Display, Line, request, stored, text_of
from wire.vendor import Answer, Text, Thinking
from wire.vendors.chat_completions import ChatCompletions

Connect = Callable[..., Awaitable[Line]]

MODEL = ChatCompletions.model
VLLM = {"/v1/models": {"data": [{"id": MODEL, "owned_by": "vllm", "max_model_len": 32_768}]}}
LLAMA_CPP = {"/props": {"default_generation_settings": {"n_ctx": 2048}}}


async def test_two_servers_are_mounted_side_by_side_under_their_names(connect: Connect) -> None:
    line = await connect(name="upstairs")

    close = await mount(
        line.coordinator, {"base_url": f"{line.server.base_url}/v1", "name": "downstairs"}
    )

    assert list(line.coordinator.mount_points["providers"]) == ["upstairs", "downstairs"]
    assert line.provider.get_info().id == "upstairs"
    assert close is not None
    await close()


async def test_without_a_server_nothing_is_mounted_and_the_person_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    coordinator = MockCoordinator()
    coordinator.display_system = display = Display()

    assert await mount(coordinator, {}) is None

    assert coordinator.mount_points["providers"] == {}
    assert "not mounted name=chat-completions" in caplog.text
    [told] = display.lines
    assert "OPENAI_BASE_URL" in told


async def test_the_configured_server_goes_before_that_of_the_environment(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = await connect(Answer.of("hello"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")

    assert text_of(await line.ask("hi")) == "hello"


async def test_a_server_without_a_key_gets_a_placeholder(connect: Connect) -> None:
    line = await connect(Answer.of("hello"), api_key=None)

    await line.ask("hi")

    assert line.server.requests[0].headers["authorization"] == "Bearer none"
    assert {each.headers.get("authorization") for each in line.server.side_requests} == {None}


async def test_a_server_without_models_asks_for_a_configured_one(connect: Connect) -> None:
    line = await connect(routes={"/v1/models": {"data": []}}, default_model="")

    with pytest.raises(ConfigurationError, match="default_model"):
        await line.ask("hi")


async def test_llama_cpp_counts_what_its_template_makes_of_a_request(connect: Connect) -> None:
    routes = {
        **LLAMA_CPP,
        "/apply-template": {"prompt": "<|im_start|>user"},
        "/tokenize": {"tokens": [1, 2, 3]},
    }
    line = await connect(routes=routes)

    assert await line.provider.count_tokens(request("hi", tools=[READ_FILE])) == 3

    template, tokenize = line.server.side_requests[-2:]
    assert template.body["messages"] == [{"role": "user", "content": "hi"}]
    assert template.body["tools"][0]["function"]["name"] == "read_file"
    assert tokenize.body["content"] == "<|im_start|>user"


async def test_vllm_counts_a_request(connect: Connect) -> None:
    line = await connect(routes={**VLLM, "/tokenize": {"count": 17, "tokens": []}})

    assert await line.provider.count_tokens(request("hi")) == 17
    assert line.server.side_requests[-1].body["model"] == MODEL


async def test_a_server_that_does_not_count_leaves_no_counter(connect: Connect) -> None:
    line = await connect()

    assert not hasattr(line.provider, "count_tokens")


async def test_a_counter_that_answers_something_else_is_an_error(connect: Connect) -> None:
    line = await connect(routes={**VLLM, "/tokenize": {"error": "no"}})

    with pytest.raises(StreamError, match="count"):
        await line.provider.count_tokens(request("hi"))


async def test_a_price_comes_from_the_configuration_only(connect: Connect) -> None:
    usage = {"input": 1_000_000, "output": 1_000_000}
    free = await connect(Answer.of("hi", **usage))
    paid = await connect(Answer.of("hi", **usage), pricing={"input": "0.5", "output": "1.5"})

    unknown, known = (await free.ask("hi")).usage, (await paid.ask("hi")).usage

    assert unknown is not None
    assert unknown.cost_usd is None
    assert known is not None
    assert known.cost_usd == Decimal(2)


async def test_a_stream_without_usage_is_an_answer_without_usage_and_the_person_is_told(
    connect: Connect,
) -> None:
    line = await connect(Answer.of("hello"), routes=LLAMA_CPP, stream_usage=False)

    response = await line.ask("hi")

    assert "stream_options" not in line.sent
    assert response.usage is None
    assert response.degradation is not None
    assert response.degradation.requested == "usage"
    assert ["unknown" in told for told in line.display.lines] == [True]


async def test_a_keyword_that_the_format_lacks_is_admitted_once_to_the_person(
    connect: Connect,
) -> None:
    line = await connect(Answer.of("one"), Answer.of("two"), routes=LLAMA_CPP)

    responses = [
        await line.provider.complete(request("hi"), extended_thinking=True, max_output_tokens=7)
        for _ in range(2)
    ]

    assert line.sent["max_tokens"] == 7
    assert [each.degradation.requested for each in responses] == ["extended_thinking"] * 2
    [told] = line.display.lines
    assert "extended_thinking" in told


async def test_the_system_messages_that_open_a_conversation_are_one_text(connect: Connect) -> None:
    line = await connect(Answer.of("hello"))
    rules = [{"role": "system", "content": each} for each in ("Be brief.", "Be kind.")]

    await line.ask(*rules, "hi", {"role": "system", "content": "now"})

    assert line.sent["messages"] == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "now"},
    ]


async def test_extra_fields_of_the_configuration_reach_the_server(connect: Connect) -> None:
    extra = {"cache_prompt": False, "logit_bias": {"13": 12}}
    line = await connect(Answer.of("hello"), extra_body=extra)

    await line.ask("hi")

    assert {key: line.sent[key] for key in extra} == extra


async def test_reasoning_goes_back_only_when_configured(connect: Connect) -> None:
    thoughtful = Answer([Thinking("hm, let me see"), Text("yes")])
    forgetful = await connect(thoughtful, Answer.of("ok"))
    faithful = await connect(thoughtful, Answer.of("ok"), send_reasoning=True)
    for line in (forgetful, faithful):
        first = stored(await line.ask("hi"))
        await line.ask("hi", first, "and?")

    assert forgetful.sent["messages"][1] == {"role": "assistant", "content": "yes"}
    assert faithful.sent["messages"][1]["reasoning_content"] == "hm, let me see"


async def test_a_keyword_that_nobody_knows_is_not_dropped_in_silence(connect: Connect) -> None:
    line = await connect(Answer.of("ok"), routes=LLAMA_CPP)

    response = await line.provider.complete(request("hi"), top_q=1)

    assert response.degradation is not None
    assert "top_q" in response.degradation.requested
    assert ["top_q" in shown for shown in line.display.lines] == [True]
