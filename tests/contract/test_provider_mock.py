"""Contract of the mock provider, and by it of what every provider announces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    Message,
    ModelInfo,
    ModuleLoader,
    RateLimitError,
    ToolSpec,
)
from amplifier_core.testing import MockCoordinator
from contract.doubles import Listener
from contract.requirements import requirement
from contract.samples import BLOCKS


async def _provider(**config: Any) -> tuple[Any, MockCoordinator]:
    """Load and mount the mock provider as a session would."""
    coordinator = MockCoordinator()
    bound = await ModuleLoader().load("provider-mock", config)
    await bound(coordinator)
    return coordinator.get("providers", "mock"), coordinator


def _request(*messages: Message, tools: list[ToolSpec] | None = None) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content="weather 7"), *messages], tools=tools)


def _text(response: ChatResponse) -> str:
    return "".join(getattr(block, "text", "") for block in response.content)


@requirement("PROV-1", "PROV-2", "PROV-3", "PROV-4")
async def test_the_mock_describes_itself_and_reports_usage() -> None:
    provider, _ = await _provider(context_window=9_000, max_output_tokens=500)

    info, models = provider.get_info(), await provider.list_models()
    response = await provider.complete(_request(), temperature=0.1)

    assert provider.name == "mock"
    assert (info.defaults["context_window"], info.defaults["max_output_tokens"]) == (9_000, 500)
    assert all(isinstance(model, ModelInfo) for model in models)
    assert isinstance(response, ChatResponse)
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@requirement("PROV-5")
async def test_the_mock_echoes_and_plays_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    echo, _ = await _provider(mode="echo")
    calls = {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
    scripted, _ = await _provider(script=["one", calls, {"error": "RateLimitError"}])

    assert "weather 7" in _text(await echo.complete(_request()))
    assert _text(await scripted.complete(_request())) == "one"
    (call,) = scripted.parse_tool_calls(await scripted.complete(_request()))
    assert (call.name, call.arguments) == ("bash", {"command": "ls"})
    with pytest.raises(RateLimitError):
        await scripted.complete(_request())


@requirement("PROV-5")
async def test_the_mock_calls_a_tool_and_tells_what_it_got() -> None:
    provider, _ = await _provider()
    parameters = {
        "type": "object",
        "properties": {"days": {"type": "integer"}},
        "required": ["days"],
    }
    tools = [ToolSpec(name="other", parameters={}), ToolSpec(name="weather", parameters=parameters)]

    first = await provider.complete(_request(tools=tools))
    (call,) = provider.parse_tool_calls(first)
    asked = Message(role="assistant", content=first.content)
    result = Message(role="tool", tool_call_id=call.id, content="sunny")
    second = await provider.complete(_request(asked, result, tools=tools))

    assert (call.name, call.arguments) == ("weather", {"days": 7})
    assert "sunny" in _text(second)
    assert provider.parse_tool_calls(second) == []


@requirement("PROV-5", "PROV-7", "MSG-3")
async def test_a_recording_is_replayed_and_can_be_sent_back_whole(tmp_path: Path) -> None:
    content = [{**block, "vendor_state": {"deep": [1]}} for block in BLOCKS.values()]
    recorded = ChatResponse.model_validate({"content": content, "metadata": {"id": "r"}})
    file = tmp_path / "recording.jsonl"
    lines = [recorded.model_dump_json(), json.dumps({"content": [{"type": "text", "text": "x"}]})]
    file.write_text("\n".join(lines), encoding="utf-8")
    provider, _ = await _provider(replay_file=str(file))

    replayed = await provider.complete(_request())
    stored = {"role": "assistant", "content": [block.model_dump() for block in replayed.content]}
    second = await provider.complete(_request(Message.model_validate(stored)))

    assert replayed.content == recorded.content
    assert replayed.metadata == recorded.metadata
    assert _text(second) == "x"


@requirement("PROV-9")
async def test_every_call_is_announced_with_what_it_used() -> None:
    script = [{"text": "fine", "usage": {"cost_usd": "0.25"}}, {"error": "RateLimitError"}]
    provider, coordinator = await _provider(script=script)
    heard = Listener()
    for event in ("llm:request", "llm:response"):
        coordinator.hooks.register(event, heard)

    await provider.complete(_request())
    with pytest.raises(RateLimitError):
        await provider.complete(_request())

    assert heard.events == ["llm:request", "llm:response"] * 2
    (_, asked), (_, answered), _, (_, failed) = heard.calls
    assert {"provider", "model", "message_count"} <= set(asked)
    assert asked["request_id"] == answered["request_id"] != failed["request_id"]
    assert (answered["status"], failed["status"]) == ("ok", "error")
    assert answered["duration_ms"] >= 0
    assert set(answered["usage"]) <= {
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cost_usd",
    }
    assert answered["usage"]["cost_usd"] == "0.25"
    assert failed["error"]["type"] == "RateLimitError"


@requirement("PROV-11")
async def test_the_running_cost_is_on_its_channel() -> None:
    steps = [
        {"text": "a", "usage": {"cost_usd": "0.1"}},
        {"text": "b", "usage": {"cost_usd": "0.2"}},
    ]
    provider, coordinator = await _provider(script=steps)

    for _ in steps:
        await provider.complete(_request())

    (cost,) = await coordinator.collect_contributions("session.cost")
    assert cost == {"cost_usd": "0.3"}


@requirement("PROV-8")
async def test_a_streamed_answer_is_announced_block_by_block() -> None:
    script = [
        {"thinking": "hm hm", "text": "all is well", "tool_calls": [{"name": "bash"}]},
        {"text": "breaks off", "error": "StreamError"},
        {"error": "StreamError"},
    ]
    provider, coordinator = await _provider(script=script, stream=True)
    heard = Listener()
    kinds = ("block_start", "block_delta", "block_end", "aborted")
    for kind in kinds:
        coordinator.hooks.register(f"llm:stream_{kind}", heard)

    await provider.complete(_request())
    whole = list(heard.calls)
    heard.calls.clear()
    for _ in script[1:]:
        with pytest.raises(Exception, match="scripted"):
            await provider.complete(_request())

    assert len({UUID(data["request_id"]) for _, data in whole}) == 1
    starts = [data for event, data in whole if event == "llm:stream_block_start"]
    assert [(each["block_index"], each["block_type"]) for each in starts] == [
        (0, "thinking"),
        (1, "text"),
        (2, "tool_use"),
    ]
    assert [each.get("name") for each in starts] == [None, None, "bash"]
    deltas = [data for event, data in whole if event == "llm:stream_block_delta"]
    spoken = [data for data in deltas if data["block_type"] == "text"]
    assert "".join(data["text"] for data in spoken) == "all is well"
    assert [data["sequence"] for data in spoken] == list(range(len(spoken)))
    assert all(data["text"] for data in deltas)
    assert heard.events.count("llm:stream_aborted") == 1
    assert heard.data["error"]["type"] == "StreamError"
