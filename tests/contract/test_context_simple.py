"""Contract of the simple context: what it keeps, and what it hands out when room is short."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amplifier_core import ContextLengthError, ModuleLoader
from amplifier_core.testing import MockCoordinator
from contract.doubles import Listener, broken_pairs
from contract.installer import ScriptedProvider
from contract.requirements import requirement


async def _context(**config: Any) -> tuple[Any, MockCoordinator]:
    """Load and mount the simple context as a session would."""
    coordinator = MockCoordinator()
    bound = await ModuleLoader().load("context-simple", config)
    await bound(coordinator)
    return coordinator.get("context"), coordinator


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _pair(name: str, result: str, *, seed_shape: bool = False) -> list[dict[str, Any]]:
    call: dict[str, Any] = {"id": name, "tool": "bash", "arguments": {}}
    if seed_shape:
        call = {"id": name, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None if seed_shape else "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": result},
    ]


@requirement("CTX-1", "CTX-3", "CTX-4", "CTX-5")
async def test_messages_come_back_in_order_and_as_copies() -> None:
    context, _ = await _context()
    assert await context.get_messages() == []
    assert await context.get_messages_for_request() == []
    for text in ("Hello", "Hi there!"):
        await context.add_message(_user(text))

    for read in (context.get_messages, context.get_messages_for_request):
        messages = await read()
        assert [message["content"] for message in messages] == ["Hello", "Hi there!"]
        messages.clear()
    assert len(await context.get_messages()) == 2

    saved = [_user("Previous conversation"), {"role": "assistant", "content": "Previous response"}]
    await context.set_messages(saved)
    saved.clear()
    assert [each["role"] for each in await context.get_messages()] == ["user", "assistant"]
    await context.clear()
    assert await context.get_messages() == []


@requirement("CTX-2")
async def test_a_message_without_a_role_is_refused() -> None:
    context, _ = await _context()

    with pytest.raises(ValueError, match="role"):
        await context.add_message({"content": "whose?"})
    assert await context.get_messages() == []


@requirement("CTX-6", "CTX-14", "PROV-3")
async def test_the_budget_is_the_callers_the_providers_or_the_configured_one() -> None:
    history = [_user(f"{number:04d} " + "x" * 395) for number in range(100)]  # some 10,000 tokens
    roomy, tight = await _context(max_tokens=100_000), await _context(max_tokens=3_000)
    provider = ScriptedProvider(context_window=6_000, max_output_tokens=2_000)
    silent = ScriptedProvider()
    for context, _ in (roomy, tight):
        await context.set_messages(history)

    async def count(context: Any, **kwargs: Any) -> int:
        return len(await context.get_messages_for_request(**kwargs))

    assert await count(roomy[0]) == 100
    assert await count(roomy[0], provider=silent) == 100
    by_provider = await count(roomy[0], provider=provider)
    assert by_provider < 40
    assert await count(roomy[0], token_budget=100_000, provider=provider) == 100
    assert await count(roomy[0], token_budget=1_000, provider=provider) < by_provider
    assert await count(tight[0]) < 40
    assert await count(tight[0], token_budget=100_000) == 100


@requirement("CTX-14")
async def test_the_threshold_decides_when_room_is_short() -> None:
    history = [_user("x" * 400) for _ in range(60)]  # some 6,000 tokens
    early, _ = await _context(max_tokens=10_000, compaction_threshold=0.5)
    late, _ = await _context(max_tokens=10_000, compaction_threshold=0.95)
    for context in (early, late):
        await context.set_messages(history)

    assert len(await early.get_messages_for_request()) < 60
    assert len(await late.get_messages_for_request()) == 60


@requirement("CTX-7", "CTX-8", "CTX-9", "CTX-12")
@pytest.mark.parametrize("seed_shape", [True, False])
async def test_a_compacted_view_keeps_pairs_system_messages_order_and_the_store(
    seed_shape: bool,
) -> None:
    context, _ = await _context(max_tokens=2_000, compaction_threshold=0.5)
    history: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for number in range(20):
        history.append(_user(f"question {number} " + "x" * 200))
        history += _pair(f"call_{number}", "y" * 400, seed_shape=seed_shape)
    untouched = copy.deepcopy(history)
    for message in history:
        await context.add_message(message)

    view = await context.get_messages_for_request()

    assert len(view) < len(history)
    assert broken_pairs(view) == []
    assert {"role": "system", "content": "Be brief."} in view
    kept = [message["content"] for message in view if message["role"] == "user"]
    stored = [message["content"] for message in history if message["role"] == "user"]
    assert kept[-1] == stored[-1]
    assert [text for text in stored if text in kept] == [text for text in kept if text in stored]
    assert await context.get_messages() == untouched
    assert history == untouched


@requirement("CTX-8")
async def test_the_seeds_own_example_of_a_tool_pair_holds() -> None:
    context, _ = await _context(max_tokens=100, compaction_threshold=0.5)
    await context.add_message(_user("Read file.txt"))
    for message in _pair("call_123", "File contents...", seed_shape=True):
        await context.add_message(message)
    for number in range(50):
        await context.add_message(_user(f"Message {number}"))

    messages = await context.get_messages_for_request()

    assert broken_pairs(messages) == []
    assert messages[-1]["content"] == "Message 49"


@requirement("CTX-11", "CHAN-14")
async def test_compaction_is_announced_with_counts() -> None:
    context, coordinator = await _context(max_tokens=1_000)
    heard = Listener()
    for event in ("context:pre_compact", "context:post_compact", "context:compaction"):
        coordinator.hooks.register(event, heard)
    await context.set_messages([_user("x" * 400) for _ in range(50)])

    view = await context.get_messages_for_request()

    told = dict(heard.calls)
    assert heard.events[0] == "context:pre_compact"
    assert "context:compaction" in heard.events
    assert told["context:pre_compact"]["message_count"] == 50
    assert told["context:post_compact"]["message_count"] == len(view)
    before, after = (told[f"context:{when}_compact"]["token_count"] for when in ("pre", "post"))
    assert before > after > 0
    (declared,) = await coordinator.collect_contributions("observability.events")
    assert {"context:pre_compact", "context:post_compact"} <= set(declared)


@requirement("CTX-13")
async def test_messages_added_together_are_all_kept() -> None:
    context, _ = await _context()

    async with asyncio.timeout(120):
        await asyncio.gather(*(context.add_message(_user(str(number))) for number in range(100)))

    assert [each["content"] for each in await context.get_messages()] == list(map(str, range(100)))


@requirement("CTX-13")
async def test_what_is_added_while_requests_are_fitted_is_all_kept() -> None:
    context, coordinator = await _context(max_tokens=1_000)
    waiting, resume = asyncio.Event(), asyncio.Event()

    async def hold_up(event: str, data: dict[str, Any]) -> None:
        waiting.set()
        await resume.wait()

    coordinator.hooks.register("context:pre_compact", hold_up)
    before = [_user(f"{number} {'x' * 400}") for number in range(50)]
    await context.set_messages(before)
    added = [_user(f"added {number}") for number in range(20)]

    async with asyncio.timeout(120):
        requests = [asyncio.create_task(context.get_messages_for_request()) for _ in range(3)]
        await waiting.wait()
        await asyncio.gather(*(context.add_message(message) for message in added))
        resume.set()
        views = await asyncio.gather(*requests)

    assert await context.get_messages() == [*before, *added]
    assert all(len(view) < 50 for view in views)


@requirement("CTX-16", "PUB-9")
async def test_a_loop_may_ask_for_compaction_and_nothing_is_lost() -> None:
    context, _ = await _context(max_tokens=100)
    assert not await context.should_compact()
    history = [_user("x" * 100) for _ in range(10)]
    for message in history:
        await context.add_message(message)

    assert await context.should_compact()
    await context.compact()

    assert await context.get_messages() == history


@requirement("PUB-11")
async def test_the_class_can_be_subclassed_under_its_published_name() -> None:
    context, _ = await _context()

    published: Any = context.__class__

    async def add_message(self: Any, message: dict[str, Any]) -> None:
        await published.add_message(self, message)
        self.written += 1

    persistent = type("Persistent", (published,), {"written": 0, "add_message": add_message})
    own = persistent(max_tokens=1_000, hooks=None)
    await own.add_message(_user("hi"))

    assert type(context).__name__ == "SimpleContextManager"
    assert own.messages == [_user("hi")]
    assert own.written == 1


def _exchange(role: str, size: int) -> list[dict[str, Any]]:
    """Make a message of this role and size, or a tool call with such a result."""
    if role == "tool":
        return _pair("call", "r" * size)
    return [{"role": role, "content": "x" * (size // 20 if role == "system" else size)}]


_roles = st.sampled_from(["user", "assistant", "system", "tool"])
_turns = st.builds(_exchange, _roles, st.integers(0, 600))


@requirement("LAW-27", "CTX-7", "CTX-8", "CTX-10")
@given(st.lists(_turns, min_size=1, max_size=30), st.integers(50, 2_000))
def test_any_history_is_fitted_without_breaking_it(
    turns: list[list[dict[str, Any]]], budget: int
) -> None:
    history = [message for turn in turns for message in turn]
    assume(any(message["role"] == "user" for message in history))
    untouched = copy.deepcopy(history)

    async def check() -> None:
        context, _ = await _context()
        await context.set_messages(history)
        try:
            view = await context.get_messages_for_request(token_budget=budget)
        except ContextLengthError:
            return
        assert broken_pairs(view) == []
        assert sum(len(message["content"] or "") for message in view) // 4 <= budget
        assert await context.get_messages() == untouched == history

    asyncio.run(check())
