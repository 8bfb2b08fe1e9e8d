"""The behaviour that every orchestrator must have."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

__all__ = ["OrchestratorBehaviorTests"]


async def _execute(orchestrator: Any, deps: Any, prompt: str = "Hello") -> Any:
    context, providers, tools, hooks = deps
    return await orchestrator.execute(
        prompt=prompt, context=context, providers=providers, tools=tools, hooks=hooks
    )


@pytest.mark.asyncio
@pytest.mark.module_validation
class OrchestratorBehaviorTests:
    """Inherit this in the tests of an orchestrator."""

    async def test_mount_succeeds(self, orchestrator_module: Any) -> None:
        """Mounting provides an orchestrator."""
        assert orchestrator_module is not None

    async def test_orchestrator_has_execute_method(self, orchestrator_module: Any) -> None:
        """`execute` is a coroutine function."""
        assert inspect.iscoroutinefunction(orchestrator_module.execute), "execute must be async"

    async def test_execute_returns_string(self, orchestrator_module: Any, mock_deps: Any) -> None:
        """A turn ends with text."""
        assert isinstance(await _execute(orchestrator_module, mock_deps), str)

    async def test_execute_with_empty_prompt(
        self, orchestrator_module: Any, mock_deps: Any
    ) -> None:
        """An empty prompt is a turn too."""
        assert isinstance(await _execute(orchestrator_module, mock_deps, ""), str)

    async def test_orchestrator_uses_provider(
        self, orchestrator_module: Any, mock_deps: Any
    ) -> None:
        """The model is called."""
        await _execute(orchestrator_module, mock_deps)
        assert mock_deps[1]["default"].complete.called, "provider.complete was not called"

    async def test_orchestrator_updates_context(
        self, orchestrator_module: Any, mock_deps: Any
    ) -> None:
        """The conversation is remembered."""
        await _execute(orchestrator_module, mock_deps)
        assert mock_deps[0].messages, "nothing was added to the context"
