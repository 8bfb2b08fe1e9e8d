"""The structural and behavioural suites that a module's own tests inherit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core.validation import behavioral, structural
from amplifier_core.validation.base import check_on_session_ready
from contract.requirements import requirement

pytest_plugins = ["pytester"]

BEHAVIOUR = {
    "provider": {
        "mount_succeeds",
        "get_info_returns_valid_provider_info",
        "list_models_returns_list",
        "provider_has_name_attribute",
        "parse_tool_calls_returns_list",
    },
    "tool": {
        "mount_succeeds",
        "tool_has_name",
        "tool_has_description",
        "tool_has_execute_method",
        "execute_returns_tool_result",
        "tool_result_has_required_fields",
        "invalid_input_returns_error_result",
    },
    "hook": {
        "mount_succeeds",
        "handler_returns_hook_result",
        "hook_result_has_valid_action",
        "cleanup_is_callable_if_present",
        "cleanup_does_not_raise",
        "handler_does_not_crash_on_malformed_data",
        "handler_does_not_crash_on_empty_data",
    },
    "orchestrator": {
        "mount_succeeds",
        "orchestrator_has_execute_method",
        "execute_returns_string",
        "execute_with_empty_prompt",
        "orchestrator_uses_provider",
        "orchestrator_updates_context",
    },
    "context": {
        "mount_succeeds",
        "context_has_required_methods",
        "message_round_trip",
        "multiple_messages",
        "clear_removes_messages",
        "get_messages_for_request_returns_messages",
        "internal_should_compact_returns_bool",
        "internal_compact_does_not_crash",
        "add_invalid_message_does_not_crash",
        "get_messages_never_returns_none",
    },
}
WORDS = {
    "provider": "provider",
    "tool": "tool",
    "hook": "hooks",
    "orchestrator": "loop",
    "context": "context",
}
GOOD = {
    "provider": """
from amplifier_core import MockProvider
async def mount(coordinator, config):
    await coordinator.mount("providers", MockProvider())
""",
    "tool": """
from amplifier_core import MockTool
async def mount(coordinator, config):
    await coordinator.mount("tools", MockTool())
""",
    "hook": """
from amplifier_core import HookResult
async def handler(event, data):
    return HookResult()
async def mount(coordinator, config):
    remove = coordinator.hooks.register("tool:pre", handler)
    async def cleanup():
        remove()
    return cleanup
""",
    "orchestrator": """
from amplifier_core import ChatRequest, Message
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks):
        await context.add_message({"role": "user", "content": prompt})
        messages = [Message(**each) for each in await context.get_messages_for_request()]
        response = await providers["default"].complete(ChatRequest(messages=messages))
        return response.content[0].text
async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
""",
    "context": """
class Context:
    def __init__(self):
        self.messages = []
    async def add_message(self, message):
        self.messages.append(message)
    async def get_messages_for_request(self, token_budget=None, provider=None):
        return list(self.messages)
    async def get_messages(self):
        return list(self.messages)
    async def set_messages(self, messages):
        self.messages = list(messages)
    async def clear(self):
        self.messages = []
    def _should_compact(self, tokens, budget):
        return tokens > budget
    async def _compact_internal(self):
        pass
async def mount(coordinator, config):
    await coordinator.mount("context", Context())
""",
}
TYPES = sorted(GOOD)


def suite_name(module_type: str, suite: str) -> str:
    return f"{module_type.capitalize()}{suite}Tests"


def plant(folder: pytest.Pytester, module_type: str, source: str) -> None:
    """Write a module and tests that inherit everything there is for its type."""
    package = folder.path / f"amplifier_module_{WORDS[module_type]}_planted"
    package.mkdir()
    (package / "__init__.py").write_text(source, encoding="utf-8")
    names = [suite_name(module_type, suite) for suite in ("Structural", "Behavior")]
    folder.makepyfile(
        test_planted=f"from amplifier_core.validation.structural import {names[0]}\n"
        f"from amplifier_core.validation.behavioral import {names[1]}\n"
        f"class TestStructure({names[0]}): ...\n"
        f"class TestBehaviour({names[1]}): ...\n"
    )


@requirement("VALID-18", "VALID-19")
@pytest.mark.parametrize("arguments", [(), ("-p", "no:asyncio")])
@pytest.mark.parametrize("module_type", TYPES)
def test_a_good_module_passes_what_it_inherits(
    folder: pytest.Pytester, module_type: str, arguments: tuple[str, ...]
) -> None:
    plant(folder, module_type, GOOD[module_type])

    result = folder.runpytest_inprocess(*arguments)

    result.assert_outcomes(passed=1 + len(BEHAVIOUR[module_type]))


@requirement("VALID-18")
@pytest.mark.parametrize("module_type", TYPES)
def test_a_module_without_structure_fails_with_what_is_wrong(
    folder: pytest.Pytester, module_type: str
) -> None:
    plant(folder, module_type, "async def mount(coordinator): ...")

    result = folder.runpytest_inprocess("-k", "structural")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*mount_signature: mount() must take 2 parameters*"])


@requirement("VALID-18")
async def test_the_structural_suite_skips_without_a_module() -> None:
    assert structural.check_on_session_ready is check_on_session_ready
    with pytest.raises(pytest.skip.Exception):
        await structural.ToolStructuralTests().test_structural_validation(None)


@requirement("VALID-19")
@pytest.mark.parametrize("module_type", TYPES)
def test_the_behavioural_tests_have_their_published_names(module_type: str) -> None:
    suite = getattr(behavioral, suite_name(module_type, "Behavior"))
    tests = {name.removeprefix("test_") for name in dir(suite) if name.startswith("test_")}

    assert tests == BEHAVIOUR[module_type]


@requirement("VALID-19")
@pytest.mark.parametrize(
    ("module_type", "old", "new", "failed"),
    [
        ("provider", "MockProvider()", "MockProvider(name='')", 2),
        ("tool", "MockTool()", "MockTool(description='')", 1),
        (
            "hook",
            "    async def cleanup():\n",
            "    async def cleanup():\n        raise OSError\n",
            1,
        ),
        ("orchestrator", "return response.content[0].text", "return 7", 2),
        ("context", "        self.messages.append(message)", "        pass", 3),
        ("context", "return tokens > budget", "return None", 1),
    ],
)
def test_a_module_that_does_not_keep_its_promises_fails(
    folder: pytest.Pytester, module_type: str, old: str, new: str, failed: int
) -> None:
    source = GOOD[module_type]
    assert old in source
    plant(folder, module_type, source.replace(old, new))

    result = folder.runpytest_inprocess("-k", "Behaviour")

    result.assert_outcomes(passed=len(BEHAVIOUR[module_type]) - failed, failed=failed)


@requirement("VALID-19")
def test_a_provider_that_cannot_ask_its_vendor_is_not_blamed(folder: pytest.Pytester) -> None:
    source = """
from amplifier_core import AuthenticationError, MockProvider
async def mount(coordinator, config):
    provider = MockProvider()
    provider.list_models.side_effect = AuthenticationError("no key")
    await coordinator.mount("providers", provider)
"""
    plant(folder, "provider", source)

    folder.runpytest_inprocess("-k", "list_models").assert_outcomes(skipped=1, deselected=5)


@requirement("VALID-19")
@pytest.mark.parametrize("source", ["async def mount(coordinator, config): ..."])
def test_a_hook_module_without_handlers_and_cleanup_passes(
    folder: pytest.Pytester, source: str
) -> None:
    plant(folder, "hook", source)

    folder.runpytest_inprocess().assert_outcomes(passed=8)


@requirement("VALID-19")
def test_a_context_without_compaction_passes(folder: pytest.Pytester) -> None:
    source = GOOD["context"].replace("_should_compact", "a").replace("_compact_internal", "b")
    plant(folder, "context", source)

    folder.runpytest_inprocess().assert_outcomes(passed=11)


def test_the_suites_read_like_the_documentation_says(tmp_path: Path) -> None:
    modules: list[Any] = [structural, behavioral]
    for module in modules:
        example = (module.__doc__ or "").partition("\n\n")[2]
        imported, _, defined = example.strip().partition("\n")
        namespace: dict[str, Any] = {}
        exec(f"{imported}\n{defined.strip()}", namespace)
        assert len([name for name in namespace if name.startswith("Test")]) == 1
