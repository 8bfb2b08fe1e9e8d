"""Contract of the provider entries of a plan: instances, failures, and who is asked about them."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator
from contract.doubles import Listener, raising
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement


@requirement("SESS-20")
async def test_twins_among_providers_need_names_of_their_own(installed: Installer) -> None:
    plan = installed.basics()
    plan["providers"] = [{"module": "provider-test"}, {"module": "provider-test"}]

    with pytest.raises(ValueError, match="instance_id"):
        await AmplifierSession(plan).initialize()


@requirement("SESS-21")
@pytest.mark.parametrize("default_first", [True, False])
async def test_an_instance_stands_under_its_own_name(
    installed: Installer, default_first: bool
) -> None:
    plan = installed.basics()

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("providers", ScriptedProvider(config.get("is")), name="test")

    installed.add("provider-test", mount)
    entries = [
        {"module": "provider-test", "config": {"is": "default"}},
        {"module": "provider-test", "instance_id": "fast", "config": {"is": "fast"}},
    ]
    plan["providers"] = entries if default_first else entries[::-1]
    session = AmplifierSession(plan)

    await session.initialize()

    mounted = session.coordinator.get_mounted("providers")
    assert {name: provider.answers for name, provider in mounted.items()} == {
        "test": ["default"],
        "fast": ["fast"],
    }


@requirement("SESS-21")
async def test_an_instance_may_take_its_name_by_itself(installed: Installer) -> None:
    plan = installed.basics()

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        name = config["name"]
        await coordinator.mount("providers", ScriptedProvider(name), name=name)

    installed.add("provider-test", mount)
    plan["providers"] = [
        {"module": "provider-test", "instance_id": name, "config": {"name": name}}
        for name in ("here", "there")
    ]
    session = AmplifierSession(plan)

    await session.initialize()

    assert list(session.coordinator.get("providers")) == ["here", "there"]


@requirement("SESS-22", "LIFE-7")
async def test_a_provider_that_brings_nothing_leaves_the_others_as_they_were(
    installed: Installer,
) -> None:
    plan = installed.basics()

    async def no_key(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        return None

    async def half_way(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        await coordinator.mount("providers", ScriptedProvider(), name="half")
        raise RuntimeError("boom")

    installed.add("provider-keyless", no_key)
    installed.add("provider-half", half_way)
    installed.object("provider-last", "providers", ScriptedProvider(), "last")
    plan["providers"] += [
        {"module": name} for name in ("provider-keyless", "provider-half", "provider-last")
    ]
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    await session.initialize()

    assert list(session.coordinator.get("providers")) == ["test", "last"]
    assert [data["module_id"] for _, data in heard.calls] == ["provider-keyless", "provider-half"]
    assert "did not install a new provider" in heard.calls[0][1]["error"]


@requirement("SESS-23", "SESS-24")
async def test_an_application_is_asked_around_the_loading_of_providers(
    installed: Installer,
) -> None:
    plan = installed.basics()
    plan["providers"].insert(0, {"module": "provider-broken", "config": {"n": [1]}})
    boom = RuntimeError("boom")
    installed.add("provider-broken", raising(boom))
    asked: list[Any] = []

    async def before(coordinator: ModuleCoordinator, entry: dict[str, Any]) -> None:
        asked.append(("before", entry["module"]))
        entry.clear()

    async def after(
        coordinator: ModuleCoordinator, entry: dict[str, Any], error: Exception
    ) -> None:
        asked.append(("failed", entry["module"], error))
        entry["config"]["n"].append(2)

    session = AmplifierSession(plan)
    session.coordinator.register_capability("provider.before_load", before)
    session.coordinator.register_capability("provider.load_failure", after)
    await session.initialize()

    assert asked == [
        ("before", "provider-broken"),
        ("failed", "provider-broken", boom),
        ("before", "provider-test"),
    ]
    assert plan["providers"][0] == {"module": "provider-broken", "config": {"n": [1]}}

    strict = AmplifierSession(plan)
    strict.coordinator.register_capability("provider.load_failure", raising(LookupError("stop")))
    with pytest.raises(LookupError, match="stop"):
        await strict.initialize()
