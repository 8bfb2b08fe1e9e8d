"""The code blocks of the provider contract, run as written."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, interfaces
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_core.testing import MockCoordinator, MockProvider
from amplifier_foundation.bundles import compile_bundle, load_bundle
from amplifier_foundation.settings import load_settings
from contract.requirements import requirement
from contract.seed_runs import (
    PLAN,
    compare_protocol,
    entry_points_of,
    events_of,
    module_names,
    run_tests_of,
    session_from_block,
)
from contract.seeds import BLOCKS, run_block

SEEDED = Callable[[str], Path]
MODELS = (ProviderInfo, ModelInfo, ChatRequest, ChatResponse, ToolCall)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_API_KEY", raising=False)


async def provider_mount() -> Any:
    """Return the shown mount function, with the provider of the contracts and its client."""
    given: dict[str, Any] = {
        "ModuleCoordinator": ModuleCoordinator,
        "Provider": interfaces.Provider,
        "Callable": Callable,
        "MyProvider": module_names("provider")["MyProvider"],
        "logger": logging.getLogger("my_provider"),
        "os": os,
    }
    return (await run_block("S1:504", given))["mount"]


@requirement("SONE-481")
async def test_our_provider_protocol_is_the_shown_one() -> None:
    given: dict[str, Any] = {"runtime_checkable": runtime_checkable, "Protocol": Protocol}
    names = await run_block("S1:481", {**given, **{each.__name__: each for each in MODELS}})
    shown = names["Provider"]

    compare_protocol(shown, interfaces.Provider)

    for provider in (MockProvider(), module_names("provider")["MyProvider"]("key", {})):
        assert isinstance(provider, shown)
        assert isinstance(provider, interfaces.Provider)
    assert not isinstance(object(), interfaces.Provider)


@requirement("SONE-504")
@pytest.mark.parametrize("place", ["config", "environment"])
async def test_the_shown_mount_takes_a_key_and_returns_a_cleanup(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    mount = await provider_mount()
    coordinator = MockCoordinator()
    if place == "environment":
        monkeypatch.setenv("MY_API_KEY", "key")

    cleanup = await mount(coordinator, {"api_key": "key"} if place == "config" else {})
    provider = coordinator.get_mounted("providers")["my-provider"]
    assert (provider.api_key, provider.client.closed) == ("key", False)
    await cleanup()

    assert provider.client.closed


@requirement("SONE-504")
async def test_without_a_key_the_shown_mount_degrades_and_the_session_continues(
    installed_seed: SEEDED, caplog: pytest.LogCaptureFixture
) -> None:
    assert await (await provider_mount())(MockCoordinator(), {}) is None
    assert "No API key - provider not mounted" in caplog.text
    installed_seed("provider")
    plan = {**PLAN, "providers": [{"module": "my-provider"}, *PLAN["providers"]]}

    async with AmplifierSession(plan) as session:
        answer = await session.execute("hello")
        states = {each.module_id: each.state for each in session.status.modules}

    assert answer.startswith("[mock]")
    assert (states["my-provider"], states["provider-mock"]) == ("failed", "mounted")


@requirement("SONE-504", "SONE-530")
async def test_the_entry_point_of_the_provider_leads_a_session_to_it(
    installed_seed: SEEDED,
) -> None:
    installed_seed("provider")
    entry = {"module": "my-provider", "config": {"api_key": "key"}}

    async with AmplifierSession({**PLAN, "providers": [entry]}) as session:
        answer = await session.execute("hello")
        client = session.coordinator.get_mounted("providers")["my-provider"].client
        assert not client.closed

    assert entry_points_of("S1:530") == {"my-provider": "my_provider:mount"}
    assert answer == "model-v1 answers."
    assert client.closed


@requirement("SONE-541")
async def test_the_shown_configuration_is_a_section_of_a_plan(
    installed_seed: SEEDED, tmp_path: Path
) -> None:
    async with await session_from_block("S1:541", installed_seed("provider")) as session:
        provider = session.coordinator.get_mounted("providers")["my-provider"]

    assert provider.config["default_model"] == "model-v1"
    assert provider.config["debug"] is True
    # The kernel hands a variable on as it is written; an app's bundle replaces it.
    assert provider.api_key == "${MY_API_KEY}"
    bundle = tmp_path / "own.yaml"
    session_part = "session: {orchestrator: loop-basic, context: context-simple}\n"
    bundle.write_text(session_part + BLOCKS["S1:541"].text, encoding="utf-8")
    settings = load_settings(tmp_path / "project", trusted=False)
    loaded = await load_bundle(bundle, settings=settings)
    (entry,) = compile_bundle(loaded, settings, {"MY_API_KEY": "key"}).plan["providers"]
    assert entry["config"]["api_key"] == "key"


@requirement("SONE-559")
async def test_the_shown_events_of_a_provider_are_collected() -> None:
    assert await events_of("S1:559") == ["my-provider:rate_limit", "my-provider:retry"]


@requirement("SONE-607")
async def test_the_shown_test_of_a_provider_passes() -> None:
    names: dict[str, Any] = {"pytest": pytest, "mount": await provider_mount()}

    assert await run_tests_of("S1:607", names) == ["test_provider_mount"]

    # Its coordinator also has what a test of a module may want.
    coordinator = names["create_test_coordinator"]()
    assert isinstance(coordinator, names["TestCoordinator"])
