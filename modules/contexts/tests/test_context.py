"""What every context does: system prompts from a factory, exact counts, tools that stand aside."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ContextLengthError
from amplifier_core.testing import EventRecorder, MockCoordinator, MockTool
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.mounting import mount_context, tell_replaced_tools
from contract.requirements import requirement

Build = Callable[..., FittingContext]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


class Counter:
    """A provider that counts one token for each character of text."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    async def count_tokens(self, request: Any) -> int:
        self.counts.append(sum(len(message.content) for message in request.messages))
        return self.counts[-1]


@requirement("CTX-19")
async def test_the_factory_writes_the_system_prompt_of_every_request(build: Build) -> None:
    context, texts = build(), ["first", "first", "second"]

    async def factory() -> str:
        return texts.pop(0)

    context.set_system_prompt_factory(factory)
    await context.add_message({"role": "system", "content": "stored"})
    await context.add_message(user("hello"))

    views = [await context.get_messages_for_request() for _ in range(3)]

    assert [view[0]["content"] for view in views] == ["first", "first", "second"]
    assert views[0][0] is views[1][0]
    assert [view[1:] for view in views] == [[user("hello")]] * 3
    assert (await context.get_messages())[0]["content"] == "stored"


async def test_whoever_changes_a_message_of_the_history_changes_a_copy(build: Build) -> None:
    context = build()
    await context.add_message(user("hello"))

    (message,) = await context.get_messages()
    message["content"] += " and more"

    assert await context.get_messages() == [user("hello")]


async def test_a_prompt_from_a_factory_counts_and_comes_before_what_is_no_system_message(
    build: Build,
) -> None:
    context = build(max_tokens=1_000)

    async def factory() -> str:
        return "p" * 2_000

    context.set_system_prompt_factory(factory)
    for _ in range(20):
        await context.add_message(user("x" * 380))

    view = await context.get_messages_for_request()

    assert view[0]["content"] == "p" * 2_000
    assert sum(len(each["content"]) for each in view) <= 4_000
    assert view[-1] == user("x" * 380)


async def test_a_view_fits_by_the_provider_s_own_count(build: Build) -> None:
    context, provider = build(), Counter()
    for _ in range(50):
        await context.add_message(user("7" * 100))

    view = await context.get_messages_for_request(token_budget=2_000, provider=provider)

    assert sum(len(each["content"]) for each in view) <= 2_000
    assert len(view) > 5


async def test_a_view_that_only_grew_a_little_is_not_counted_again(build: Build) -> None:
    context, provider = build(), Counter()
    for _ in range(50):
        await context.add_message(user("x" * 100))
    for _ in range(100):
        await context.add_message(user("x"))
        await context.get_messages_for_request(token_budget=40_000, provider=provider)

    assert provider.counts == []
    for _ in range(100):
        await context.add_message(user("x" * 10))
        await context.get_messages_for_request(token_budget=30_000, provider=provider)

    assert 1 <= len(provider.counts) <= 3


async def test_a_counter_that_never_agrees_is_an_error_and_leaves_no_trace(build: Build) -> None:
    context = build()
    await context.add_message(user("x" * 2_000))

    async def count_tokens(request: Any) -> int:
        return 10**9

    with pytest.raises(ContextLengthError):
        await context.get_messages_for_request(1_000, SimpleNamespace(count_tokens=count_tokens))

    assert await context.get_messages_for_request(1_000) == [user("x" * 2_000)]


async def test_a_counter_that_fails_is_announced_once_and_the_estimate_is_used(
    build: Build, recorder: EventRecorder, screen: Any
) -> None:
    context = build()
    await context.add_message(user("x" * 2_000))

    async def count_tokens(request: Any) -> int:
        raise OSError("no route")

    provider = SimpleNamespace(count_tokens=count_tokens)
    for _ in range(3):
        assert await context.get_messages_for_request(1_000, provider) == [user("x" * 2_000)]

    assert recorder.get_events("context:count_failed") == [
        ("context:count_failed", {"error": "OSError: no route"})
    ]
    assert len(screen.lines) == 1
    assert "fitted by estimate" in screen.lines[0]


async def test_the_tool_comes_and_goes_with_the_context(build: Build) -> None:
    coordinator = MockCoordinator()

    cleanup = await mount_context(coordinator, build(blob_bytes=10**6))
    assert set(coordinator.get("tools")) == {"read_result"}
    cleanup()

    assert coordinator.get("tools") == {}


async def test_a_tool_of_the_same_name_stays_and_it_is_said(
    build: Build, recorder: EventRecorder, screen: Any
) -> None:
    coordinator, other = MockCoordinator(), MockTool("read_result")
    await coordinator.mount("tools", other)

    cleanup = await mount_context(coordinator, build(blob_bytes=10**6))
    await tell_replaced_tools(coordinator)
    cleanup()

    assert coordinator.get("tools", "read_result") is other
    assert recorder.events == [("context:tool_taken", {"tool_name": "read_result"})]
    assert len(screen.lines) == 1


async def test_a_tool_that_takes_the_name_later_stays_and_it_is_said(
    build: Build, recorder: EventRecorder, screen: Any
) -> None:
    coordinator, other = MockCoordinator(), MockTool("read_result")
    cleanup = await mount_context(coordinator, build(blob_bytes=10**6))

    await coordinator.mount("tools", other)
    await tell_replaced_tools(coordinator)
    cleanup()

    assert coordinator.get("tools", "read_result") is other
    assert recorder.events == [("context:tool_taken", {"tool_name": "read_result"})]
    assert "`read_result`" in screen.lines[0]


async def test_configured_instructions_lead_every_request_and_no_history(build: Build) -> None:
    context = build(instructions="You run a shop.")
    await context.add_message({"role": "user", "content": "Hi"})

    request = await context.get_messages_for_request()

    assert request[0] == {"role": "system", "content": "You run a shop."}
    assert [each["role"] for each in await context.get_messages()] == ["user"]
