"""What the tests of several contexts share: each of them, mounted as a session would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ModuleLoader
from amplifier_core.coordinator import ModuleCoordinator

CONTEXTS = ("context-simple", "context-persistent", "context-summarizing")


class Screen:
    """A person who does not look."""

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Show nothing."""


Mounted = tuple[Any, Callable[[], Awaitable[None]]]
Mount = Callable[..., Awaitable[Mounted]]


async def mount(module_id: str, folder: Path, **config: Any) -> Mounted:
    """Mount a context as a session would; return it and what closes it."""
    session = SimpleNamespace(session_id="s", parent_id=None, config={})
    coordinator = ModuleCoordinator(session, display_system=Screen())
    if module_id == "context-persistent":
        config["path"] = str(folder / "conversation.jsonl")
    bound = await ModuleLoader().load(module_id, config)
    coordinator.register_cleanup(await bound(coordinator))
    return coordinator.get("context"), coordinator.cleanup


@pytest.fixture(scope="session")
def mount_context() -> Mount:
    """The function `mount`, which test files cannot import from here."""
    return mount


@pytest.fixture(params=CONTEXTS, scope="session")
def module_id(request: pytest.FixtureRequest) -> str:
    """The id of each context in turn."""
    return request.param
