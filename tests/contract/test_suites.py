"""Contract of the suites a module inherits to test itself, and of our own modules under them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import amplifier_conformance
from amplifier_core import validation
from amplifier_core.validation import base, behavioral, structural
from contract.installer import write_module
from contract.pytest_runs import run_pytest, write_test
from contract.requirements import requirement
from contract.samples import GOOD

PUBLISHED = {
    "Provider": "mount_succeeds get_info_returns_valid_provider_info list_models_returns_list "
    "provider_has_name_attribute parse_tool_calls_returns_list",
    "Tool": "mount_succeeds tool_has_name tool_has_description tool_has_execute_method "
    "execute_returns_tool_result tool_result_has_required_fields "
    "invalid_input_returns_error_result",
    "Hook": "mount_succeeds handler_returns_hook_result hook_result_has_valid_action "
    "cleanup_is_callable_if_present cleanup_does_not_raise "
    "handler_does_not_crash_on_malformed_data handler_does_not_crash_on_empty_data",
    "Orchestrator": "mount_succeeds orchestrator_has_execute_method execute_returns_string "
    "execute_with_empty_prompt orchestrator_uses_provider orchestrator_updates_context",
    "Context": "mount_succeeds context_has_required_methods message_round_trip multiple_messages "
    "clear_removes_messages get_messages_for_request_returns_messages "
    "internal_should_compact_returns_bool internal_compact_does_not_crash "
    "add_invalid_message_does_not_crash get_messages_never_returns_none",
}

SUITES = """
    from amplifier_core.validation.behavioral import {kind}BehaviorTests
    from amplifier_core.validation.structural import {kind}StructuralTests

    class TestStructure({kind}StructuralTests):
        pass

    class TestBehavior({kind}BehaviorTests):
        pass
"""


def _write_suites(folder: Path, kind: str) -> None:
    write_test(folder / "tests", f"test_{kind.lower()}_suites.py", SUITES.format(kind=kind))


def _remembering(source: str) -> str:
    """Make the context of the sample remember, as its suite demands."""
    changes = {
        "async def add_message(self, message): ...": "messages = []\n"
        "            async def add_message(self, message):\n"
        "                self.messages.append(message)",
        "return []": "return list(self.messages)",
        "async def clear(self): ...": "async def clear(self):\n"
        "                self.messages.clear()",
    }
    for old, new in changes.items():
        source = source.replace(old, new)
    return source


@requirement("VALID-19")
@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_suite_has_the_published_tests(kind: str) -> None:
    suite = getattr(behavioral, f"{kind}BehaviorTests")

    missing = [name for name in PUBLISHED[kind].split() if not hasattr(suite, f"test_{name}")]

    assert missing == []
    assert hasattr(structural, f"{kind}StructuralTests")


@requirement("VALID-18", "VALID-19")
def test_good_modules_pass_their_suites(tmp_path: Path) -> None:
    kinds = ["Provider", "Tool", "Hook", "Context"]
    for kind in kinds:
        source = GOOD[kind.lower()]
        source = _remembering(source) if kind == "Context" else source
        home = tmp_path / f"amplifier-module-{kind.lower()}-good"
        _write_suites(write_module(home, f"{kind.lower()}-good", source), kind)

    outcome = run_pytest(tmp_path)

    assert outcome.of("failed") == outcome.of("error") == 0, outcome
    assert outcome.of("passed") >= sum(len(PUBLISHED[kind].split()) + 1 for kind in kinds), outcome


@requirement("VALID-18")
def test_bad_modules_fail_their_structural_suites(tmp_path: Path) -> None:
    for kind in PUBLISHED:
        home = tmp_path / f"amplifier-module-{kind.lower()}-bad"
        write_module(home, f"{kind.lower()}-bad", "def mount(coordinator): ...")
        _write_suites(home, kind)

    outcome = run_pytest(tmp_path, "-k", "Structure")

    assert outcome.counts == {"failed": len(PUBLISHED)}, outcome
    assert outcome.output.count("mount_signature") >= len(PUBLISHED)
    assert structural.check_on_session_ready is base.check_on_session_ready


FAULTS = """
    from amplifier_conformance import ToolFaultTests

    class TestFaults(ToolFaultTests):
        slow_input = {{"wait": True}}
        start_seconds = 0.05
        cancel_seconds = {patience}
"""
WAITING = """
    import asyncio
    from amplifier_core import ToolResult

    class Thing:
        name = "waits"
        description = "Waits."
        input_schema = {{"type": "object"}}
        async def execute(self, input):
            for _ in range(20 if isinstance(input, dict) and input.get("wait") else 0):
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    {then}
            return ToolResult(output="done")

    async def mount(coordinator, config=None):
        await coordinator.mount("tools", Thing(), name="waits")
"""


@requirement("VALID-20")
def test_a_fault_suite_names_the_rule_that_is_broken(tmp_path: Path) -> None:
    for name, then, patience in (("good", "raise", 2), ("stubborn", "pass", 0.05)):
        home = tmp_path / f"amplifier-module-tool-{name}"
        write_module(home, f"tool-{name}", WAITING.format(then=then))
        write_test(home / "tests", f"test_{name}_faults.py", FAULTS.format(patience=patience))

    good = run_pytest(tmp_path / "amplifier-module-tool-good", "tests")
    stubborn = run_pytest(tmp_path / "amplifier-module-tool-stubborn", "tests", "-k", "cancel")

    assert good.of("failed") == good.of("error") == 0, good
    assert good.of("passed") >= 5, good
    assert stubborn.of("failed") == 1, stubborn
    assert "Rule tool.cancel" in stubborn.output
    suites = {f"{kind}FaultTests" for kind in PUBLISHED}
    assert suites <= set(amplifier_conformance.__all__)


OURS = {
    "Orchestrator": "amplifier_module_loops.loop_basic",
    "Context": "amplifier_module_contexts.context_simple",
    "Provider": "amplifier_module_provider_mock",
}


@requirement("ORCH-21", "CTX-15", "PROV-6")
async def test_our_own_modules_pass_their_validators_and_their_suites(tmp_path: Path) -> None:
    for kind, package in OURS.items():
        distribution, _, module = package.partition(".")
        spec = importlib.util.find_spec(distribution)
        assert spec is not None, package
        assert spec.origin is not None
        home = tmp_path / distribution.replace("_", "-")
        # The folder of a test says which module of several it is for.
        name = f"test_{kind.lower()}_suites.py"
        write_test(home / "tests" / module, name, SUITES.format(kind=kind))
        (home / distribution).symlink_to(Path(spec.origin).parent, target_is_directory=True)
        result = await getattr(validation, f"{kind}Validator")().validate(package)
        assert result.passed, result.checks
        assert result.warnings == []

    outcome = run_pytest(tmp_path)

    assert outcome.of("failed") == outcome.of("error") == outcome.of("skipped") == 0, outcome
    assert outcome.of("passed") >= sum(len(PUBLISHED[kind].split()) + 1 for kind in OURS), outcome
