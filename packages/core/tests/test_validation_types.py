"""What the validators of the five types look at in a mounted module."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.validation import (
    ContextValidator,
    HookValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationResult,
)
from amplifier_core.validation.base import ModuleValidator
from contract.planted_modules import IMPORTS, PROVIDER, TOOL, Plant
from contract.requirements import requirement

LOOP = """
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks):
        return prompt
async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""
CONTEXT = """
class Context:
    async def add_message(self, message): ...
    async def get_messages_for_request(self, token_budget=None, provider=None): ...
    async def get_messages(self): ...
    async def set_messages(self, messages): ...
    async def clear(self): ...
async def mount(coordinator, config):
    await coordinator.mount("context", Context())
"""
HOOK = """
class Handler:
    async def seen(self, event, data):
        return HookResult()
async def mount(coordinator, config):
    handler = Handler()
    coordinator.hooks.register("tool:pre", handler.seen)
    coordinator.get("hooks").on("tool:post", handler.seen, name="second")
    return lambda: None
"""


def failures(result: ValidationResult) -> dict[str, str]:
    return {check.name: check.severity for check in result.checks if not check.passed}


def message(result: ValidationResult, name: str) -> str:
    return next(check.message for check in result.checks if check.name == name)


def names(result: ValidationResult) -> list[str]:
    return [check.name for check in result.checks]


async def inspected(
    plant: Plant, validator: ModuleValidator, source: str, old: str = "", new: str = ""
) -> dict[str, str]:
    """Return the failures of a good module in which `old` was replaced by `new`."""
    assert old in source
    config = {"api_key": "planted"}
    return failures(await validator.validate(plant(source.replace(old, new)), config=config))


@requirement("VALID-6")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", {}),
        ('name = "planted"', 'name = ""', {"tool_name": "error"}),
        ('"A planted tool."', '""', {"tool_description": "warning"}),
        ('{"type": "object"}', "None", {"tool_input_schema": "warning"}),
        ("async def execute", "def execute", {"tool_execute": "error"}),
        ("self, input", "self", {"tool_execute": "error"}),
        ("async def execute", "execute = None\n    async def run", {"tool_execute": "error"}),
    ],
)
async def test_a_tool_is_looked_at(
    plant: Plant, old: str, new: str, expected: dict[str, str]
) -> None:
    found = await inspected(
        plant, ToolValidator(), TOOL.replace("Tool())", 'Tool(), name="t")'), old, new
    )

    found.pop("protocol_compliance", None)
    assert found == expected


async def test_a_method_whose_signature_cannot_be_read_is_not_refused(plant: Plant) -> None:
    hidden = 'Tool.execute.__signature__ = "not a signature"\n'
    source = TOOL.replace("async def mount", f"{hidden}async def mount")

    assert (await ToolValidator().validate(plant(source))).passed


@requirement("TOOL-4")
async def test_a_schema_by_method_is_enough_and_published_loops_are_mentioned(
    plant: Plant,
) -> None:
    by_method = "def get_schema(self):\n        return {'type': 'object'}"
    source = TOOL.replace('input_schema = {"type": "object"}', by_method)

    result = await ToolValidator().validate(plant(source))

    assert result.passed
    assert [check.name for check in result.warnings] == ["tool_input_schema"]
    assert "published loops read it" in message(result, "tool_input_schema")


@requirement("TOOL-4")
async def test_a_schema_that_is_no_dict_is_named_with_its_type(plant: Plant) -> None:
    source = TOOL.replace('{"type": "object"}', "'text'")

    result = await ToolValidator().validate(plant(source))

    assert message(result, "tool_input_schema") == "input_schema must be a dict, not str"


async def test_an_entry_point_leads_to_the_mount_of_a_part(plant: Plant) -> None:
    folder = plant("")
    (folder / "part.py").write_text(IMPORTS + TOOL.replace("def mount", "def mount_it"), "utf-8")
    (folder / "broken.py").write_text("1 / 0\n", "utf-8")

    found = await ToolValidator().validate(folder, f"{folder.name}.part:mount_it")
    broken = await ToolValidator().validate(folder, f"{folder.name}.broken:mount")

    assert found.passed, found.errors
    assert "ZeroDivisionError" in message(broken, "mount_exists")
    assert not broken.passed


async def test_an_object_that_is_no_tool_fails_as_a_whole(plant: Plant) -> None:
    source = "async def mount(coordinator, config):\n    await coordinator.mount('tools', 7, 'x')"
    result = await ToolValidator().validate(plant(source))

    assert message(result, "protocol_compliance") == "int does not implement Tool interface"
    assert not result.passed


@requirement("VALID-7")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", {}),
        ('name = "planted"', "name = ''", {"provider_name": "error"}),
        ("def get_info", "def other", {"provider_get_info": "error"}),
        (
            'return ProviderInfo(id="planted", display_name="Planted")',
            "return {}",
            {"provider_get_info": "error"},
        ),
        (
            'return ProviderInfo(id="planted", display_name="Planted")',
            "raise OSError",
            {"provider_get_info": "warning"},
        ),
        ("async def list_models", "def list_models", {"provider_list_models": "error"}),
        ("self, request, **kwargs", "self", {"provider_complete": "error"}),
        ("def parse_tool_calls", "def other", {"provider_parse_tool_calls": "error"}),
    ],
)
async def test_a_provider_is_looked_at(
    plant: Plant, old: str, new: str, expected: dict[str, str]
) -> None:
    source = PROVIDER.replace("Provider())", 'Provider(), name="p")')
    found = await inspected(plant, ProviderValidator(), source, old, new)

    found.pop("protocol_compliance", None)
    assert found == expected


@requirement("VALID-8")
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("prompt, context, providers, tools, hooks", {}),
        ("prompt, context, providers, tools, hooks, coordinator=None", {}),
        ("**arguments", {}),
        ("prompt, context, providers, tools", {"orchestrator_execute": "error"}),
    ],
)
async def test_an_orchestrator_is_looked_at(
    plant: Plant, parameters: str, expected: dict[str, str]
) -> None:
    old = "prompt, context, providers, tools, hooks"
    source = LOOP.replace("return prompt", "return ''")

    assert await inspected(plant, OrchestratorValidator(), source, old, parameters) == expected


@requirement("VALID-9")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", {}),
        ("self, message)", "self)", {"context_add_message": "error"}),
        ("async def clear", "def clear", {"context_clear": "error"}),
        ("self, messages", "self", {"context_set_messages": "error"}),
        ("def get_messages(", "def other(", {"context_get_messages": "error"}),
        (
            "async def get_messages_for_request",
            "def get_messages_for_request",
            {"context_get_messages_for_request": "error"},
        ),
    ],
)
async def test_a_context_is_looked_at(
    plant: Plant, old: str, new: str, expected: dict[str, str]
) -> None:
    found = await inspected(plant, ContextValidator(), CONTEXT, old, new)

    found.pop("protocol_compliance", None)
    assert found == expected


@requirement("VALID-10")
async def test_handlers_are_looked_at_once_and_the_cleanup_never(plant: Plant) -> None:
    result = await HookValidator().validate(plant(HOOK))

    assert result.passed
    assert names(result).count("hook_call") == 1
    assert "Handler.seen" in message(result, "hook_call")


@requirement("VALID-10")
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("async def seen", "def seen", "must be async"),
        ("self, event, data", "self, event", "must accept event and data"),
        ("handler.seen", "7", "cannot be called"),
    ],
)
async def test_a_handler_that_cannot_be_one_fails(
    plant: Plant, old: str, new: str, words: str
) -> None:
    result = await HookValidator().validate(plant(HOOK.replace(old, new)))

    assert failures(result) == {"hook_call": "error"}
    assert words in message(result, "hook_call")


@requirement("VALID-10")
async def test_an_object_with_an_async_call_is_a_handler(plant: Plant) -> None:
    source = HOOK.replace("async def seen", "async def __call__").replace("handler.seen", "handler")

    assert (await HookValidator().validate(plant(source))).passed


@requirement("VALID-10")
async def test_a_hook_module_without_handlers_passes(plant: Plant) -> None:
    result = await HookValidator().validate(plant("async def mount(coordinator, config): ..."))

    assert result.passed
    assert names(result).count("hook_call") == 0


def test_a_validator_of_no_type_looks_at_nothing() -> None:
    nothing: Any = None
    with pytest.raises(NotImplementedError):
        ModuleValidator().inspect(nothing)
