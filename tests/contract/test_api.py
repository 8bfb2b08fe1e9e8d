"""Contract of the public names: what can be imported, from where, and at what cost."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import amplifier_core
from contract.doubles import Listener, Memory
from contract.installer import Loop, ScriptedProvider
from contract.requirements import requirement

SESSION = """
AmplifierSession ModuleCoordinator ModuleLoader ModuleValidationError HookRegistry
CancellationToken CancellationState capabilities
"""
MODELS = """
ToolResult HookResult ContextInjection ConfigField ModelInfo Pricing ModuleInfo ProviderInfo
SessionStatus
"""
INTERFACES = """
ApprovalRequest ApprovalResponse Orchestrator Provider Tool ContextManager HookHandler
ApprovalProvider
"""
MESSAGES = """
ChatRequest ChatResponse Message ToolCall ToolSpec Usage Degradation TextBlock ThinkingBlock
RedactedThinkingBlock ToolCallBlock ToolResultBlock ImageBlock ReasoningBlock ResponseFormat
ResponseFormatText ResponseFormatJson ResponseFormatJsonSchema
"""
CONTENT = """
ContentBlock ContentBlockType TextContent ThinkingContent ToolCallContent ToolResultContent
"""
ERRORS = """
LLMError RateLimitError AuthenticationError ContextLengthError ContentFilterError
InvalidRequestError ProviderUnavailableError LLMTimeoutError AccessDeniedError NetworkError
QuotaExceededError NotFoundError StreamError AbortError InvalidToolCallError ConfigurationError
"""
DOUBLES = """
MockCoordinator MockTool MockContextManager EventRecorder ScriptedOrchestrator
create_test_coordinator wait_for
"""
RETRY = "RetryConfig retry_with_backoff classify_error_message"

HOMES = {
    "session": "AmplifierSession",
    "coordinator": "ModuleCoordinator",
    "loader": "ModuleLoader ModuleValidationError",
    "hooks": "HookRegistry HookResult ContextInjection",
    "cancellation": "CancellationToken CancellationState",
    "models": MODELS,
    "message_models": MESSAGES,
    "content_models": CONTENT,
    "interfaces": INTERFACES + "ChatRequest ChatResponse ToolCall HookResult ModelInfo "
    "ProviderInfo ToolResult",
    "llm_errors": ERRORS,
    "utils": RETRY,
    "utils.retry": "RetryConfig retry_with_backoff classify_error_message",
    "testing": DOUBLES,
}
EVERYTHING = (SESSION + MODELS + INTERFACES + MESSAGES + CONTENT + ERRORS + DOUBLES + RETRY).split()


@requirement("API-1", "API-7")
@pytest.mark.parametrize("name", EVERYTHING)
def test_a_published_name_is_importable_from_the_top(name: str) -> None:
    assert getattr(amplifier_core, name) is not None
    assert name in amplifier_core.__all__


@requirement("API-2")
def test_the_version_is_a_string() -> None:
    assert isinstance(amplifier_core.__version__, str)


@requirement("API-3")
def test_submodules_are_attributes_of_the_package() -> None:
    submodules = (
        "models message_models content_models interfaces loader coordinator cancellation "
        "llm_errors testing utils"
    )
    code = (
        "import amplifier_core\n"
        "from amplifier_core import llm_errors as kernel_errors\n"
        f"for name in {submodules.split()!r}:\n"
        "    print(getattr(amplifier_core, name).__name__)"
    )

    assert _python(code).split() == [f"amplifier_core.{name}" for name in submodules.split()]


@requirement("API-4", "API-8", "API-9", "API-10", "API-11")
@pytest.mark.parametrize("home", HOMES)
def test_a_name_is_the_same_object_on_every_path(home: str) -> None:
    module = importlib.import_module(f"amplifier_core.{home}")

    for name in HOMES[home].split():
        assert getattr(module, name) is getattr(amplifier_core, name), name


@requirement("API-8", "API-11")
@pytest.mark.parametrize(
    ("home", "names"),
    [
        ("approval", "ApprovalSystem ApprovalTimeoutError"),
        ("display", "DisplaySystem"),
        (
            "module_sources",
            "ModuleNotFoundError ModuleLoadError ModuleSource ModuleSourceResolver "
            "FileSystemModuleSource",
        ),
        ("correlation", "new_request_id current_request_id resolve_request_id reset_request_id"),
        ("loader", "TYPE_TO_MOUNT_POINT MODULE_FAILURE_REASONS module_failure_reason"),
        ("utils", "truncate_values redact_secrets SENSITIVE_KEYS"),
    ],
)
def test_the_other_modules_offer_what_is_imported_from_them(home: str, names: str) -> None:
    module = importlib.import_module(f"amplifier_core.{home}")

    assert [name for name in names.split() if not hasattr(module, name)] == []


@requirement("API-5")
def test_there_is_no_second_engine() -> None:
    found = [name for name in dir(amplifier_core) if name.upper().startswith("RUST")]
    modules = [info.name for info in pkgutil.iter_modules(amplifier_core.__path__)]

    assert found == []
    assert "_engine" not in modules
    assert importlib.util.find_spec("amplifier_core._engine") is None


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, encoding="utf-8"
    )
    return done.stdout


@requirement("API-6", "API-7")
def test_importing_the_kernel_is_cheap_and_the_doubles_come_on_demand() -> None:
    heavy = (
        "unittest.mock yaml click pytest pytest_asyncio httpx amplifier_core.testing "
        "amplifier_core.validation amplifier_core.pytest_plugin"
    )
    code = (
        "import sys, amplifier_core\n"
        f"print(*(name for name in {heavy.split()!r} if name in sys.modules))\n"
        "from amplifier_core import MockTool\n"
        "print('amplifier_core.testing' in sys.modules)"
    )

    loaded, on_demand = _python(code).split("\n")[:2]

    assert loaded == ""
    assert on_demand == "True"


class _Tool:
    name = "t"
    description = "d"

    async def execute(self, input: dict[str, Any]) -> Any: ...


class _ApprovalProvider:
    async def request_approval(self, request: Any) -> Any: ...


@requirement("API-12", "TOOL-1", "TOOL-3", "PROV-1", "ORCH-1", "CTX-1")
@pytest.mark.parametrize(
    ("protocol", "fits"),
    [
        ("Tool", _Tool()),
        ("Provider", ScriptedProvider()),
        ("Orchestrator", Loop()),
        ("ContextManager", Memory()),
        ("HookHandler", Listener()),
        ("ApprovalProvider", _ApprovalProvider()),
    ],
)
def test_a_protocol_is_a_question_of_structure(protocol: str, fits: Any) -> None:
    kind: Any = getattr(amplifier_core, protocol)

    assert isinstance(fits, kind)
    assert not isinstance(SimpleNamespace(name="only a name"), kind)
    assert isinstance(kind, type)


@requirement("TOOL-3")
def test_a_tool_that_inherits_the_protocol_has_an_empty_schema() -> None:
    class Own(_Tool, amplifier_core.Tool):  # pyright: ignore[reportIncompatibleVariableOverride] - attributes serve as properties
        pass

    assert Own().input_schema == {}


@requirement("API-13")
def test_the_distribution_needs_pydantic_alone() -> None:
    metadata = importlib.metadata.metadata("amplifier-core")
    requires = importlib.metadata.requires("amplifier-core") or []

    assert metadata["Name"] == "amplifier-core"
    assert metadata["Requires-Python"] == ">=3.11"
    needed = [line for line in requires if "extra ==" not in line]
    assert [line.split(">")[0].split("=")[0] for line in needed] == ["pydantic"]
