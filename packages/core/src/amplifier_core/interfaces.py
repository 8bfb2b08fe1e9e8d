"""The contracts of the module kinds.

A module satisfies a contract by its shape: nothing needs to be inherited, and `isinstance` looks
for the members named here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, Field, field_validator

from amplifier_core._structural import structural
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import HookResult, ModelInfo, ProviderInfo, ToolResult

if TYPE_CHECKING:
    from amplifier_core.hooks import HookRegistry

__all__ = [
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalResponse",
    "ContextManager",
    "HookHandler",
    "Orchestrator",
    "Provider",
    "Tool",
    "accepts",
    "input_schema_of",
]


@structural
class Orchestrator(Protocol):
    """The loop: decides what happens between a prompt and its answer."""

    async def execute(
        self,
        prompt: str,
        context: ContextManager,
        providers: dict[str, Provider],
        tools: dict[str, Tool],
        hooks: HookRegistry,
        **kwargs: Any,
    ) -> str:
        """Run one turn and return the text of the answer.

        The kernel adds `coordinator` to the keywords when the signature takes it. Exceptions
        reach the caller of `session.execute` as they are.
        """
        ...


@structural
class Provider(Protocol):
    """Access to the models of one vendor."""

    @property
    def name(self) -> str:
        """Unique among mounted providers."""
        ...

    def get_info(self) -> ProviderInfo:
        """Describe the provider, without calling the vendor."""
        ...

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that can be used now."""
        ...

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Call the model once; keywords override fields of the request.

        Every failure is raised as an `LLMError`, from the vendor's exception.
        """
        ...

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tools the model asked for, in its order."""
        ...


@structural
class Tool(Protocol):
    """A capability the model may call by name."""

    @property
    def name(self) -> str:
        """Unique among mounted tools; `snake_case`; shown to the model."""
        ...

    @property
    def description(self) -> str:
        """What the tool does and when to use it; shown to the model."""
        ...

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the input. Optional: callers use `input_schema_of`."""
        return {}

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Run once.

        Expected failures, bad input among them, come back as `ToolResult(success=False)`. An
        exception means a bug in the tool: the loop reports it as `tool:error` and continues.
        """
        ...


def input_schema_of(tool: Any) -> dict[str, Any]:
    """Return the JSON Schema of a tool's input: `input_schema`, else `get_schema()`, else `{}`."""
    schema = getattr(tool, "input_schema", None)
    if schema is None and callable(getattr(tool, "get_schema", None)):
        schema = tool.get_schema()
    return {} if schema is None else schema


@structural
class ContextManager(Protocol):
    """The memory of a conversation: plain dict messages in, plain dict messages out."""

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append one message."""
        ...

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the messages that fit the budget, or the provider's window without one.

        A view: what is stored stays whole. A tool call and its result stay together.
        """
        ...

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return everything that is stored."""
        ...

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace everything that is stored."""
        ...

    async def clear(self) -> None:
        """Forget everything."""
        ...


@structural
class HookHandler(Protocol):
    """A function, or an object that can be called like one, that answers events."""

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Answer the event; `data` is the handler's own copy."""
        ...


class ApprovalRequest(BaseModel, defer_build=True):
    """What a tool wants to do and how dangerous it is; `timeout` in seconds, None waits forever."""

    tool_name: str
    action: str
    details: dict[str, Any] = Field(default_factory=dict)
    risk_level: str
    timeout: float | None = None

    @field_validator("timeout")
    @classmethod
    def _positive(cls, value: float | None) -> float | None:
        if value is not None and value <= 0:
            raise ValueError("Timeout must be positive or None (infinite wait)")
        return value


class ApprovalResponse(BaseModel, defer_build=True):
    """The answer to an `ApprovalRequest`; `remember` asks to reuse it for equal requests."""

    approved: bool
    reason: str | None = None
    remember: bool = False


@structural
class ApprovalProvider(Protocol):
    """Something that can answer an `ApprovalRequest`, usually by asking the user."""

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Answer, or raise `TimeoutError` if nobody did in time."""
        ...


def accepts(method: Callable[..., Any], keyword: str) -> bool:
    """Whether a module's method can be called with an argument that its contract leaves open."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        # Some built-in callables have no signature, nor has an AsyncMock of Python 3.11.2.
        return True
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return anything or keyword in parameters
