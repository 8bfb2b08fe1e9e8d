"""The true context window: who is asked, who is believed, and what the user hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import NetworkError
from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_chat_completions import mount
from wire.line import QUICK, Display, Line, request
from wire.vendor import Answer
from wire.vendors.chat_completions import ChatCompletions

Connect = Callable[..., Awaitable[Line]]

WINDOW = "provider:context_window"
LARGE = "provider:large_system_prompt"
MODEL = ChatCompletions.model


def models(**facts: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL, "object": "model", **facts}]}


def llama_cpp(n_ctx: int) -> dict[str, Any]:
    props = {"default_generation_settings": {"n_ctx": n_ctx}, "total_slots": 1}
    trained = models(owned_by="llamacpp", meta={"n_ctx_train": 131_072})
    return {"/props": props, "/v1/models": trained}


def ollama(parameters: str = "", loaded: int | None = None, trained: int = 131_072) -> Any:
    running = [] if loaded is None else [{"model": MODEL, "context_length": loaded}]
    about = {"general.architecture": "llama", "llama.context_length": trained}
    shown = {"parameters": parameters, "model_info": about}
    return {"/api/ps": {"models": running}, "/api/show": shown}


def lm_studio(**facts: int) -> dict[str, Any]:
    return {f"/api/v0/models/{MODEL}": {"id": MODEL, **facts}}


@pytest.mark.parametrize(
    ("routes", "window", "source"),
    [
        (llama_cpp(2048), 2048, "llama.cpp /props"),
        ({"/v1/models": models(owned_by="vllm", max_model_len=32_768)}, 32_768, "models list"),
        ({"/v1/models": models(context_length=200_000)}, 200_000, "models list"),
        (ollama("stop x\nnum_ctx 8192\n"), 8192, "Ollama num_ctx"),
        (ollama(loaded=16_384), 16_384, "Ollama /api/ps"),
        (ollama("num_ctx 8192", loaded=4096), 4096, "Ollama /api/ps"),
        (lm_studio(loaded_context_length=6000, max_context_length=9000), 6000,
         "LM Studio loaded_context_length"),
    ],
    ids=["llama.cpp", "vllm", "gateway", "num_ctx", "loaded", "smallest", "lm-studio"],
)  # fmt: skip
async def test_the_window_is_the_one_the_server_really_has(
    connect: Connect, routes: dict[str, Any], window: int, source: str
) -> None:
    line = await connect(routes=routes)

    assert line.provider.get_info().defaults["context_window"] == window
    [event] = line.of(WINDOW)
    assert (event["provider"], event["model"]) == ("chat-completions", MODEL)
    assert (event["window"], event["source"]) == (window, source)
    assert line.display.lines == []


@pytest.mark.parametrize(
    ("routes", "window", "remedy"),
    [
        ({}, 32_768, "set `context_window`"),
        (ollama(trained=131_072), 4096, "OLLAMA_CONTEXT_LENGTH=32768"),
        (ollama(trained=2048), 2048, "OLLAMA_CONTEXT_LENGTH=32768"),
        (lm_studio(max_context_length=131_072), 4096, "a longer context"),
        ({"/v1/models": models(meta={"n_ctx_train": 131_072})}, 32_768, "set `context_window`"),
    ],
    ids=["silent", "ollama", "ollama-small", "lm-studio", "trained-only"],
)
async def test_a_window_that_the_server_does_not_tell_is_assumed_with_a_warning(
    connect: Connect, routes: dict[str, Any], window: int, remedy: str
) -> None:
    line = await connect(routes=routes)

    assert line.provider.get_info().defaults["context_window"] == window
    [told] = line.display.lines
    assert f"{window:,}" in told
    assert remedy in told


async def test_a_configured_window_that_is_too_large_gives_way_and_the_person_is_told(
    connect: Connect,
) -> None:
    line = await connect(routes=llama_cpp(2048), context_window=32_000)

    assert line.provider.get_info().defaults["context_window"] == 2048
    assert [event["source"] for event in line.of(WINDOW)] == ["llama.cpp /props"]
    [told] = line.display.lines
    assert "2048" in told
    assert "32000" in told


async def test_a_configured_window_that_is_smaller_holds(connect: Connect) -> None:
    line = await connect(routes=llama_cpp(8192), context_window=1000)

    assert line.provider.get_info().defaults["context_window"] == 1000
    assert [event["source"] for event in line.of(WINDOW)] == ["config"]
    assert line.display.lines == []


@pytest.mark.parametrize(
    "routes",
    [
        {"/v1/models": [1, 2]},
        {"/props": {"default_generation_settings": "yes"}},
        {"/v1/models": {"data": [{"name": "no id"}]}},
        {"/api/ps": {"models": None}, "/api/show": {"parameters": None}},
    ],
    ids=["list", "text", "no-id", "null"],
)
async def test_answers_of_another_form_do_not_stop_the_mount(
    connect: Connect, routes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    line = await connect(Answer.of("fine"), routes=routes)

    await line.ask("hi")

    assert line.provider.get_info().defaults["context_window"] in (4_096, 32_768)
    assert "probe could not read" in caplog.text


async def test_a_server_that_never_answers_does_not_hold_up_the_mount() -> None:
    coordinator = MockCoordinator()
    coordinator.display_system = display = Display()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await left.wait()
        writer.close()

    left = asyncio.Event()
    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server, asyncio.timeout(120):
        port = server.sockets[0].getsockname()[1]
        config = {"base_url": f"http://127.0.0.1:{port}/v1", "probe_timeout_seconds": 0.1}
        close = await mount(coordinator, config)
        left.set()
        assert close is not None
        await close()

    [told] = display.lines
    assert "does not answer" in told


async def test_the_probe_brings_the_key(connect: Connect) -> None:
    line = await connect(routes=ollama())

    keys = {each.headers.get("authorization") for each in line.server.side_requests}
    assert keys == {"Bearer a-key-for-tests"}


async def test_only_a_server_that_seems_to_be_ollama_gets_its_question(connect: Connect) -> None:
    line = await connect()

    asked = [(each.method, each.path) for each in line.server.side_requests]
    assert ("GET", "/api/ps") in asked
    assert all(method == "GET" for method, _ in asked)


async def test_without_a_configured_model_the_first_one_of_the_server_is_used(
    connect: Connect,
) -> None:
    line = await connect(Answer.of("hello"), default_model="")

    await line.ask("hi")

    assert line.sent["model"] == MODEL
    assert line.provider.get_info().defaults["model"] == MODEL


async def test_a_server_that_starts_after_the_mount_is_asked_before_the_first_call(
    connect: Connect, coordinator: MockCoordinator
) -> None:
    line = await connect(Answer.of("hello"), routes=llama_cpp(2048))
    address = line.server.base_url.removeprefix("http://").split(":")
    await line.server.close()
    config = {"base_url": f"{line.server.base_url}/v1", "max_retries": 0}
    close = await mount(coordinator, config)
    provider: Any = coordinator.mount_points["providers"]["chat-completions"]
    with pytest.raises(NetworkError):
        await provider.complete(request("hi"))

    line.server._server = await asyncio.start_server(line.server._accept, *address)
    await provider.complete(request("hi"))

    assert provider.get_info().defaults["context_window"] == 2048
    assert line.sent["model"] == MODEL
    assert close is not None
    await close()


async def test_a_hook_that_comes_after_the_provider_hears_the_window_once(
    connect: Connect, coordinator: MockCoordinator
) -> None:
    line = await connect(Answer.of("one"), Answer.of("two"), routes=llama_cpp(2048))
    close = await mount(coordinator, {**QUICK, "base_url": f"{line.server.base_url}/v1"})
    provider: Any = coordinator.mount_points["providers"]["chat-completions"]
    heard: list[int] = []

    async def hear(event: str, data: dict[str, Any]) -> HookResult:
        heard.append(data["window"])
        return HookResult()

    coordinator.hooks.register(WINDOW, hear)

    await provider.complete(request("hi"))
    await provider.complete(request("hi"))

    assert heard == [2048]
    assert close is not None
    await close()


async def test_a_system_prompt_that_takes_half_of_the_window_is_told_once(
    connect: Connect,
) -> None:
    line = await connect(Answer.of("one"), Answer.of("two"), routes=llama_cpp(2048))
    rules = {"role": "system", "content": "word " * 1000}

    await line.ask(rules, "hi")
    await line.ask(rules, "again")

    [event] = line.of(LARGE)
    assert (event["tokens"], event["window"], event["model"]) == (1250, 2048, MODEL)
    [told] = line.display.lines
    assert "1250" in told


async def test_a_system_prompt_below_half_of_the_window_is_nothing_to_tell(
    connect: Connect,
) -> None:
    line = await connect(Answer.of("one"), routes=llama_cpp(2048))

    await line.ask({"role": "system", "content": "x" * 4096}, "hi")

    assert line.of(LARGE) == []
    assert line.display.lines == []
