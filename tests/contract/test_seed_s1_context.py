"""The code blocks of the context contract, run as written; those about compaction are elsewhere."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest
import yaml

from amplifier_core import AmplifierSession, ModuleCoordinator, interfaces
from amplifier_core.message_models import Message
from amplifier_core.testing import MockContextManager, MockCoordinator, MockProvider
from contract.requirements import requirement
from contract.seed_contexts import OURS, TALK, Mounted, holder, inner, length
from contract.seed_runs import (
    PLAN,
    compare_protocol,
    entry_points_of,
    events_of,
    module_names,
    run_tests_of,
    values_of,
)
from contract.seeds import BLOCKS, run_block

SEEDED = Callable[[str], Path]
Contexts = Callable[..., Any]


@pytest.fixture
def seed_context() -> Contexts:
    """Make a context of the contracts' own blocks."""
    return module_names("context")["MyContextManager"]


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[Contexts]:
    """Make one of our contexts by its id and configuration."""
    made: list[Mounted] = []

    def make(module_id: str, **config: Any) -> Mounted:
        made.append(Mounted(module_id, tmp_path / f"{len(made)}.jsonl", **config))
        return made[-1]

    yield make
    for each in made:
        await each.close()


# --- protocol and messages -----------------------------------------------------------------------


@requirement("SONE-1372")
async def test_our_context_protocol_is_the_shown_one(seed_context: Contexts) -> None:
    given: dict[str, Any] = {
        "runtime_checkable": runtime_checkable,
        "Protocol": Protocol,
        "Any": Any,
    }
    shown = (await run_block("S1:1372", given))["ContextManager"]

    compare_protocol(shown, interfaces.ContextManager)

    for context in (MockContextManager(), seed_context()):
        assert isinstance(context, shown)
        assert isinstance(context, interfaces.ContextManager)


@requirement("SONE-1419")
@pytest.mark.parametrize("module_id", OURS)
async def test_the_shown_messages_are_stored_returned_and_sent(
    module_id: str, ours: Contexts
) -> None:
    shown = await values_of("S1:1419")
    context = ours(module_id)
    roles = ["user", "assistant", "assistant", "system", "tool"]
    assert [message["role"] for message in shown] == roles

    for message in shown:
        await context.add_message(message)

    stored = await context.get_messages()
    assert [{key: each[key] for key in own} for own, each in zip(shown, stored, strict=True)] == (
        shown
    )
    for message in await context.get_messages_for_request():
        Message.model_validate(message)


# --- entry point ---------------------------------------------------------------------------------


@requirement("SONE-1465")
async def test_the_shown_mount_point_is_another_name_of_the_contexts(
    seed_context: Contexts,
) -> None:
    given: dict[str, Any] = {
        "ModuleCoordinator": ModuleCoordinator,
        "ContextManager": interfaces.ContextManager,
    }
    names: dict[str, Any] = {**given, "Callable": Callable, "MyContextManager": seed_context}
    mount = (await run_block("S1:1465", names))["mount"]
    coordinator = MockCoordinator()

    returned = await mount(coordinator, {"max_tokens": 7})

    assert coordinator.get("context") is returned
    assert inner(returned, "_max_tokens") == 7
    assert inner(await mount(coordinator, {}), "_compaction_threshold") == 0.8


@requirement("SONE-1465", "SONE-1485", "SONE-1803")
async def test_the_shown_plan_leads_a_session_to_the_context(installed_seed: SEEDED) -> None:
    installed_seed("context")
    section = yaml.safe_load(BLOCKS["S1:1803"].text)

    async with AmplifierSession({**PLAN, **section}) as session:
        answer = await session.execute("hello")
        context = session.coordinator.get_mounted("context")
        stored = await context.get_messages()

    assert entry_points_of("S1:1485") == {"my-context": "my_context:mount"}
    assert section["session"] == {"orchestrator": "loop-basic", "context": "my-context"}
    assert type(context).__module__ == "my_context"
    assert [message["role"] for message in stored] == ["user", "assistant"]
    assert answer.startswith("[mock]")


# --- the five methods ----------------------------------------------------------------------------


@requirement("SONE-1498")
async def test_the_shown_add_message_refuses_a_message_without_a_role() -> None:
    context = await holder("S1:1498", _messages=[], _token_count=0, _estimate_tokens=length)

    await context.add_message({"role": "user", "content": "hello"})
    with pytest.raises(ValueError, match="role"):
        await context.add_message({"content": "hello"})

    assert inner(context, "_messages") == [{"role": "user", "content": "hello"}]
    assert inner(context, "_token_count") == 5


@requirement("SONE-1498")
@pytest.mark.parametrize("module_id", OURS)
async def test_our_contexts_refuse_a_message_without_a_role(module_id: str, ours: Contexts) -> None:
    context = ours(module_id)

    with pytest.raises(ValueError, match="role"):
        await context.add_message({"content": "hello"})

    assert await context.get_messages() == []


@requirement("SONE-1516")
@pytest.mark.parametrize(
    ("budget", "provider", "expected"),
    [
        (7, MockProvider(), 7),
        (None, MockProvider(), 100_000 - 4_096 - 1_000),
        (None, object(), 50),
        (None, None, 50),
    ],
)
async def test_the_shown_budget_is_explicit_then_the_providers_then_configured(
    budget: int | None, provider: Any, expected: int
) -> None:
    compacted: list[int] = []

    async def compact() -> None:
        compacted.append(expected)

    facts: dict[str, Any] = {"_messages": ["m"], "_max_tokens": 50, "_compaction_threshold": 1.0}
    facts["_compact_internal"] = compact
    context = await holder("S1:1516", _token_count=expected, **facts)

    assert inner(context, "_calculate_budget")(budget, provider) == expected
    messages = await context.get_messages_for_request(budget, provider)
    assert (messages, compacted) == (["m"], [])
    vars(context)["_token_count"] += 1
    await context.get_messages_for_request(budget, provider)
    assert compacted == [expected]
    assert messages is not inner(context, "_messages")


@requirement("SONE-1569", "SONE-1579", "SONE-1622")
async def test_the_shown_messages_are_copied_replaced_and_cleared() -> None:
    blocks = ("S1:1569", "S1:1579", "S1:1622")
    context = await holder(*blocks, _messages=[], _token_count=0, _estimate_tokens=length)
    given = [{"role": "user", "content": "hello"}]

    await context.set_messages(given)
    given.clear()
    (await context.get_messages()).clear()

    assert await context.get_messages() == [{"role": "user", "content": "hello"}]
    assert inner(context, "_token_count") == 5
    await context.clear()
    assert (await context.get_messages(), inner(context, "_token_count")) == ([], 0)


@requirement("SONE-1569", "SONE-1579", "SONE-1622")
@pytest.mark.parametrize("module_id", OURS)
async def test_our_contexts_copy_replace_and_clear(module_id: str, ours: Contexts) -> None:
    context = ours(module_id)

    await context.set_messages([dict(each) for each in TALK])
    (await context.get_messages()).clear()

    assert len(await context.get_messages()) == len(TALK)
    await context.clear()
    assert await context.get_messages() == []


@requirement("SONE-1590")
@pytest.mark.parametrize("loaded", [True, False])
async def test_a_context_with_a_file_keeps_its_own_history_as_shown(
    loaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    written: list[str] = []
    facts: dict[str, Any] = {"_messages": ["own"], "_loaded_from_file": loaded}
    facts["_write_to_file"] = lambda: written.append("file")
    context = await holder("S1:1590", given={"logger": logging.getLogger("my")}, **facts)

    await context.set_messages(["filtered"])

    assert inner(context, "_messages") == (["own"] if loaded else ["filtered"])
    assert written == ([] if loaded else ["file"])
    assert ("Ignoring set_messages" in caplog.text) == loaded


@requirement("SONE-1590")
async def test_our_persistent_context_keeps_its_own_history(tmp_path: Path) -> None:
    first = Mounted("context-persistent", tmp_path / "kept.jsonl")
    await first.set_messages([dict(each) for each in TALK])
    await first.add_message({"role": "assistant", "content": "Done."})
    await first.close()
    resumed = Mounted("context-persistent", tmp_path / "kept.jsonl")

    await resumed.set_messages([{"role": "user", "content": "filtered"}])
    kept = await resumed.get_messages()
    await resumed.close()

    assert [message["role"] for message in kept] == [*(each["role"] for each in TALK), "assistant"]


# --- observability and testing -------------------------------------------------------------------


@requirement("SONE-1819")
async def test_the_shown_events_of_a_context_are_collected() -> None:
    assert await events_of("S1:1819") == ["context:pre_compact", "context:post_compact"]


@requirement("SONE-1873")
@pytest.mark.parametrize("whose", [*OURS, "my-context"])
async def test_the_shown_tests_of_a_context_pass(
    whose: str, ours: Contexts, seed_context: Contexts
) -> None:
    def make(**config: Any) -> Any:
        return seed_context(**config) if whose == "my-context" else ours(whose, **config)

    # Python reads the placeholder as a set; our contexts read the function of a call.
    placeholder = "{...}" if whose == "my-context" else '{"name": "read_file", "arguments": "{}"}'
    given: dict[str, Any] = {"pytest": pytest, "MyContextManager": make}
    ran = await run_tests_of("S1:1873", given, placeholder)

    assert ran == [
        "test_context_manager",
        "test_compaction_preserves_tool_pairs",
        "test_session_resume",
    ]


@requirement("SONE-1956")
async def test_the_shown_mock_context_shows_its_messages() -> None:
    names = await run_block("S1:1956")

    assert isinstance(names["context"], MockContextManager)
    assert names["messages"] == [{"role": "user", "content": "Test"}]
