"""Functions by name: a plan is data, so it names a function by its module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from amplifier.errors import AgentError

__all__ = ["DEPS", "reference_of", "resolve"]

DEPS = "agent.deps"
"""The capability that has the dependencies of a session; handed down to sub-agents."""


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
