"""The types of the data of events, for type checkers; nothing in the kernel loads this file.

A handler that is registered for one event can say so in its signature:

    async def check(event: str, data: ToolPreData) -> HookResult: ...

A field without `Required` may be missing: the contract leaves it open, or not every loop and
provider gives it. Handlers get fields beyond these as well. `PAYLOADS` has the type of each event
whose fields are fixed.
"""

# Without `from __future__ import annotations`, which would hide `Required` from a TypedDict.
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict, TypeVar

if TYPE_CHECKING:
    from amplifier_core.models import HookResult

__all__ = [
    "PAYLOADS",
    "ArtifactData",
    "CancelCompletedData",
    "CancelRequestedData",
    "CompactData",
    "ContentBlockEndData",
    "ContentBlockStartData",
    "ContextRepairedData",
    "ErrorFacts",
    "EventData",
    "EventName",
    "ExecutionEndData",
    "HookFailedData",
    "LlmRequestData",
    "LlmResponseData",
    "ModuleLoadFailedData",
    "ModuleReadyFailedData",
    "ModuleRolledBackData",
    "ModuleSwappedData",
    "OrchestratorCompleteData",
    "PromptCompleteData",
    "PromptData",
    "ProviderErrorData",
    "ProviderRequestData",
    "ProviderResponseData",
    "ProviderRetryData",
    "RepairFacts",
    "SessionEndData",
    "SessionForkData",
    "SessionStartData",
    "StreamAbortedData",
    "StreamBlockData",
    "StreamDeltaData",
    "ToolErrorData",
    "ToolPostData",
    "ToolPreData",
    "TypedHandler",
    "UsageFacts",
]

EventName: TypeAlias = Literal[
    "session:start",
    "session:end",
    "session:fork",
    "session:resume",
    "prompt:submit",
    "prompt:complete",
    "plan:start",
    "plan:end",
    "provider:request",
    "provider:response",
    "provider:retry",
    "provider:error",
    "provider:throttle",
    "provider:tool_sequence_repaired",
    "provider:resolve",
    "llm:request",
    "llm:response",
    "content_block:start",
    "content_block:delta",
    "content_block:end",
    "thinking:delta",
    "thinking:final",
    "tool:pre",
    "tool:post",
    "tool:error",
    "context:pre_compact",
    "context:post_compact",
    "context:compaction",
    "context:include",
    "orchestrator:complete",
    "execution:start",
    "execution:end",
    "user:notification",
    "artifact:write",
    "artifact:read",
    "policy:violation",
    "approval:required",
    "approval:granted",
    "approval:denied",
    "cancel:requested",
    "cancel:completed",
    "module:on_session_ready_failed",
    "module:load_failed",
    "module:swapped",
    "module:rolled_back",
    "context:repaired",
    "hook:failed",
]
"""The names in `events.ALL_EVENTS`, in their order."""


class EventData(TypedDict, total=False):
    """The fields that the data of every event has when it reaches a handler."""

    session_id: str
    parent_id: str | None
    timestamp: Required[str]


class ErrorFacts(TypedDict):
    """An error, as events carry it."""

    type: str
    msg: str


# --- session and prompt --------------------------------------------------------------------------


class SessionStartData(EventData, total=False):
    """`session:start` and `session:resume`."""

    metadata: dict[str, Any]


class SessionForkData(EventData, total=False):
    """`session:fork`, which the child emits; `raw` is its mount plan without secrets."""

    parent: Required[str]
    metadata: dict[str, Any]
    raw: dict[str, Any]


class SessionEndData(EventData, total=False):
    """`session:end`."""

    status: Literal["running", "completed", "failed", "cancelled"]
    stats: dict[str, Any]


class PromptData(EventData, total=False):
    """`prompt:submit` and `execution:start`."""

    prompt: Required[str]


class PromptCompleteData(EventData, total=False):
    """`prompt:complete`."""

    response_preview: str
    length: int


class ExecutionEndData(EventData, total=False):
    """`execution:end`."""

    response: str
    status: Literal["completed", "cancelled", "error"]


class OrchestratorCompleteData(EventData, total=False):
    """`orchestrator:complete`."""

    orchestrator: Required[str]
    turn_count: Required[int]
    status: Required[Literal["success", "incomplete", "cancelled"]]


class CancelRequestedData(EventData, total=False):
    """`cancel:requested`."""

    orchestrator: str
    state: str
    turn_count: int


class CancelCompletedData(EventData, total=False):
    """`cancel:completed`, which the loop and the kernel emit, each with what it knows."""

    was_immediate: Required[bool]
    error: str
    orchestrator: str
    turn_count: int


# --- providers -----------------------------------------------------------------------------------


class UsageFacts(TypedDict, total=False):
    """The tokens of a call; `input_tokens` includes cached ones, `cost_usd` None is unknown."""

    input_tokens: Required[int]
    output_tokens: Required[int]
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: str | None


class ProviderRequestData(EventData, total=False):
    """`provider:request`, before the messages of a request are fetched."""

    provider: Required[str]
    iteration: int
    max_reached: bool


class ProviderResponseData(EventData, total=False):
    """`provider:response`; `tool_calls` says whether there are any."""

    provider: Required[str]
    usage: Any
    tool_calls: bool


class ProviderRetryData(EventData, total=False):
    """`provider:retry`; `attempt` counts from 1, `delay` is in seconds."""

    provider: Required[str]
    attempt: Required[int]
    max_retries: Required[int]
    delay: Required[float]
    error_type: Required[str]
    error_message: Required[str]
    request_id: str


class ProviderErrorData(EventData, total=False):
    """`provider:error`."""

    provider: Required[str]
    error: Required[ErrorFacts]
    retryable: bool
    status_code: int | None
    request_id: str


class LlmRequestData(EventData, total=False):
    """`llm:request`; `raw` are the parameters of the call without secrets."""

    provider: Required[str]
    model: Required[str]
    message_count: int
    request_id: Required[str]
    raw: Any


class LlmResponseData(EventData, total=False):
    """`llm:response`: `usage` when the status is ok, `error` when it is not."""

    provider: Required[str]
    model: Required[str]
    status: Required[Literal["ok", "error"]]
    duration_ms: int | float
    usage: UsageFacts
    error: Any
    rate_limits: Any
    request_id: str
    raw: Any


class ContentBlockStartData(EventData, total=False):
    """`content_block:start`."""

    block_type: Required[str]
    block_index: Required[int]
    total_blocks: int


class ContentBlockEndData(EventData, total=False):
    """`content_block:end`."""

    block_index: Required[int]
    block: Required[Any]
    total_blocks: int
    usage: Any


class StreamBlockData(EventData, total=False):
    """`llm:stream_block_start` and `llm:stream_block_end`; `name` is that of a tool."""

    request_id: Required[str]
    block_index: Required[int]
    block_type: Required[Literal["text", "thinking", "tool_use"]]
    name: str


class StreamDeltaData(EventData, total=False):
    """`llm:stream_block_delta`; `sequence` counts from 0 in each block."""

    request_id: Required[str]
    block_index: Required[int]
    block_type: Required[Literal["text", "thinking"]]
    sequence: Required[int]
    text: Required[str]


class StreamAbortedData(EventData, total=False):
    """`llm:stream_aborted`, when a part of the answer was already shown."""

    request_id: Required[str]
    error: Required[ErrorFacts]


# --- tools, files and the context ----------------------------------------------------------------


class ToolPreData(EventData, total=False):
    """`tool:pre`."""

    tool_name: Required[str]
    tool_input: Required[dict[str, Any]]
    tool_call_id: str
    parallel_group_id: str


class ToolPostData(ToolPreData, total=False):
    """`tool:post`; published loops give `result`, the contract `tool_result`, ours both."""

    result: Any
    tool_result: Any


class ToolErrorData(EventData, total=False):
    """`tool:error`."""

    tool_name: Required[str]
    error: Required[ErrorFacts]
    tool_input: dict[str, Any]
    tool_call_id: str
    parallel_group_id: str


class ArtifactData(EventData, total=False):
    """`artifact:read` and `artifact:write`."""

    path: Required[str]
    bytes: int


class CompactData(EventData, total=False):
    """`context:pre_compact` and `context:post_compact`."""

    message_count: int
    token_count: int


class RepairFacts(TypedDict):
    """One repair of a history."""

    kind: Literal["answered", "moved", "dropped"]
    tool_call_id: str


class ContextRepairedData(EventData, total=False):
    """`context:repaired`."""

    repairs: Required[list[RepairFacts]]


# --- modules and hooks ---------------------------------------------------------------------------


class ModuleLoadFailedData(EventData, total=False):
    """`module:load_failed`; `reason_code` is one of `errors.MODULE_FAILURE_REASONS`."""

    module_type: Required[str]
    module_id: Required[str]
    error: Required[str]
    reason_code: Required[str]
    required: bool
    instance_id: str


class ModuleReadyFailedData(EventData, total=False):
    """`module:on_session_ready_failed`."""

    module_id: Required[str]
    error: Required[str]


class ModuleSwappedData(EventData, total=False):
    """`module:swapped`; `names` and `replaced` are what is mounted now and what was before."""

    mount_point: Required[str]
    module_id: Required[str]
    names: Required[list[str]]
    replaced: Required[list[str]]


class ModuleRolledBackData(ModuleSwappedData, total=False):
    """`module:rolled_back`."""

    error: Required[str]


class HookFailedData(EventData, total=False):
    """`hook:failed`; `denied` says whether the handler is a guard, whose failure denies."""

    event: Required[str]
    handler: Required[str]
    error: Required[str]
    denied: Required[bool]


Data = TypeVar("Data")
TypedHandler: TypeAlias = Callable[[str, Data], "HookResult | Awaitable[HookResult | None] | None"]
"""A handler of events with one kind of data: `check: TypedHandler[ToolPreData]`."""

PAYLOADS: dict[str, type] = {
    "session:start": SessionStartData,
    "session:resume": SessionStartData,
    "session:fork": SessionForkData,
    "session:end": SessionEndData,
    "prompt:submit": PromptData,
    "prompt:complete": PromptCompleteData,
    "execution:start": PromptData,
    "execution:end": ExecutionEndData,
    "orchestrator:complete": OrchestratorCompleteData,
    "cancel:requested": CancelRequestedData,
    "cancel:completed": CancelCompletedData,
    "provider:request": ProviderRequestData,
    "provider:response": ProviderResponseData,
    "provider:retry": ProviderRetryData,
    "provider:error": ProviderErrorData,
    "llm:request": LlmRequestData,
    "llm:response": LlmResponseData,
    "llm:stream_block_start": StreamBlockData,
    "llm:stream_block_delta": StreamDeltaData,
    "llm:stream_block_end": StreamBlockData,
    "llm:stream_aborted": StreamAbortedData,
    "content_block:start": ContentBlockStartData,
    "content_block:end": ContentBlockEndData,
    "tool:pre": ToolPreData,
    "tool:post": ToolPostData,
    "tool:error": ToolErrorData,
    "artifact:read": ArtifactData,
    "artifact:write": ArtifactData,
    "context:pre_compact": CompactData,
    "context:post_compact": CompactData,
    "context:repaired": ContextRepairedData,
    "module:load_failed": ModuleLoadFailedData,
    "module:on_session_ready_failed": ModuleReadyFailedData,
    "module:swapped": ModuleSwappedData,
    "module:rolled_back": ModuleRolledBackData,
    "hook:failed": HookFailedData,
}
