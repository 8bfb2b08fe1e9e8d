"""The provider as a whole: what it is told, what it says of itself, and what it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import ChatRequest, Message
from amplifier_core.llm_errors import LLMError, NotFoundError, StreamError
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_openai import OpenAIProvider, mount
from amplifier_module_provider_openai.config import OpenAIConfig
from amplifier_module_provider_openai.models import for_answers, limits_of
from wire.line import Display, Line, request, text_of
from wire.server import WireServer
from wire.vendor import Answer
from wire.vendors.responses import Responses

Connect = Callable[..., Awaitable[Line]]


async def test_without_a_key_nothing_is_mounted_and_somebody_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    coordinator = MockCoordinator()
    coordinator.display_system = display = Display()

    assert await mount(coordinator, {}) is None

    assert coordinator.get("providers") == {}
    assert ["OPENAI_API_KEY" in line for line in display.lines] == [True]


async def test_key_and_address_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinator = MockCoordinator()
    async with WireServer(Responses(), Answer.of("Fine.")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1")
        cleanup = await mount(coordinator, {})
        assert cleanup is not None

        request = ChatRequest(messages=[Message(role="user", content="hi")])
        await coordinator.get_mounted("providers")["openai"].complete(request)
        await cleanup()

    assert server.requests[0].headers["authorization"] == "Bearer from-the-environment"


async def test_the_calls_of_a_session_share_one_cache(connect: Connect) -> None:
    line = await connect()
    quiet = await connect(use_prompt_cache_key=False)

    await line.ask("hi")
    await quiet.ask("hi")

    assert line.sent["prompt_cache_key"] == "test-session"
    assert "prompt_cache_key" not in quiet.sent


async def test_a_loop_may_ask_the_model_to_think(connect: Connect) -> None:
    line = await connect()
    request = ChatRequest(messages=[Message(role="user", content="hi")])

    await line.provider.complete(request, extended_thinking=True)

    assert line.sent["reasoning"] == {"effort": "medium", "summary": "auto"}


@pytest.mark.parametrize("metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"])
async def test_rate_limits_are_announced(connect: Connect, metadata: dict[str, Any] | None) -> None:
    line = await connect(calls=0)
    line.server.reply(Answer([], headers={"x-ratelimit-remaining-requests": "59"}))

    await line.ask("hi", metadata=metadata)

    [answered] = line.of("llm:response")
    assert answered["rate_limits"] == {"remaining_requests": 59}


async def test_what_cannot_be_done_is_said_each_time_and_shown_once(connect: Connect) -> None:
    line = await connect(calls=2)

    for _ in range(2):
        assert (await line.ask("hi", stop=["END"])).degradation is not None

    assert [each["requested"] for each in line.of("provider:degraded")] == ["stop sequences"] * 2
    assert len(line.display.lines) == 1


async def test_counting_sends_what_would_be_asked_and_nothing_else(connect: Connect) -> None:
    line = await connect(calls=0)
    rules = Message(role="system", content="Be brief.")
    request = ChatRequest(messages=[rules, Message(role="user", content="hi")], temperature=0.5)

    await line.provider.count_tokens(request)

    [counted] = line.server.side_requests
    assert counted.body.keys() == {"model", "instructions", "input"}


class Elsewhere(Responses):
    """A server with other answers at its side routes."""

    def __init__(self, answer: dict[str, Any] | None) -> None:
        self._answer = answer

    def side_route(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        return self._answer


@pytest.mark.parametrize(
    ("answer", "expected"), [(None, NotFoundError), ({"something": "else"}, StreamError)]
)
async def test_a_server_that_cannot_count_says_so(
    connect: Connect, answer: dict[str, Any] | None, expected: type[LLMError]
) -> None:
    line = await connect(vendor=Elsewhere(answer), calls=0)
    request = ChatRequest(messages=[Message(role="user", content="hi")])

    with pytest.raises(expected):
        await line.provider.count_tokens(request)


async def test_a_server_without_a_list_of_models_says_so(connect: Connect) -> None:
    line = await connect(vendor=Elsewhere(None), calls=0)

    with pytest.raises(NotFoundError):
        await line.provider.list_models()


@pytest.mark.parametrize("response", [[], "Fine.", None, {"status": "completed", "output": [1]}])
async def test_an_answer_of_another_form_is_an_error_of_the_server(
    connect: Connect, response: Any
) -> None:
    line = await connect({"response": response}, max_retries=0, use_streaming=False)

    with pytest.raises(StreamError, match="another form|before its end"):
        await line.ask("hi")


async def test_without_hooks_to_hear_it_an_answer_still_comes(connect: Connect) -> None:
    line = await connect()
    config = OpenAIConfig.model_validate(Responses().config(line.server.base_url))
    provider = OpenAIProvider(config, None)

    response = await provider.complete(ChatRequest(messages=[Message(role="user", content="hi")]))
    await provider.client.close()

    assert text_of(response) == "Fine."


def test_the_default_model_has_known_limits() -> None:
    defaults = OpenAIProvider(OpenAIConfig(), None).get_info().defaults

    assert defaults["model"] == OpenAIConfig().default_model
    assert (defaults["context_window"], defaults["max_output_tokens"]) == (1_050_000, 128_000)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-5.4-mini-2026-03-17", 400_000),
        ("gpt-5.4", 1_050_000),
        ("gpt-5-nano", 400_000),
        ("gpt-4o", 128_000),
        ("o3-pro", 200_000),
        ("smollm2-135m", 128_000),
    ],
)
def test_the_longest_name_that_fits_tells_the_window(model: str, window: int) -> None:
    assert limits_of(model).context_window == window


def test_of_openais_models_only_those_that_write_answers_are_listed() -> None:
    answering = ["gpt-6.1-sol", "o3", "gpt-5.1-codex", "computer-use-preview"]
    others = ["text-embedding-3-large", "gpt-image-2", "whisper-1", "gpt-4o-mini-tts", "sora-2"]

    assert for_answers([*answering, *others], "api.openai.com") == answering
    assert for_answers([*answering, *others], "127.0.0.1") == [*answering, *others]


def test_the_default_model_is_one_whose_price_is_known() -> None:
    import genai_prices  # noqa: PLC0415 - heavy, and only this test needs it

    usage = genai_prices.Usage(input_tokens=1_000, output_tokens=1_000)
    price = genai_prices.calc_price(usage, OpenAIConfig().default_model, provider_id="openai")

    assert price.total_price > 0


async def test_a_keyword_that_nobody_knows_is_not_dropped_in_silence(connect: Connect) -> None:
    line = await connect()

    response = await line.provider.complete(request("hi"), top_q=1)

    assert response.degradation is not None
    assert "top_q" in response.degradation.requested
    assert ["top_q" in shown for shown in line.display.lines] == [True]
