"""Modules made inside a test: installed under their id, or written to a folder."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    ModelInfo,
    ModuleCoordinator,
    ProviderInfo,
    TextBlock,
    ToolCall,
    Usage,
)
from contract.doubles import Memory

Mount = Callable[[ModuleCoordinator, dict[str, Any]], Awaitable[Any]]


class Loop:
    """An orchestrator that keeps what it is handed and answers at once, or as it is told to."""

    def __init__(self, act: Callable[..., Awaitable[Any]] | None = None) -> None:
        self.act = act
        self.handed: list[dict[str, Any]] = []

    async def execute(self, **handed: Any) -> Any:
        """Keep the arguments and answer."""
        self.handed.append(handed)
        return f"answer to {handed['prompt']}" if self.act is None else await self.act(**handed)


class ScriptedProvider:
    """A provider that gives scripted answers in turn, the last one for ever."""

    def __init__(self, *answers: Any, name: str = "test", **defaults: Any) -> None:
        self.name = name
        self.answers: list[Any] = list(answers) or ["Hello."]
        self.defaults = defaults
        self.requests: list[ChatRequest] = []

    def get_info(self) -> ProviderInfo:
        """Tell the defaults a test chose."""
        return ProviderInfo(id=self.name, display_name=self.name, defaults=self.defaults)

    async def list_models(self) -> list[ModelInfo]:
        """Know no models."""
        return []

    async def complete(self, request: ChatRequest, **_kwargs: Any) -> ChatResponse:
        """Give the next answer: text, tool calls, an exception, or a function to await."""
        self.requests.append(request)
        answer: Any = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, (str, list)):
            return response(answer)  # pyright: ignore[reportUnknownArgumentType] - a test's own list
        return await answer(request)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Give the calls of the response."""
        return list(response.tool_calls or [])


def response(answer: str | Sequence[ToolCall]) -> ChatResponse:
    """Make a response of text, or of tool calls."""
    usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
    if isinstance(answer, str):
        return ChatResponse(content=[TextBlock(text=answer)], usage=usage)
    calls = list(answer)
    content: Any = [
        {"type": "tool_call", "id": call.id, "name": call.name, "input": call.arguments}
        for call in calls
    ]
    return ChatResponse(content=content, tool_calls=calls, usage=usage)


class Installer:
    """Installs mock modules by id; `basics` gives a loop, a context and a provider."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.loop = Loop()
        self.memory = Memory()
        self.provider = ScriptedProvider()

    def add(self, module_id: str, mount: Any, **attributes: Any) -> None:
        """Make `module_id` importable, with this mount and other attributes."""
        module = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        module.__dict__.update(mount=mount, **attributes)
        self._monkeypatch.setitem(sys.modules, module.__name__, module)

    def object(self, module_id: str, point: str, thing: Any, name: str | None = None) -> None:
        """Install a module that mounts one object."""
        self.add(module_id, mounting(point, thing, name))

    def basics(self, **sections: Any) -> dict[str, Any]:
        """Install loop, context and provider, and give a plan of them with further sections."""
        self.object("loop-test", "orchestrator", self.loop)
        self.object("context-test", "context", self.memory)
        self.object("provider-test", "providers", self.provider, "test")
        session = {"orchestrator": "loop-test", "context": "context-test"}
        session |= sections.pop("session", {})
        return {"session": session, "providers": [{"module": "provider-test"}], **sections}


class Folder:
    """A module source that is a local folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        """Return the folder."""
        return self.path


def mounting(point: str, thing: Any, name: str | None = None, returns: Any = None) -> Mount:
    """Make a mount function that mounts one object and returns something."""

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        await coordinator.mount(point, thing, name=name)
        return returns

    return mount


def write_module(folder: Path, module_id: str, source: str, package: str | None = None) -> Path:
    """Write a module's package into `folder` and give the folder."""
    package = package or f"amplifier_module_{module_id.replace('-', '_')}"
    home = folder / package
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return folder
