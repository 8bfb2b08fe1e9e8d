"""The tables of the document Core Contracts: which type is where, with which members and words."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import typing
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import amplifier_core
from amplifier_core import (
    ConfigField,
    HookRegistry,
    HookResult,
    Message,
    ModelInfo,
    ModuleInfo,
    SessionStatus,
    TextBlock,
    ToolResult,
    interfaces,
    message_models,
    models,
)
from contract.doubles import raising
from contract.requirements import requirement

_MODELS: dict[ModuleType, list[str]] = {
    models: [
        "HookResult",
        "ToolResult",
        "ModelInfo",
        "ConfigField",
        "ProviderInfo",
        "ModuleInfo",
        "SessionStatus",
    ],
    interfaces: ["ApprovalRequest", "ApprovalResponse"],
    message_models: [
        "Message",
        "ToolSpec",
        "ChatRequest",
        "ToolCall",
        "Usage",
        "Degradation",
        "ChatResponse",
        "TextBlock",
        "ThinkingBlock",
        "RedactedThinkingBlock",
        "ToolCallBlock",
        "ToolResultBlock",
        "ImageBlock",
        "ReasoningBlock",
    ],
}

_PROTOCOLS: dict[str, set[str]] = {
    "Tool": {"name", "description", "execute"},
    "Provider": {"name", "get_info", "list_models", "complete", "parse_tool_calls"},
    "Orchestrator": {"execute"},
    "ContextManager": {
        "add_message",
        "get_messages_for_request",
        "get_messages",
        "set_messages",
        "clear",
    },
    "HookHandler": {"__call__"},
    "ApprovalProvider": {"request_approval"},
}

_WORDS: list[tuple[type[BaseModel], str, tuple[str, ...]]] = [
    (HookResult, "action", ("continue", "deny", "modify", "inject_context", "ask_user")),
    (HookResult, "context_injection_role", ("system", "user", "assistant")),
    (HookResult, "approval_default", ("allow", "deny")),
    (HookResult, "user_message_level", ("info", "warning", "error")),
    (ConfigField, "field_type", ("text", "secret", "choice", "boolean")),
    (ModuleInfo, "type", ("orchestrator", "provider", "tool", "context", "hook", "resolver")),
    (SessionStatus, "status", ("running", "completed", "failed", "cancelled")),
    (Message, "role", ("system", "developer", "user", "assistant", "function", "tool")),
    (TextBlock, "visibility", ("internal", "developer", "user")),
]


@requirement("STHREE-9")
def test_data_models_are_pydantic_models_and_interfaces_are_protocols() -> None:
    for home, names in _MODELS.items():
        for name in names:
            assert issubclass(getattr(home, name), BaseModel), name
    for name in _PROTOCOLS:
        assert getattr(getattr(interfaces, name), "_is_protocol", False), name
    blocks: TypeAdapter[Any] = TypeAdapter(message_models.ContentBlockUnion)
    formats: TypeAdapter[Any] = TypeAdapter(message_models.ResponseFormat)
    assert isinstance(blocks.validate_python({"type": "text", "text": "a"}), TextBlock)
    assert formats.validate_python({"type": "json"}).type == "json"
    for adapter in (blocks, formats):
        with pytest.raises(ValidationError):
            adapter.validate_python({"type": "unheard of", "text": "a"})


@requirement("STHREE-25")
@pytest.mark.parametrize(("name", "members"), _PROTOCOLS.items())
def test_each_protocol_has_the_members_of_its_row(name: str, members: set[str]) -> None:
    protocol = getattr(interfaces, name)

    # Whatever else a protocol mentions must not be demanded of a module.
    double: Any = type("Double", (), dict.fromkeys(members, staticmethod(lambda: None)))()
    assert isinstance(double, protocol)
    for missing in members - {"__call__"}:
        fewer = dict.fromkeys(members - {missing}, staticmethod(lambda: None))
        lacking: Any = type("Lacking", (), fewer)()
        assert not isinstance(lacking, protocol), missing


@requirement("STHREE-37")
@pytest.mark.parametrize(("model", "field", "words"), _WORDS)
def test_each_enumeration_has_exactly_the_words_of_its_row(
    model: type[BaseModel], field: str, words: tuple[str, ...]
) -> None:
    annotation = typing.get_type_hints(model)[field]
    literals = [annotation, *typing.get_args(annotation)]
    found = [
        typing.get_args(each) for each in literals if typing.get_origin(each) is typing.Literal
    ]

    assert found == [words]


@requirement("STHREE-37")
def test_the_notes_of_the_rows_on_fields_are_true() -> None:
    fields = ConfigField.model_fields
    assert "default" in fields
    assert "default_value" not in fields
    assert "type" in ModuleInfo.model_fields
    assert typing.get_type_hints(SessionStatus)["started_at"].__name__ == "datetime"
    assert callable(ToolResult().get_serialized_output)
    assert str(ToolResult(output="said")) == "said"
    assert {"id", "display_name", "context_window", "max_output_tokens"} <= set(
        ModelInfo.model_fields
    )


@requirement("STHREE-94")
@pytest.mark.parametrize(
    ("name", "home", "members"),
    [
        ("AmplifierSession", "session", ["initialize", "execute", "cleanup"]),
        (
            "ModuleCoordinator",
            "coordinator",
            ["mount", "get", "hooks", "request_cancel", "process_hook_result", "session"],
        ),
        ("HookRegistry", "hooks", ["register", "emit", "unregister", "list_handlers"]),
        (
            "CancellationToken",
            "cancellation",
            ["state", "is_cancelled", "request_graceful", "request_immediate", "reset"],
        ),
        ("CancellationState", "cancellation", ["NONE", "GRACEFUL", "IMMEDIATE"]),
    ],
)
def test_each_engine_type_is_exported_with_the_members_of_its_row(
    name: str, home: str, members: list[str]
) -> None:
    exported = getattr(amplifier_core, name)

    assert exported is getattr(importlib.import_module(f"amplifier_core.{home}"), name)
    assert [each for each in members if not hasattr(exported, each)] == []


async def _gives_up(event: str, data: dict[str, Any]) -> None:
    await asyncio.wait_for(asyncio.get_running_loop().create_future(), timeout=0)


@requirement("STHREE-131")
@pytest.mark.parametrize(
    "handler", [raising(RuntimeError("boom")), raising(Exception("any")), _gives_up]
)
async def test_whatever_a_handler_raises_is_logged_and_not_raised(
    handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = HookRegistry()
    hooks.register("a:b", handler, name="the-handler")

    result = await hooks.emit("a:b", {})

    assert result.action == "continue"
    assert "the-handler" in caplog.text
    assert "a:b" in caplog.text


@requirement("STHREE-140")
def test_a_tool_error_is_a_result_that_failed() -> None:
    result = ToolResult(success=False, error={"message": "no such file"})

    assert not result.success
    assert result.error == {"message": "no such file"}
    assert str(result) == "Error: no such file"


@requirement("STHREE-147")
@pytest.mark.parametrize(
    ("home", "names"),
    [
        ("loader", ["ModuleLoader", "ModuleValidationError"]),
        ("approval", ["ApprovalSystem"]),
        ("display", ["DisplaySystem"]),
        ("validation", []),
        ("testing", ["MockTool", "TestCoordinator"]),
        ("pytest_plugin", []),
    ],
)
def test_each_python_only_type_is_in_the_file_of_its_row(home: str, names: list[str]) -> None:
    module = importlib.import_module(f"amplifier_core.{home}")

    assert [name for name in names if not inspect.isclass(getattr(module, name))] == []


@requirement("STHREE-147")
def test_the_command_line_is_a_package_of_its_own() -> None:
    assert importlib.util.find_spec("amplifier_cli") is not None


@requirement("STHREE-308")
@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "hi"}],
        [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
            }
        ],
    ],
)
def test_the_content_of_a_tool_result_dumps_to_what_it_was_made_of(content: Any) -> None:
    result = ToolResult(output="done", content=content)

    assert result.model_dump()["content"] == content
    assert ToolResult.model_validate_json(result.model_dump_json()) == result
