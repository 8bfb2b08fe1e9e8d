"""Every shipped guard denies when it fails, and has a limit for that."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest

from amplifier_core.session import AmplifierSession
from amplifier_foundation.guards import GUARDS

PLAN = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
# A question may be open for five minutes; nothing else takes half of one.
LONGEST_SECONDS = 320.0


@pytest.mark.parametrize("guard", sorted(GUARDS))
async def test_each_guard_denies_when_it_fails_and_none_may_take_for_ever(
    guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: dict[str, dict[str, Any]] = {}
    session = AmplifierSession(PLAN)
    hooks = session.coordinator.hooks
    register = type(hooks).register

    def note(self: Any, event: str, *arguments: Any, **how: Any) -> Any:
        registered.setdefault(event, how)
        return register(self, event, *arguments, **how)

    monkeypatch.setattr(type(hooks), "register", note)
    (module,) = entry_points(group="amplifier.modules", name=guard)
    cleanup = await module.load()(session.coordinator, {})

    guarding = [how for how in registered.values() if how.get("on_error") == "deny"]
    assert guarding
    for how in guarding:
        assert 0 < how["timeout"] <= LONGEST_SECONDS
    cleanup()


def test_every_guard_that_is_shipped_is_installed() -> None:
    installed = {each.name for each in entry_points(group="amplifier.modules")}

    assert installed >= GUARDS
