"""The Amplifier kernel: contracts, session, coordinator, hooks and loader for AI agents.

Names are loaded on first use, so that importing the package costs next to nothing: every test run
with our pytest plugin and every command that only prints help imports it.
Type checkers read `__init__.pyi` instead, which has no `__getattr__`: a misspelt name is an error.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "2.0.2+independent.0.2.0"

# The public names, by the file that defines them.
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

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*_HOME_OF, "__version__", "capabilities", "llm_errors"]  # pyright: ignore[reportUnsupportedDunderAll] - it reads the stub


def __getattr__(name: str) -> Any:
    """Load a public name, or a file of the kernel."""
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
