"""Models for tests: a function or a list of steps answers in place of a vendor's model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias

from amplifier.errors import AgentError
from amplifier.models.config import FunctionModelConfig
from amplifier.references import reference_of, resolve
from amplifier_core import capabilities
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    ContentBlockUnion,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_kit.calls.block_stream import BlockStream, stream_response
from amplifier_kit.calls.messages import overridden, split_system, stored_calls, text_of
from amplifier_kit.calls.model_calls import OWN_EVENTS, Call, ModelCalls
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.calls.settings import FREE, ProviderSettings
from amplifier_kit.configuration import read_config
from amplifier_kit.tokens import estimate_tokens

__all__ = [
    "ModelMessage",
    "ModelRequest",
    "OfferedTool",
    "Reply",
    "ScriptedModel",
    "ToolUse",
    "mount",
    "Said",
    "refuse",
]

__amplifier_module_type__ = "provider"

_NAME = "provider-functions"
_MODEL = "scripted"
_TITLE = "Scripted model"
_WINDOW = 200_000
_LONGEST_ANSWER = 8_192
_CAPABILITIES = [capabilities.TOOLS, capabilities.STREAMING, capabilities.LOCAL]
# A test fails on the first error, and waits for its handler as long as that takes.
_SETTINGS = ProviderSettings(max_retries=0, timeout_seconds=None, pricing=FREE)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that the model calls; `id` is given to a call without one."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: text, tool calls, or both."""

    text: str = ""
    calls: Sequence[ToolUse] = ()
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A message of the conversation; the text of a `tool` message is the result of a call."""

    role: Literal["system", "developer", "user", "assistant", "function", "tool"]
    text: str
    calls: tuple[ToolUse, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model may call."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model sees in one call. `raw` has also images, files and settings."""

    messages: tuple[ModelMessage, ...]
    tools: tuple[OfferedTool, ...]
    instructions: str
    raw: ChatRequest = field(repr=False)

    @property
    def turn(self) -> tuple[ModelMessage, ...]:
        """The messages since the last answer that called no tool."""
        for at in range(len(self.messages), 0, -1):
            message = self.messages[at - 1]
            if message.role == "assistant" and not message.calls:
                return self.messages[at:]
        return self.messages

    @property
    def prompt(self) -> str:
        """The text of the prompt that is being answered."""
        # The first one, because hooks may add messages after it.
        return next((each.text for each in self.turn if each.role == "user"), "")

    @property
    def results(self) -> tuple[str, ...]:
        """The results of the tool calls of this turn, as the model reads them."""
        return tuple(each.text for each in self.turn if each.role == "tool")


Said: TypeAlias = str | ToolUse | Reply
"""One answer of a model: a text, a tool call, or several of both."""
Handler: TypeAlias = Callable[[ModelRequest], Said | Awaitable[Said]]
"""Answers a request; an exception that it raises ends the turn."""


class ScriptedModel:
    """A model for tests: calls no vendor, needs no key, costs nothing.

    `script` is a function that is called for every request, or a list of answers, one for each.
    A plan names the function by its module, as it names tools: sub-agents and stored sessions have
    it too. Each session plays a list from its first answer on.
    """

    def __init__(self, script: Handler | Sequence[Said]) -> None:
        if isinstance(script, str):
            raise AgentError(
                "A text is not a script.",
                why="A script is a function, or a list of answers.",
                fix="ScriptedModel([text])",
            )
        if callable(script):
            self.part: Literal["function_model", "list_model"] = "function_model"
            self.config: dict[str, Any] = {"function": reference_of(script)}
        else:
            self.part = "list_model"
            self.config = {"script": [_step(each) for each in script], "stream": True}


def _step(said: Said) -> dict[str, Any]:
    """Return an answer as data."""
    reply = _reply(said)
    calls = [
        {"name": each.name, "arguments": dict(each.input), "id": each.id or None}
        for each in reply.calls
    ]
    return {
        "text": reply.text or None,
        "thinking": reply.thinking or None,
        "tool_calls": calls,
    }


def _reply(said: object) -> Reply:
    """Return an answer in its long form.

    Raises:
        AgentError: it is anything else, which the type checker would have refused.
    """
    match said:
        case Reply():
            return said
        case ToolUse():
            return Reply(calls=(said,))
        case str():
            return Reply(said)
        case _:
            raise AgentError(
                f"A scripted model answered with a {type(said).__name__}.",
                why="An answer is a text, a ToolUse or a Reply.",
            )


def refuse(request: ModelRequest) -> NoReturn:
    """Answer for a real model in an agent under test, with an error."""
    raise AgentError(
        "This agent is under test and has no scripted model.",
        why="`testing` refuses real models, so that no test reaches a vendor.",
        fix="agent.testing(ScriptedModel(...)), and for a sub-agent "
        "agents={name: ScriptedModel(...)}.",
    )


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `scripted`, which answers with the function that `function` names."""
    settings = read_config(FunctionModelConfig, config, _NAME)
    provider = _FunctionProvider(resolve(settings.function), coordinator)
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("session.cost", _NAME, provider.calls.cost)
    coordinator.register_contributor("observability.events", _NAME, lambda: list(OWN_EVENTS))


class _FunctionProvider:
    """A provider of the kernel whose model is a function."""

    name = _MODEL
    priority = 100

    def __init__(self, handler: Handler, coordinator: ModuleCoordinator) -> None:
        self._handler = handler
        self.calls = ModelCalls(self.name, _SETTINGS, coordinator, _untranslated, None)
        self._last_id = 0

    def get_info(self) -> ProviderInfo:
        """Describe the model and its limits."""
        return ProviderInfo(
            id=self.name,
            display_name=_TITLE,
            capabilities=_CAPABILITIES,
            defaults={
                "model": _MODEL,
                "context_window": _WINDOW,
                "max_output_tokens": _LONGEST_ANSWER,
            },
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the only model."""
        return [
            ModelInfo(
                id=_MODEL,
                display_name=_TITLE,
                context_window=_WINDOW,
                max_output_tokens=_LONGEST_ANSWER,
                capabilities=_CAPABILITIES,
            )
        ]

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return calls_in_response(response)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return what the function answers; what it raises is raised."""
        request, shortfalls = overridden(request, kwargs, provider=self.name)
        call = Call(
            request.model or _MODEL,
            request,
            {},
            self.calls.wants_stream(request),
            shortfalls=shortfalls,
        )

        async def attempt(stream: BlockStream | None) -> ChatResponse:
            said = self._handler(_request_of(request))
            if inspect.isawaitable(said):
                said = await said
            response = self._response(_reply(said), request)
            if stream is not None:
                await stream_response(response, stream)
            return response

        return await self.calls.make(call, attempt)

    def _response(self, reply: Reply, request: ChatRequest) -> ChatResponse:
        calls = self._with_ids(reply.calls, request)
        content: list[ContentBlockUnion] = []
        if reply.thinking:
            content.append(ThinkingBlock(thinking=reply.thinking))
        if reply.text:
            content.append(TextBlock(text=reply.text))
        content += [ToolCallBlock(id=c.id, name=c.name, input=c.arguments) for c in calls]
        asked = estimate_tokens(request.messages, request.tools)
        answered = estimate_tokens(content)
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=Usage(input_tokens=asked, output_tokens=answered, total_tokens=asked + answered),
            finish_reason="tool_calls" if calls else "stop",
        )

    def _with_ids(self, uses: Sequence[ToolUse], request: ChatRequest) -> list[ToolCall]:
        """Return the calls with ids that are new in the conversation, even if it was resumed."""
        made = sum(len(stored_calls(each)) for each in request.messages)
        self._last_id = max(self._last_id, made)
        calls: list[ToolCall] = []
        for use in uses:
            self._last_id += 1
            call_id = use.id or f"call_{self._last_id}"
            calls.append(ToolCall(id=call_id, name=use.name, arguments=dict(use.input)))
        return calls


def _untranslated(error: BaseException, model: str | None) -> None:
    """Leave an error as it is: there is no SDK whose errors have another meaning."""


def _request_of(request: ChatRequest) -> ModelRequest:
    system, conversation = split_system(request.messages)
    return ModelRequest(
        tuple(map(_message_of, conversation)),
        tuple(
            OfferedTool(each.name, each.description or "", each.parameters)
            for each in request.tools or ()
        ),
        "\n\n".join(map(text_of, system)),
        request,
    )


def _message_of(message: Message) -> ModelMessage:
    calls = stored_calls(message) if message.role == "assistant" else ()
    return ModelMessage(
        message.role,
        text_of(message),
        tuple(ToolUse(each.name, each.arguments, each.id) for each in calls),
    )
