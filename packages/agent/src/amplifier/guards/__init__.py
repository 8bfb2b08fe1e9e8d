"""Functions as guards: each decides about every tool call before it is made."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from amplifier.guards.config import FunctionGuardsConfig
from amplifier.references import DEPS, resolve, use_stored_deps
from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit.configuration import read_config

__all__ = ["Ask", "Deny", "Guard", "ToolCall", "mount"]

__amplifier_module_type__ = "hook"

DepsT = TypeVar("DepsT", default=Any)
_NAME = "hooks-functions"
_OPTIONS = ("Allow once", "Deny")


@dataclass(frozen=True, slots=True)
class ToolCall(Generic[DepsT]):
    """A tool call that is about to be made."""

    name: str
    input: Mapping[str, Any]
    call_id: str
    session_id: str
    deps: DepsT


@dataclass(frozen=True, slots=True)
class Deny:
    """The call is not made; the model reads the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Whoever reads the stream is asked; without an answer the call is denied."""

    prompt: str


Guard: TypeAlias = Callable[[ToolCall[DepsT]], Deny | Ask | Awaitable[Deny | Ask | None] | None]
"""Returns None for a call that may be made. One that raises denies the call."""


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Register the functions that `functions` names, each as `module:name`."""
    settings = read_config(FunctionGuardsConfig, config, _NAME)
    use_stored_deps(coordinator, settings.deps)
    for reference in settings.functions:
        decide = _handler(resolve(reference), coordinator)
        coordinator.hooks.register(events.TOOL_PRE, decide, name=_NAME, on_error="deny")


def _handler(guard: Guard[Any], coordinator: ModuleCoordinator) -> Callable[..., Any]:
    async def decide(_: str, data: dict[str, Any]) -> HookResult:
        call: ToolCall[Any] = ToolCall(
            str(data["tool_name"]),
            data.get("tool_input") or {},
            str(data.get("tool_call_id")),
            str(data.get("session_id") or coordinator.session_id),
            coordinator.get_capability(DEPS),
        )
        decision: Any = guard(call)
        if inspect.isawaitable(decision):
            decision = await decision
        match decision:
            case None:
                return HookResult(action="continue")
            case Deny(reason):
                return HookResult(action="deny", reason=reason)
            case Ask(prompt):
                return HookResult(
                    action="ask_user", approval_prompt=prompt, approval_options=[*_OPTIONS]
                )
            case _:
                raise TypeError(f"a guard returned {type(decision).__name__}: Deny, Ask or None")

    return decide
