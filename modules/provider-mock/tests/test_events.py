"""What the mock announces: the call, its outcome, and the answer as it arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ChatRequest, HookRegistry
from amplifier_core.llm_errors import ProviderUnavailableError, StreamError
from amplifier_core.testing import EventRecorder
from amplifier_module_provider_mock import MockProvider
from amplifier_module_provider_mock.config import MockConfig
from contract.requirements import requirement

Build = Callable[..., MockProvider]
Ask = Callable[..., ChatRequest]

STREAMED = {
    "thinking": "Let me see.",
    "text": " Two\nwords ",
    "tool_calls": [{"name": "clock"}],
}


def seen(recorder: EventRecorder, event: str) -> list[dict[str, Any]]:
    """Return the data of every such event, without what the registry adds."""
    return [
        {key: value for key, value in data.items() if key != "timestamp"}
        for _, data in recorder.get_events(event)
    ]


def names(recorder: EventRecorder) -> list[str]:
    return [event.removeprefix("llm:") for event, _ in recorder.events]


@requirement("PROV-9")
async def test_a_call_is_announced_before_and_after_with_its_usage(
    build: Build, ask: Ask, recorder: EventRecorder
) -> None:
    await build(mode="echo").complete(ask("x" * 40), model="other")

    call = {"provider": "mock", "model": "other", "request_id": "request-0"}
    assert seen(recorder, "llm:request") == [{**call, "message_count": 1}]
    usage = {"input_tokens": 13, "output_tokens": 15, "cost_usd": "0"}
    outcome = {"status": "ok", "duration_ms": 250, "usage": usage}
    assert seen(recorder, "llm:response") == [{**call, **outcome}]


@requirement("PROV-9")
async def test_a_failed_call_is_announced_with_its_error(
    build: Build, ask: Ask, recorder: EventRecorder
) -> None:
    provider = build(script=[{"error": "ProviderUnavailableError"}])

    with pytest.raises(ProviderUnavailableError):
        await provider.complete(ask("hello"))

    [outcome] = seen(recorder, "llm:response")
    assert outcome["status"] == "error"
    assert outcome["error"] == {"type": "ProviderUnavailableError", "msg": "scripted failure"}
    assert "usage" not in outcome


@requirement("PROV-8")
async def test_a_streamed_answer_arrives_block_by_block_and_word_by_word(
    build: Build, ask: Ask, recorder: EventRecorder
) -> None:
    await build(script=[STREAMED], stream=True).complete(ask("hello"))

    starts = seen(recorder, "llm:stream_block_start")
    assert [(each["block_index"], each["block_type"]) for each in starts] == [
        (0, "thinking"),
        (1, "text"),
        (2, "tool_use"),
    ]
    assert [each.get("name") for each in starts] == [None, None, "clock"]
    deltas = seen(recorder, "llm:stream_block_delta")
    by_block = {i: [d for d in deltas if d["block_index"] == i] for i in range(3)}
    assert "".join(each["text"] for each in by_block[0]) == STREAMED["thinking"]
    assert "".join(each["text"] for each in by_block[1]) == STREAMED["text"]
    assert by_block[2] == []
    assert [each["sequence"] for each in by_block[1]] == [0, 1, 2]
    assert all(each["text"] for each in deltas)
    assert len(seen(recorder, "llm:stream_block_end")) == 3


@requirement("PROV-8")
async def test_all_events_of_a_call_carry_its_id(
    build: Build, ask: Ask, recorder: EventRecorder
) -> None:
    provider = build(mode="echo", stream=True)

    await provider.complete(ask("one"))
    first = {data["request_id"] for _, data in recorder.events}
    recorder.clear()
    await provider.complete(ask("two"))

    assert first == {"request-0"}
    assert {data["request_id"] for _, data in recorder.events} == {"request-1"}


async def test_by_default_every_call_gets_an_id_of_its_own(
    ask: Ask, hooks: HookRegistry, recorder: EventRecorder
) -> None:
    provider = MockProvider(MockConfig(mode="echo"), hooks)

    for _ in range(2):
        await provider.complete(ask("hello"))

    assert len({data["request_id"] for _, data in recorder.events}) == 2


async def test_blocks_of_other_kinds_are_counted_but_not_announced(
    build: Build, ask: Ask, recorder: EventRecorder, tmp_path: Path
) -> None:
    file = tmp_path / "session.jsonl"
    blocks = [{"type": "redacted_thinking", "data": "sealed"}, {"type": "text", "text": "so"}]
    file.write_text(json.dumps({"content": blocks}), encoding="utf-8")

    await build(replay_file=file, stream=True).complete(ask("hello"))

    [start] = seen(recorder, "llm:stream_block_start")
    assert (start["block_index"], start["block_type"]) == (1, "text")


@pytest.mark.parametrize(
    ("config", "metadata"), [({}, None), ({"stream": True}, {"stream": False})]
)
async def test_what_is_not_streamed_announces_no_blocks(
    build: Build,
    ask: Ask,
    recorder: EventRecorder,
    config: dict[str, Any],
    metadata: dict[str, Any] | None,
) -> None:
    await build(mode="echo", **config).complete(ask("hello", metadata=metadata))

    assert names(recorder) == ["request", "response"]


@requirement("PROV-8")
async def test_a_stream_that_breaks_says_so_before_the_error(
    build: Build, ask: Ask, recorder: EventRecorder
) -> None:
    provider = build(script=[{"text": "half an", "error": "StreamError"}], stream=True)

    with pytest.raises(StreamError):
        await provider.complete(ask("hello"))

    [aborted] = seen(recorder, "llm:stream_aborted")
    assert aborted["error"] == {"type": "StreamError", "msg": "scripted failure"}
    assert names(recorder)[-2:] == ["stream_aborted", "response"]


@requirement("PROV-8")
async def test_a_stream_that_never_began_is_not_aborted(
    build: Build, ask: Ask, recorder: EventRecorder
) -> None:
    with pytest.raises(StreamError):
        await build(script=[{"error": "StreamError"}], stream=True).complete(ask("hello"))

    assert names(recorder) == ["request", "response"]


async def test_a_delayed_answer_can_be_cancelled_at_once(build: Build, ask: Ask) -> None:
    provider = build(script=[{"text": "late", "delay_seconds": 3_600}], delay_seconds=3_600)
    call = asyncio.create_task(provider.complete(ask("hello")))
    await asyncio.sleep(0)

    call.cancel()

    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_stream_cancelled_in_the_middle_is_aborted(
    build: Build, ask: Ask, hooks: HookRegistry, recorder: EventRecorder
) -> None:
    provider = build(mode="echo", stream=True)

    async def stop(_event: str, data: dict[str, Any]) -> None:
        if data["sequence"] == 1:
            call.cancel()
            await asyncio.sleep(0)

    hooks.register("llm:stream_block_delta", stop)
    call = asyncio.create_task(provider.complete(ask("a few words")))

    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await call

    assert names(recorder)[-1] == "stream_aborted"
    assert len(seen(recorder, "llm:stream_block_delta")) == 2


async def test_a_provider_without_hooks_answers_in_silence(ask: Ask) -> None:
    response = await MockProvider(MockConfig(mode="echo", stream=True)).complete(ask("hello"))

    assert response.finish_reason == "stop"
