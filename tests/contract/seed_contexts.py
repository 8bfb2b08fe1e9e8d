"""Contexts for the blocks of the context contract: ours, and objects with the methods of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_core import ModuleLoader
from amplifier_core.testing import MockCoordinator
from contract.seeds import run_block

__all__ = ["OURS", "TALK", "Mounted", "holder", "inner", "length"]

OURS = ("context-simple", "context-persistent", "context-summarizing")
_CALL = {"id": "call_1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "a" * 400},
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "b" * 400},
    {"role": "assistant", "content": "c" * 400},
    {"role": "user", "content": "And now?"},
]


class Mounted:
    """One of our contexts, mounted at the first call of a method and closed after the test."""

    def __init__(self, module_id: str, path: Path, **config: Any) -> None:
        self._module_id = module_id
        self._config = config
        if module_id == "context-persistent":
            self._config["path"] = str(path)
        self._coordinator = MockCoordinator()

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._coordinator.get("context") is None:
                mount = await ModuleLoader().load(self._module_id, self._config)
                self._coordinator.register_cleanup(await mount(self._coordinator))
            return await getattr(self._coordinator.get("context"), method)(*args, **kwargs)

        return call

    async def close(self) -> None:
        """Let go of its file."""
        await self._coordinator.cleanup()


async def holder(*blocks: str, given: dict[str, Any] | None = None, **attributes: Any) -> Any:
    """Return an object with the methods of blocks, and attributes of the test."""
    methods: dict[str, Any] = {}
    for name in blocks:
        methods |= await run_block(name, {"Any": Any, **(given or {})})
    made = type("Holder", (), {key: each for key, each in methods.items() if key[:2] != "__"})()
    vars(made).update(attributes)
    return made


def inner(owner: Any, name: str) -> Any:
    """Return an attribute that a block writes with an underscore."""
    return getattr(owner, name)


def length(message: dict[str, Any]) -> int:
    """Count a message's tokens in the simplest way."""
    return len(message.get("content") or "")
