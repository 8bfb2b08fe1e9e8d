"""The memory as its contract describes it: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import ContextManager, ProviderInfo
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.testing import MockCoordinator
from amplifier_module_contexts.context_simple import SimpleContextManager, mount
from contract.requirements import requirement

Build = Callable[..., SimpleContextManager]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def provider(**defaults: Any) -> Any:
    """Make the part of a provider that a memory reads."""
    info = ProviderInfo(id="p", display_name="P", defaults=defaults)
    return SimpleNamespace(get_info=lambda: info)


@requirement("CTX-1")
def test_it_is_a_context_manager_with_five_async_methods() -> None:
    context = SimpleContextManager()
    names = ("add_message", "get_messages_for_request", "get_messages", "set_messages", "clear")

    assert isinstance(context, ContextManager)
    assert all(inspect.iscoroutinefunction(getattr(context, name)) for name in names)


@requirement("CTX-5")
async def test_messages_come_back_in_order_until_they_are_cleared() -> None:
    context = SimpleContextManager(max_tokens=1_000)
    await context.add_message({"role": "user", "content": "Hello"})
    await context.add_message({"role": "assistant", "content": "Hi there!"})

    messages = await context.get_messages_for_request()
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert await context.get_messages() == messages

    await context.clear()
    assert await context.get_messages() == []
    assert await context.get_messages_for_request() == []


@requirement("CTX-4")
async def test_set_messages_replaces_the_history_of_a_resumed_session(build: Build) -> None:
    context = build([user("to be forgotten")])
    saved = [
        {"role": "user", "content": "Previous conversation"},
        {"role": "assistant", "content": "Previous response"},
    ]

    await context.set_messages(saved)

    assert await context.get_messages() == saved
    assert await context.get_messages_for_request() == saved


@requirement("CTX-8")
async def test_compaction_preserves_the_tool_pairs_of_the_contract_s_example() -> None:
    context = SimpleContextManager(max_tokens=100, compaction_threshold=0.5)
    call = {"id": "call_123", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    await context.add_message(user("Read file.txt"))
    await context.add_message({"role": "assistant", "content": None, "tool_calls": [call]})
    result = {"role": "tool", "tool_call_id": "call_123", "content": "File contents..."}
    await context.add_message(result)
    for number in range(50):
        await context.add_message(user(f"Message {number}"))

    messages = await context.get_messages_for_request()

    calls = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    results = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    assert results == calls
    assert len(messages) < 53


@requirement("CTX-3")
async def test_changing_a_returned_list_does_not_reach_the_store(build: Build) -> None:
    context = build([user("kept")], max_tokens=1_000)

    (await context.get_messages()).clear()
    (await context.get_messages_for_request()).append(user("ephemeral"))

    assert await context.get_messages() == [user("kept")]


async def test_changing_a_compacted_list_does_not_reach_the_next_one(build: Build) -> None:
    context = build([user("x" * 400) for _ in range(20)], max_tokens=1_000)

    (await context.get_messages_for_request()).clear()

    assert await context.get_messages_for_request() != []


@requirement("CTX-2")
@pytest.mark.parametrize("wrong", [{}, {"content": "nobody's"}, None, "text", 7, ["role"]])
async def test_what_is_no_message_is_refused_and_not_stored(build: Build, wrong: Any) -> None:
    context = build()

    with pytest.raises(ValueError, match="'role'"):
        await context.add_message(wrong)

    assert await context.get_messages() == []


async def test_a_message_that_contains_itself_is_refused(build: Build) -> None:
    context, endless = build([user("before")]), user("")
    endless["content"] = [endless]

    with pytest.raises(ValueError, match="contains itself"):
        await context.add_message(endless)

    assert await context.get_messages_for_request() == [user("before")]


async def test_set_messages_replaces_nothing_when_one_is_no_message(build: Build) -> None:
    context = build([user("kept")])

    with pytest.raises(ValueError, match="'role'"):
        await context.set_messages([user("new"), {"content": "nobody's"}])

    assert await context.get_messages() == [user("kept")]


@requirement("CTX-13")
async def test_messages_added_at_the_same_time_are_all_stored(build: Build) -> None:
    context = build()

    await asyncio.gather(*(context.add_message(user(f"{n}")) for n in range(100)))

    assert {message["content"] for message in await context.get_messages()} == {
        f"{n}" for n in range(100)
    }


@requirement("CTX-6")
async def test_the_budget_is_the_explicit_one_else_the_provider_s_else_the_configured(
    build: Build,
) -> None:
    context = build([user("x" * 380) for _ in range(100)], max_tokens=2_000, compact_threshold=1)
    roomy = provider(context_window=50_000, max_output_tokens=1_000)
    narrow = provider(context_window=6_000, max_output_tokens=1_000)

    async def tokens(*args: Any) -> int:
        return 100 * len(await context.get_messages_for_request(*args))

    assert await tokens() <= 2_000
    assert await tokens(None, roomy) == 10_000
    assert 2_000 < await tokens(None, narrow) <= 4_000, "window - output - 1,000"
    assert await tokens(1_000, roomy) <= 1_000


@pytest.mark.parametrize("defaults", [{}, {"context_window": 8_000}, {"context_window": "8k"}])
async def test_a_provider_that_does_not_tell_its_window_leaves_the_configured_budget(
    build: Build, defaults: dict[str, Any]
) -> None:
    context = build([user("x" * 380) for _ in range(100)], max_tokens=2_000)

    messages = await context.get_messages_for_request(provider=provider(**defaults))

    assert messages == await context.get_messages_for_request()


async def test_a_provider_that_cannot_describe_itself_is_logged(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    context = build([user("hello")])

    messages = await context.get_messages_for_request(provider=object())

    assert messages == [user("hello")]
    assert "provider did not describe itself" in caplog.text


async def test_a_window_that_leaves_no_room_is_an_error_with_the_numbers(build: Build) -> None:
    context = build([user("hello")])
    small = provider(context_window=4_096, max_output_tokens=4_096)

    with pytest.raises(ContextLengthError, match=r"need at least 7 tokens, .* budget is -1000"):
        await context.get_messages_for_request(provider=small)


@requirement("CTX-14")
async def test_maximum_and_threshold_are_configurable(build: Build) -> None:
    messages = [user("x" * 380) for _ in range(10)]

    early = build(messages, max_tokens=1_200, compact_threshold=0.5)
    late = build(messages, max_tokens=1_200, compact_threshold=0.9)

    assert len(await early.get_messages_for_request()) < 10
    assert await late.get_messages_for_request() == messages


@requirement("CTX-16")
async def test_a_loop_that_asks_for_compaction_changes_nothing(build: Build) -> None:
    context = build([user("x" * 380) for _ in range(10)], max_tokens=1_000)
    before = await context.get_messages()

    assert await context.should_compact() is True
    await context.compact()

    assert await context.get_messages() == before
    assert await build([user("short")]).should_compact() is False


async def test_a_list_that_was_changed_from_outside_is_measured_again(build: Build) -> None:
    context = build([user("x" * 380) for _ in range(10)], max_tokens=1_000)
    assert await context.should_compact() is True

    context.messages.clear()
    assert await context.should_compact() is False
    context.messages.extend(user("y" * 380) for _ in range(10))

    assert await context.should_compact() is True
    assert len(await context.get_messages_for_request()) < 10


class OnFile(SimpleContextManager):
    """A memory that keeps its own record, in the manner of the published persistent one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(hooks=None, target_usage=0.5, protected_recent=0.1, **settings)
        self.record: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self.record.append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        self.messages = list(self.record)
        return await super().get_messages_for_request(token_budget, provider)

    def fits(self) -> bool:
        return self._estimate_tokens(self.messages) <= self.max_tokens


@requirement("PUB-11")
async def test_a_subclass_may_keep_the_messages_in_its_own_way() -> None:
    context = OnFile(max_tokens=1_000, compact_threshold=0.9, truncate_chars=250)
    for number in range(20):
        await context.add_message(user(f"{number} " + "x" * 380))

    view = await context.get_messages_for_request()

    assert not context.fits()
    assert await context.get_messages_for_request() == view
    assert len(view) < len(context.record) == len(await context.get_messages()) == 20
    assert context.compact_threshold == 0.9


class Watched(dict[str, Any]):
    """A message that counts how often it is read."""

    reads = 0

    def items(self) -> Any:
        Watched.reads += 1
        return super().items()

    def get(self, key: str, default: Any = None, /) -> Any:
        Watched.reads += 1
        return super().get(key, default)


async def test_each_message_is_measured_once_however_many_requests_there_are(build: Build) -> None:
    context = build()
    for number in range(20):
        await context.add_message(Watched(user(f"{number}")))
    measured = Watched.reads

    for _ in range(10):
        assert len(await context.get_messages_for_request()) == 20

    assert Watched.reads == measured


async def test_it_mounts_as_the_context_and_stops_listening_when_cleaned_up() -> None:
    coordinator = MockCoordinator()

    cleanup = await mount(coordinator, {"max_tokens": 500})

    assert coordinator.get_mounted("context").max_tokens == 500
    listening = [names for names in coordinator.hooks.list_handlers().values() if names]
    assert listening == [["context-simple"], ["context-simple"]]
    cleanup()
    assert not any(coordinator.hooks.list_handlers().values())


async def test_the_events_are_contributed_to_their_channel() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator)

    [events] = await coordinator.collect_contributions("observability.events")

    assert events == [
        "context:pre_compact",
        "context:post_compact",
        "context:compaction",
        "context:spilled",
        "context:blob_dropped",
        "context:count_failed",
        "context:tool_taken",
    ]


async def test_an_unknown_key_stops_the_mount_and_is_named() -> None:
    coordinator = MockCoordinator()

    with pytest.raises(ValidationError, match="max_token\n"):
        await mount(coordinator, {"max_token": 500})

    assert coordinator.get("context") is None


async def test_the_published_key_for_compaction_is_accepted_and_cannot_turn_it_off() -> None:
    await mount(MockCoordinator(), {"auto_compact": True})

    with pytest.raises(ValidationError, match="auto_compact\n"):
        await mount(MockCoordinator(), {"auto_compact": False})
