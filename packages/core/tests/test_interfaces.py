"""Tests of the contracts: what counts as a module of each kind."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import ValidationError

from amplifier_core import interfaces
from amplifier_core.approval import ApprovalSystem, ApprovalTimeoutError
from amplifier_core.display import DisplaySystem
from amplifier_core.interfaces import (
    ApprovalProvider,
    ApprovalRequest,
    ApprovalResponse,
    ContextManager,
    HookHandler,
    Orchestrator,
    Provider,
    Tool,
)
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import HookResult, ModelInfo, ProviderInfo, ToolResult

PROTOCOLS: list[Any] = [
    ApprovalProvider,
    ApprovalSystem,
    ContextManager,
    DisplaySystem,
    HookHandler,
    Orchestrator,
    Provider,
    Tool,
]


class Clock:
    name = "clock"
    description = "tells the time"

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output=input)


class Vendor:
    @property
    def name(self) -> str:
        raise RuntimeError("nobody should ask")

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="v", display_name="V")

    async def list_models(self) -> list[ModelInfo]:
        return []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        return ChatResponse(content=[])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return []


class Loop:
    async def execute(self, prompt: str, **kwargs: Any) -> str:
        return prompt


class Memory:
    async def add_message(self, message: dict[str, Any]) -> None: ...

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        return []

    async def get_messages(self) -> list[dict[str, Any]]:
        return []

    async def set_messages(self, messages: list[dict[str, Any]]) -> None: ...

    async def clear(self) -> None: ...


class Person:
    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        raise ApprovalTimeoutError

    def show_message(
        self, message: str, level: Literal["info", "warning", "error"], source: str = "hook"
    ) -> None: ...


async def handler(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult()


@pytest.mark.parametrize(
    ("module", "protocol"),
    [
        (Clock(), Tool),
        (Vendor(), Provider),
        (Loop(), Orchestrator),
        (Memory(), ContextManager),
        (handler, HookHandler),
        (Person(), ApprovalSystem),
        (Person(), ApprovalProvider),
        (Person(), DisplaySystem),
    ],
)
def test_a_module_is_known_by_its_shape(module: object, protocol: type) -> None:
    assert isinstance(module, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_has_none_of_the_members_is_no_module(protocol: type) -> None:
    assert not isinstance(object(), protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_published_flag_of_runtime_protocols_stays_unset(protocol: type) -> None:
    assert not getattr(protocol, "_is_runtime_protocol", False)


def test_one_missing_member_is_one_too_many() -> None:
    mute = type("Mute", (Vendor,), {"complete": None})

    assert not isinstance(mute(), Provider)
    assert not isinstance(Loop(), Tool)


def test_members_set_on_the_instance_count() -> None:
    class Late:
        def __init__(self) -> None:
            self.name = "late"
            self.description = ""

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            return ToolResult()

    assert isinstance(Late(), Tool)


def test_a_wrapper_that_forwards_everything_counts() -> None:
    class Wrapper:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    assert isinstance(Wrapper(Clock()), Tool)
    assert not isinstance(Wrapper(Clock()), Provider)


async def test_a_tool_that_inherits_the_contract_gets_an_empty_schema() -> None:
    class Inheriting(Tool):
        @property
        def name(self) -> str:
            return "inheriting"

        @property
        def description(self) -> str:
            return ""

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            return ToolResult(output=input)

    tool = Inheriting()

    assert tool.input_schema == {}
    assert isinstance(tool, Tool)
    assert isinstance(tool, Inheriting)
    assert not isinstance(Clock(), Inheriting)


def test_the_models_that_the_contracts_speak_of_come_with_them() -> None:
    spoken_of = [
        ChatRequest,
        ChatResponse,
        ToolCall,
        HookResult,
        ModelInfo,
        ProviderInfo,
        ToolResult,
    ]

    assert all(getattr(interfaces, model.__name__) is model for model in spoken_of)


def test_an_approval_request_waits_forever_unless_told() -> None:
    request = ApprovalRequest(tool_name="bash", action="rm", risk_level="high")

    assert request.timeout is None
    assert request.details == {}
    assert ApprovalRequest(tool_name="b", action="a", risk_level="low", timeout=None) is not None
    assert ApprovalRequest(tool_name="b", action="a", risk_level="low", timeout=2).timeout == 2.0


@pytest.mark.parametrize("timeout", [0, -1.5])
def test_an_approval_request_cannot_wait_for_less_than_nothing(timeout: float) -> None:
    with pytest.raises(
        ValidationError, match="Timeout must be positive or None \\(infinite wait\\)"
    ):
        ApprovalRequest(tool_name="bash", action="rm", risk_level="high", timeout=timeout)


def test_an_approval_is_not_remembered_unless_told() -> None:
    response = ApprovalResponse(approved=True)

    assert (response.reason, response.remember) == (None, False)
