"""A member fails and the same turn continues with the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ChatRequest, Message, MockTool, llm_errors
from amplifier_core.llm_errors import LLMError, ProviderUnavailableError
from amplifier_core.testing import wait_for
from amplifier_module_provider_failover import FailoverProvider

HELLO = ChatRequest(messages=[Message(role="user", content="Hello")])
OVERLOADED = {"error": {"type": "ProviderUnavailableError", "message": "overloaded"}}
DOWN = {"script": [OVERLOADED], "after_script": "repeat"}
SWITCHING = {
    "ProviderUnavailableError",
    "NetworkError",
    "LLMTimeoutError",
    "RateLimitError",
    "QuotaExceededError",
    "StreamError",
    "AuthenticationError",
    "AccessDeniedError",
    "NotFoundError",
    "ConfigurationError",
}


def says(text: str, **config: Any) -> dict[str, Any]:
    return {"script": [text], "after_script": "repeat", **config}


async def test_the_turn_goes_on_with_the_next_member(build: Any) -> None:
    harness = await build({"north": DOWN, "south": says("From the south.")})

    assert await harness.session.execute("Hello") == "From the south."

    [(_, switch)] = harness.recorder.get_events("provider:failover")
    expected = {
        "from_provider": "north",
        "to_provider": "south",
        "error_type": "ProviderUnavailableError",
        "error_message": "overloaded",
        "cool_down_seconds": 300.0,
    }
    assert switch.items() >= expected.items()
    line = "provider-failover warning: north: overloaded; continuing with south for 5 min"
    assert harness.screen.lines == [line]


async def test_a_turn_goes_on_after_its_tool_calls(build: Any) -> None:
    """The second member reads what the first one asked for and got."""
    call: dict[str, Any] = {"tool_calls": [{"name": "clock", "arguments": {}}]}
    harness = await build(
        {"north": {"script": [call, OVERLOADED]}, "south": {"mode": "tool_calling"}}
    )
    clock = MockTool("clock", "It is noon.")
    await harness.coordinator.mount("tools", clock)

    answer = await harness.session.execute("What time is it?")

    assert answer == "[mock] I called clock and got: It is noon."
    assert clock.call_count == 1


async def test_a_streamed_answer_that_broke_off_is_given_again_by_the_next(build: Any) -> None:
    broken = {"text": "Half an", "error": "StreamError"}
    harness = await build(
        {
            "north": {"script": [broken], "stream": True},
            "south": says("A whole answer.", stream=True),
        }
    )

    assert await harness.session.execute("Hello") == "A whole answer."
    assert len(harness.recorder.get_events("llm:stream_aborted")) == 1


@pytest.mark.parametrize("error", sorted(set(llm_errors.__all__) - {"LLMError"}))
async def test_only_what_another_vendor_could_do_better_switches(build: Any, error: str) -> None:
    harness = await build({"north": {"script": [{"error": error}]}, "south": says("South.")})

    if error in SWITCHING:
        answer = await harness.failover.complete(HELLO)
        assert answer.content[0].text == "South."
    else:
        with pytest.raises(getattr(llm_errors, error)):
            await harness.failover.complete(HELLO)
        assert harness.announced("llm:request", "model") == [{"model": "mock-model"}]


async def test_what_switches_can_be_chosen(build: Any) -> None:
    filtered = {"script": [{"error": "ContentFilterError"}]}
    harness = await build(
        {"north": filtered, "south": says("South.")}, switch_on=["ContentFilterError"]
    )

    assert await harness.session.execute("Hello") == "South."


async def test_a_cancelled_call_asks_nobody_else(build: Any) -> None:
    slow = {"script": ["Never."], "delay_seconds": 60}
    harness = await build({"north": slow, "south": says("South.")})
    call = asyncio.create_task(harness.failover.complete(HELLO))
    assert await wait_for(lambda: harness.recorder.get_events("llm:request"), timeout=120)

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert harness.recorder.get_events("provider:failover") == []


async def test_when_all_fail_the_error_says_what_each_of_them_said(build: Any) -> None:
    wrong_key = {"script": [{"error": {"type": "AuthenticationError", "message": "bad key"}}]}
    harness = await build({"north": DOWN, "south": wrong_key})

    with pytest.raises(ProviderUnavailableError) as caught:
        await harness.session.execute("Hello")

    assert str(caught.value) == (
        "No provider could answer. north: ProviderUnavailableError: overloaded; "
        "south: AuthenticationError: bad key"
    )
    assert caught.value.retryable
    group: Any = caught.value.__cause__
    kinds = [type(each).__name__ for each in group.exceptions]
    assert kinds == ["ProviderUnavailableError", "AuthenticationError"]


async def test_an_only_member_fails_with_its_own_error(build: Any) -> None:
    harness = await build({"north": {"script": [{"error": "QuotaExceededError"}]}})

    with pytest.raises(llm_errors.QuotaExceededError):
        await harness.session.execute("Hello")


async def test_a_request_that_is_none_is_refused(build: Any) -> None:
    harness = await build({"north": says("North.")})

    with pytest.raises(LLMError, match="not a dict"):
        await harness.failover.complete({"messages": []})


async def test_a_mount_plan_is_all_it_takes() -> None:
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [
            {"module": "provider-failover", "config": {"providers": ["north", "south"]}},
            {"module": "provider-mock", "instance_id": "north", "config": DOWN},
            {"module": "provider-mock", "instance_id": "south", "config": says("South.")},
        ],
    }
    async with AmplifierSession(plan) as session:
        assert await session.execute("Hello") == "South."
        announced = await session.coordinator.collect_contributions("observability.events")

    assert "provider:failover" in [name for names in announced for name in names]


async def test_a_wrapper_around_a_member_sees_its_calls(build: Any) -> None:
    harness = await build({"north": says("North."), "south": says("South.")})
    seen: list[str] = []

    class Wrapper:
        def __init__(self, name: str, inner: Any) -> None:
            self._name, self._inner = name, inner

        def __getattr__(self, name: str) -> Any:
            if name == "complete":
                seen.append(self._name)
            return getattr(self._inner, name)

    harness.coordinator.interpose("providers", Wrapper, name="watch")

    await harness.session.execute("Hello")

    assert seen == ["failover", "north"]
    assert isinstance(harness.coordinator.mount_points["providers"]["failover"], FailoverProvider)
