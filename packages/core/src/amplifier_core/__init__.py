"""The Amplifier kernel: contracts, session, coordinator, hooks and loader for AI agents.

A name is loaded when it is first asked for: importing the package costs next to nothing, which
every test run pays that has our pytest plugin installed and every command that only prints help.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# The tables of names below are packed, because one name to a line would make them hard to survey.
# ruff: isort: off
# fmt: off
if TYPE_CHECKING:
    from amplifier_core import capabilities as capabilities
    from amplifier_core import llm_errors as llm_errors
    from amplifier_core.cancellation import CancellationState, CancellationToken
    from amplifier_core.content_models import (
        ContentBlock, ContentBlockType, TextContent, ThinkingContent, ToolCallContent,
        ToolResultContent,
    )
    from amplifier_core.coordinator import ModuleCoordinator
    from amplifier_core.errors import (
        AmplifierError, ModuleError, ModuleLoadError, ModuleValidationError, MountError,
        NotInitializedError, SessionError,
    )
    from amplifier_core.hooks import HookRegistry
    from amplifier_core.interfaces import (
        ApprovalProvider, ApprovalRequest, ApprovalResponse, ContextManager, HookHandler,
        Orchestrator, Provider, Tool,
    )
    from amplifier_core.llm_errors import (
        AbortError, AccessDeniedError, AuthenticationError, ConfigurationError, ContentFilterError,
        ContextLengthError, InvalidRequestError, InvalidToolCallError, LLMError, LLMTimeoutError,
        NetworkError, NotFoundError, ProviderUnavailableError, QuotaExceededError, RateLimitError,
        StreamError,
    )
    from amplifier_core.loader import ModuleLoader
    from amplifier_core.message_models import (
        ChatRequest, ChatResponse, Degradation, ImageBlock, Message, ReasoningBlock,
        RedactedThinkingBlock, ResponseFormat, ResponseFormatJson, ResponseFormatJsonSchema,
        ResponseFormatText, TextBlock, ThinkingBlock, ToolCall, ToolCallBlock, ToolResultBlock,
        ToolSpec, Usage,
    )
    from amplifier_core.models import (
        ConfigField, ContextInjection, HookResult, ModelInfo, ModuleInfo, ModuleStatus, Pricing,
        ProviderInfo, SessionStatus, ToolResult, UserMessage,
    )
    from amplifier_core.retry import RetryConfig, classify_error_message, retry_with_backoff
    from amplifier_core.session import AmplifierSession
    from amplifier_core.testing import (
        EventRecorder, MockContextManager, MockCoordinator, MockProvider, MockTool,
        ScriptedOrchestrator, create_test_coordinator, wait_for,
    )

__version__ = "2.0.2+independent.0.2.0"

__all__ = [
    "AbortError", "AccessDeniedError", "AmplifierError", "AmplifierSession", "ApprovalProvider",
    "ApprovalRequest", "ApprovalResponse", "AuthenticationError", "CancellationState",
    "CancellationToken", "ChatRequest", "ChatResponse", "ConfigField", "ConfigurationError",
    "ContentBlock", "ContentBlockType", "ContentFilterError", "ContextInjection",
    "ContextLengthError", "ContextManager", "Degradation", "EventRecorder", "HookHandler",
    "HookRegistry", "HookResult", "ImageBlock", "InvalidRequestError", "InvalidToolCallError",
    "LLMError", "LLMTimeoutError", "Message", "MockContextManager", "MockCoordinator",
    "MockProvider", "MockTool", "ModelInfo", "ModuleCoordinator", "ModuleError", "ModuleInfo",
    "ModuleLoadError", "ModuleLoader", "ModuleStatus", "ModuleValidationError", "MountError",
    "NetworkError", "NotFoundError", "NotInitializedError", "Orchestrator", "Pricing", "Provider",
    "ProviderInfo", "ProviderUnavailableError", "QuotaExceededError", "RateLimitError",
    "ReasoningBlock", "RedactedThinkingBlock", "ResponseFormat", "ResponseFormatJson",
    "ResponseFormatJsonSchema", "ResponseFormatText", "RetryConfig", "ScriptedOrchestrator",
    "SessionError", "SessionStatus", "StreamError", "TextBlock", "TextContent", "ThinkingBlock",
    "ThinkingContent", "Tool", "ToolCall", "ToolCallBlock", "ToolCallContent", "ToolResult",
    "ToolResultBlock", "ToolResultContent", "ToolSpec", "Usage", "UserMessage", "__version__",
    "capabilities", "classify_error_message", "create_test_coordinator", "llm_errors",
    "retry_with_backoff", "wait_for",
]

_HOMES = {
    "cancellation": "CancellationState CancellationToken",
    "content_models": (
        "ContentBlock ContentBlockType TextContent ThinkingContent ToolCallContent "
        "ToolResultContent"
    ),
    "coordinator": "ModuleCoordinator",
    "errors": (
        "AmplifierError ModuleError ModuleLoadError ModuleValidationError MountError "
        "NotInitializedError SessionError"
    ),
    "hooks": "HookRegistry",
    "interfaces": (
        "ApprovalProvider ApprovalRequest ApprovalResponse ContextManager HookHandler "
        "Orchestrator Provider Tool"
    ),
    "llm_errors": (
        "AbortError AccessDeniedError AuthenticationError ConfigurationError "
        "ContentFilterError ContextLengthError InvalidRequestError InvalidToolCallError "
        "LLMError LLMTimeoutError NetworkError NotFoundError ProviderUnavailableError "
        "QuotaExceededError RateLimitError StreamError"
    ),
    "loader": "ModuleLoader",
    "message_models": (
        "ChatRequest ChatResponse Degradation ImageBlock Message ReasoningBlock "
        "RedactedThinkingBlock ResponseFormat ResponseFormatJson ResponseFormatJsonSchema "
        "ResponseFormatText TextBlock ThinkingBlock ToolCall ToolCallBlock ToolResultBlock "
        "ToolSpec Usage"
    ),
    "models": (
        "ConfigField ContextInjection HookResult ModelInfo ModuleInfo ModuleStatus Pricing "
        "ProviderInfo SessionStatus ToolResult UserMessage"
    ),
    "retry": "RetryConfig classify_error_message retry_with_backoff",
    "session": "AmplifierSession",
    "testing": (
        "EventRecorder MockContextManager MockCoordinator MockProvider MockTool "
        "ScriptedOrchestrator create_test_coordinator wait_for"
    ),
}
# fmt: on
# ruff: isort: on

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    try:
        found = importlib.import_module(f"amplifier_core.{home or name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
    value = found if home is None else getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
