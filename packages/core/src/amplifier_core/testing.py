"""Test doubles of everything a module interacts with, for module authors' tests.

The methods that a test may want to observe or replace are `AsyncMock`s: they can be asserted on
(`tool.execute.assert_awaited_once()`) and given another `side_effect`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.hooks import HookRegistry
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from amplifier_core.models import HookResult, ModelInfo, ProviderInfo, ToolResult

__all__ = [
    "EventRecorder",
    "MockContextManager",
    "MockCoordinator",
    "MockProvider",
    "MockTool",
    "RecordingHooks",
    "ScriptedOrchestrator",
    "TestCoordinator",
    "create_test_coordinator",
    "wait_for",
]

_POLL_SECONDS = 0.01
_NOT_GIVEN: Any = object()


class RecordingHooks(HookRegistry):
    """A real hook registry that also records registrations, in `registered`."""

    def __init__(self) -> None:
        super().__init__()
        self.registered: list[tuple[str, Any]] = []

    def register(self, event: str, handler: Any, *args: Any, **kwargs: Any) -> Callable[[], None]:
        """Register as a hook registry does, and keep the event and the handler."""
        self.registered.append((event, handler))
        return super().register(event, handler, *args, **kwargs)

    on = register


class MockCoordinator(ModuleCoordinator):
    """A real coordinator without a real session; records what was mounted.

    Its hooks are `RecordingHooks`, its approval system says yes, its display shows nothing.
    """

    # Its alias `TestCoordinator` must not be collected by pytest as a test class.
    __test__ = False

    def __init__(self) -> None:
        approvals = AsyncMock(return_value={"approved": True})
        approvals.request_approval.return_value = "Allow"
        config = {"session": {"orchestrator": "test-orchestrator", "context": "test-context"}}
        super().__init__(
            SimpleNamespace(session_id="test-session", parent_id=None, config=config),
            approval_system=approvals,
            # Showing is synchronous by contract; an awaitable that nobody awaits would warn.
            display_system=AsyncMock(show_message=Mock()),
        )
        self._hooks = self.mount_points["hooks"] = RecordingHooks()
        self._hooks.set_default_fields(session_id=self.session_id, parent_id=self.parent_id)
        self.mount_history: list[dict[str, Any]] = []
        self.unmount_history: list[dict[str, Any]] = []

    def mount(
        self, mount_point: str, module: Any, name: str | None = None
    ) -> Coroutine[Any, Any, None]:
        """Mount as a coordinator does, and record it in `mount_history`."""
        self.mount_history.append({"mount_point": mount_point, "module": module, "name": name})
        return super().mount(mount_point, module, name)

    def unmount(self, mount_point: str, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Unmount as a coordinator does, and record it in `unmount_history`."""
        self.unmount_history.append({"mount_point": mount_point, "name": name})
        return super().unmount(mount_point, name)


TestCoordinator = MockCoordinator


class MockTool:
    """A tool that succeeds with `output`; counts its calls and keeps the last input.

    `return_value` is another name of `output`.
    """

    def __init__(
        self,
        name: str = "mock_tool",
        output: Any = "Success",
        *,
        description: str | None = None,
        return_value: Any = _NOT_GIVEN,
    ) -> None:
        self.name = name
        self.description: str = f"Mock tool: {name}" if description is None else description
        self.input_schema: dict[str, Any] = {"type": "object", "properties": {}}
        self.output: Any = output if return_value is _NOT_GIVEN else return_value
        self.call_count: int = 0
        self.last_input: Any = None
        self.execute: AsyncMock = AsyncMock(side_effect=self._execute)

    async def _execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        self.call_count += 1
        self.last_input = input
        return ToolResult(success=True, output=self.output)


class MockProvider:
    """A provider that returns its `responses` in turn, then `Mock response` forever.

    A response is a ChatResponse, a text, or an exception to raise. `requests` records the requests.
    """

    def __init__(
        self,
        responses: Iterable[ChatResponse | str | BaseException] = (),
        *,
        name: str = "mock",
    ) -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        self._responses = list(responses)
        self.complete: AsyncMock = AsyncMock(side_effect=self._complete)
        self.list_models: AsyncMock = AsyncMock(side_effect=self._list_models)

    @property
    def call_count(self) -> int:
        """How often the model was called."""
        return len(self.requests)

    def get_info(self) -> ProviderInfo:
        """Describe a provider with a window of 100,000 tokens."""
        return ProviderInfo(
            id=self.name,
            display_name="Mock provider",
            defaults={"context_window": 100_000, "max_output_tokens": 4_096},
        )

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls that the response carries."""
        return list(response.tool_calls or ())

    async def _complete(self, request: ChatRequest, **_: Any) -> ChatResponse:
        self.requests.append(request)
        response = self._responses.pop(0) if self._responses else "Mock response"
        if isinstance(response, BaseException):
            raise response
        if isinstance(response, str):
            return ChatResponse(content=[TextBlock(text=response)])
        return response

    async def _list_models(self) -> list[ModelInfo]:
        return [
            ModelInfo(
                id="mock-model",
                display_name="Mock model",
                context_window=100_000,
                max_output_tokens=4_096,
            )
        ]


class MockContextManager:
    """A memory that keeps everything in `messages` and never compacts."""

    def __init__(self, messages: list[dict[str, Any]] | None = None) -> None:
        self.messages: list[dict[str, Any]] = [] if messages is None else messages
        self.add_message: AsyncMock = AsyncMock(side_effect=self._add_message)
        self.get_messages: AsyncMock = AsyncMock(side_effect=self._get_messages)
        self.get_messages_for_request: AsyncMock = AsyncMock(
            side_effect=self._get_messages_for_request
        )
        self.set_messages: AsyncMock = AsyncMock(side_effect=self._set_messages)
        self.clear: AsyncMock = AsyncMock(side_effect=self._clear)
        self._should_compact = AsyncMock(return_value=False)
        self._compact_internal = AsyncMock()

    async def _add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def _get_messages(self) -> list[dict[str, Any]]:
        return self.messages

    async def _get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        return list(self.messages)

    async def _set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages = list(messages)

    async def _clear(self) -> None:
        self.messages = []


class EventRecorder:
    """Records every event as (name, copy of the data); can be used in place of the hooks."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def emit(self, event: str, data: dict[str, Any] | None) -> HookResult:
        """Record the event and let it pass."""
        self.events.append((event, dict(data or {})))
        return HookResult(action="continue")

    async def record(self, event: str, data: dict[str, Any] | None) -> HookResult:
        """Do the same as a handler: `hooks.register(event, recorder.record)`."""
        return await self.emit(event, data)

    def clear(self) -> None:
        """Forget what was recorded."""
        self.events.clear()

    def get_events(self, event_type: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Return what was recorded, or only the events of one name."""
        return [each for each in self.events if event_type is None or each[0] == event_type]


class ScriptedOrchestrator:
    """A loop that calls no model: it returns its `responses` in turn, then `DONE`."""

    def __init__(self, responses: list[str]) -> None:
        self.responses = responses
        self.call_count: int = 0

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
    ) -> str:
        """Store the prompt and the next response, and return the response."""
        await hooks.emit("session:start", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        said = self.responses[self.call_count : self.call_count + 1]
        response = said[0] if said else "DONE"
        self.call_count += 1
        await context.add_message({"role": "assistant", "content": response})
        await hooks.emit("session:end", {"response": response})
        return response


def create_test_coordinator() -> MockCoordinator:
    """Return a coordinator with the tools `echo` and `fail` and a memory."""
    coordinator = MockCoordinator()
    coordinator.mount_points["tools"] = {
        "echo": MockTool("echo", "Echo response"),
        "fail": MockTool("fail", None),
    }
    coordinator.mount_points["context"] = MockContextManager()
    return coordinator


async def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Return whether `condition` came true within `timeout` seconds."""
    deadline = asyncio.get_running_loop().time() + timeout
    while not condition():
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True
