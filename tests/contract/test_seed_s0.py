"""The code blocks of the document Contribution Channels, run as written."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator
from contract.doubles import raising
from contract.installer import Installer
from contract.requirements import REQUIREMENTS, requirement
from contract.seeds import BLOCKS, run_block
from contract.seeds.signatures import assert_offers, shown_signature

_DOCUMENTS = {"S0": "SZERO", "S2": "STWO", "S3": "STHREE", "S4": "SFOUR"}


@pytest.mark.parametrize(("document", "prefix"), _DOCUMENTS.items())
def test_every_block_has_exactly_one_requirement_with_its_line(document: str, prefix: str) -> None:
    blocks = [name for name in BLOCKS if name.startswith(f"{document}:")]
    expected = {name: f"{prefix}-{name.partition(':')[2]}" for name in blocks}
    sources: dict[str, list[str]] = {name: [] for name in blocks}
    for entry_id, entry in REQUIREMENTS.items():
        name = entry.source.split(" ")[0]
        if name in sources:
            sources[name].append(entry_id)

    assert blocks
    assert sources == {name: [entry_id] for name, entry_id in expected.items()}
    for name, entry_id in expected.items():
        assert REQUIREMENTS[entry_id].source == f"{name} {BLOCKS[name].section}"


@requirement("SZERO-41")
async def test_a_contributor_may_be_plain_or_async_and_registering_gives_nothing() -> None:
    coordinator = ModuleCoordinator()
    register: Any = coordinator.register_contributor

    async def asynchronous() -> str:
        return "async"

    assert_offers(shown_signature("S0:41"), coordinator.register_contributor)
    assert register("capabilities", "plain", lambda: "plain") is None
    assert register("capabilities", "async", asynchronous) is None

    assert await coordinator.collect_contributions("capabilities") == ["plain", "async"]


@requirement("SZERO-57")
async def test_collecting_is_a_coroutine_of_a_list() -> None:
    coordinator = ModuleCoordinator()
    coordinator.register_contributor("c", "n", lambda: 1)

    assert_offers(shown_signature("S0:57"), coordinator.collect_contributions)
    collecting = coordinator.collect_contributions("c")

    assert inspect.iscoroutine(collecting)
    assert await asyncio.create_task(collecting) == [1]


@requirement("SZERO-89", "SZERO-106")
async def test_what_a_module_registers_while_mounting_is_collected(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    shown = await run_block("S0:89")
    installed.add("tool-shown", shown["mount"])
    plan = installed.basics(tools=[{"module": "tool-shown"}])

    async with AmplifierSession(plan) as session:
        coordinator = session.coordinator
        channel = "observability.events"
        coordinator.register_contributor(channel, "not-a-list", lambda: {"of": "another type"})
        coordinator.register_contributor(channel, "nothing-now", lambda: None)
        coordinator.register_contributor(channel, "broken", raising(RuntimeError("boom")))
        coordinator.register_contributor(channel, "later", lambda: ["later:event"])
        collected = await run_block("S0:106", {"coordinator": coordinator})

    declared = ["filesystem:read", "filesystem:write", "filesystem:delete"]
    assert collected["events"] == [declared, {"of": "another type"}, ["later:event"]]
    assert collected["flattened"] == [*declared, "later:event"]
    assert "broken" in caplog.text
    assert channel in caplog.text


@requirement("SZERO-140", "SZERO-153")
async def test_modules_that_declare_later_are_part_of_the_next_collection() -> None:
    coordinator = ModuleCoordinator()
    registered: list[str] = []
    names = {"coordinator": coordinator, "register_handler": registered.append}
    await run_block("S0:153", names)
    assert registered == []

    await run_block("S0:140", names)
    await run_block("S0:153", names)

    assert registered == ["streaming-ui:content-block-start", "streaming-ui:content-block-end"]
