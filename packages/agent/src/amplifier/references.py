"""Functions by name: a plan is data, so it names a function by its module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from amplifier.errors import AgentError
from amplifier_core.coordinator import ModuleCoordinator

__all__ = ["DEPS", "StoredDeps", "reference_of", "resolve", "use_stored_deps"]

DEPS = "agent.deps"
"""The capability that has the dependencies of a session; handed down to sub-agents."""


class StoredDeps(BaseModel):
    """Dependencies as data in a plan, for a session that runs in another process."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(description="The type, as `module:name`; it is imported.")
    value: Any = Field(description="The value as JSON.")


def use_stored_deps(coordinator: ModuleCoordinator, stored: StoredDeps | None) -> None:
    """Give a session the dependencies of its plan, unless its program gave it others."""
    if stored is not None and coordinator.get_capability(DEPS) is None:
        made = TypeAdapter[Any](resolve(stored.type)).validate_python(stored.value)
        coordinator.register_capability(DEPS, made)


def reference_of(function: Callable[..., Any]) -> str:
    """Return `module:name`, by which sub-agents and other processes find a function.

    Raises:
        AgentError: the function cannot be found again under its name.
    """
    reference = f"{function.__module__}:{function.__qualname__}"
    try:
        found = resolve(reference)
    except (ImportError, AttributeError):
        found = None
    if found is not function:
        raise AgentError(
            f"`{reference}` cannot be found again by this name.",
            why="A plan names a function by its module, so that sub-agents and workers have it.",
            fix="Define it at the top level of a module.",
        )
    return reference


def resolve(reference: str) -> Any:
    """Return what a reference names; raises ImportError or AttributeError."""
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
