"""Contract of the mount plan: what a session reads of it and what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator
from contract.installer import Installer, write_module
from contract.requirements import requirement


def _configs(installed: Installer) -> dict[str, Any]:
    """Install a loop, a context, a provider, a tool and a hook that keep their configs."""
    seen: dict[str, Any] = {}
    things: dict[str, Any] = {
        "orchestrator": installed.loop,
        "context": installed.memory,
        "providers": installed.provider,
        "tools": object(),
        "hooks": None,
    }

    def keeping(module_id: str, point: str) -> None:
        async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
            seen[module_id] = dict(config)
            config["written_by_module"] = True
            if point != "hooks":
                await coordinator.mount(point, things[point], name="x")

        installed.add(module_id, mount)

    for module_id, point in (
        ("loop-test", "orchestrator"),
        ("loop-basic", "orchestrator"),
        ("context-test", "context"),
        ("context-simple", "context"),
        ("provider-test", "providers"),
        ("tool-test", "tools"),
        ("hooks-test", "hooks"),
    ):
        keeping(module_id, point)
    return seen


@requirement("PLAN-1", "PLAN-4", "SESS-25")
async def test_each_entry_hands_its_own_config_to_its_module(installed: Installer) -> None:
    seen = _configs(installed)
    plan: dict[str, Any] = {
        "session": {
            "orchestrator": {"module": "loop-test", "config": {"is": "loop"}},
            "context": {"module": "context-test"},
        },
        "providers": [{"module": "provider-test", "config": {"is": "provider"}}],
        "tools": [{"module": "tool-test", "config": {"is": "tool"}}],
        "hooks": [{"module": "hooks-test", "config": {"enabled_events": ["tool:pre"]}}],
    }

    await AmplifierSession(plan).initialize()

    assert seen == {
        "loop-test": {"is": "loop"},
        "context-test": {},
        "provider-test": {"is": "provider"},
        "tool-test": {"is": "tool"},
        "hooks-test": {"enabled_events": ["tool:pre"]},
    }
    assert "written_by_module" not in str(plan)


@requirement("PLAN-1", "PLAN-2")
async def test_the_short_form_takes_its_config_from_the_top_level(installed: Installer) -> None:
    seen = _configs(installed)
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-test", "context": "context-test"},
        "orchestrator": {"config": {"is": "loop"}},
        "context": {"config": {"is": "context"}},
    }

    await AmplifierSession(plan).initialize()

    assert seen == {"loop-test": {"is": "loop"}, "context-test": {"is": "context"}}


@requirement("PLAN-3")
async def test_a_form_without_a_module_means_the_basic_ones(installed: Installer) -> None:
    seen = _configs(installed)
    plan: dict[str, Any] = {
        "session": {"orchestrator": {"config": {"n": 1}}, "context": {"config": {"n": 2}}}
    }

    await AmplifierSession(plan).initialize()

    assert seen == {"loop-basic": {"n": 1}, "context-simple": {"n": 2}}


class _Source:
    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> Path:
        return self._path


class _FolderResolver:
    """Finds every module in a folder of its own and keeps the hints it was given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hints: dict[str, Any] = {}

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
        self.hints[module_id] = source_hint
        return _Source(self.folder / module_id)


@requirement("PLAN-2", "PLAN-4", "PLAN-6", "SRC-6", "SRC-4")
async def test_sources_reach_the_resolver_as_they_are_written(
    installed: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTRACT_KEY", "expanded")
    doubles = {
        "plan-loop": ("orchestrator", "ScriptedOrchestrator([])"),
        "plan-context": ("context", "MockContextManager()"),
        "plan-provider": ("providers", "MockProvider()"),
    }
    for module_id, (point, double) in doubles.items():
        write_module(
            tmp_path / module_id,
            module_id,
            f"""
            from amplifier_core.testing import *

            async def mount(coordinator, config):
                coordinator.register_capability("{module_id}.config", config)
                await coordinator.mount("{point}", {double}, name="x")
            """,
        )
    git = "git+https://example.invalid/org/repo@main#subdirectory=x"
    custom = {"type": "zip", "at": 1}
    plan: dict[str, Any] = {
        "session": {
            "orchestrator": "plan-loop",
            "orchestrator_source": git,
            "context": {"module": "plan-context", "source": custom},
        },
        "providers": [{"module": "plan-provider", "config": {"api_key": "${CONTRACT_KEY}"}}],
    }
    session = AmplifierSession(plan)
    resolver = _FolderResolver(tmp_path)
    await session.coordinator.mount("module-source-resolver", resolver)

    async with session:
        config = session.coordinator.get_capability("plan-provider.config")

    assert resolver.hints == {"plan-loop": git, "plan-context": custom, "plan-provider": None}
    assert resolver.hints["plan-context"] is custom
    assert config == {"api_key": "${CONTRACT_KEY}"}
    assert os.environ["CONTRACT_KEY"] == "expanded"


@requirement("PLAN-5")
async def test_agents_and_unknown_sections_are_nobodys_business_here(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    extra: dict[str, Any] = {
        "agents": {"researcher": {"tools": [{"module": "tool-absent"}]}, "broken": 3},
        "spawn": {"exclude_tools": ["tool-task"]},
    }
    plan = installed.basics(**extra)
    session = AmplifierSession(plan)

    await session.initialize()

    assert session.initialized
    assert session.coordinator.config["agents"] is extra["agents"]
    assert session.coordinator.config["spawn"] == {"exclude_tools": ["tool-task"]}
    assert caplog.records == []
