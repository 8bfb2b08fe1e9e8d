"""Contract of the validators of the five module types."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import validation
from amplifier_core.validation import ValidationCheck, ValidationResult, proto_schema
from amplifier_core.validation.base import check_on_session_ready, import_module_from_path
from contract.installer import write_module
from contract.requirements import requirement
from contract.samples import GOOD

_numbers = count()


async def _validate(
    kind: str, source: str, folder: Path, config: dict[str, Any] | None = None
) -> ValidationResult:
    """Write a module under a name of its own and validate it."""
    module_id = f"{kind}-valid-{next(_numbers)}"
    package = f"amplifier_module_{module_id.replace('-', '_')}"
    write_module(folder, module_id, source)
    validator = getattr(validation, f"{kind.title()}Validator")()
    return await validator.validate(folder / package, config=config)


def _failed(result: ValidationResult) -> dict[str, str]:
    return {check.name: check.message for check in result.errors}


@requirement("VALID-1")
def test_a_result_passes_unless_an_error_check_failed() -> None:
    result = ValidationResult("tool", "path")
    assert result.passed

    result.add(ValidationCheck("a", True, "fine", "info"))
    result.add(ValidationCheck("b", False, "hm", "warning"))
    assert (result.passed, len(result.errors), len(result.warnings)) == (True, 0, 1)
    assert result.summary() == "PASSED: 1/2 checks passed (0 errors, 1 warnings)"

    result.add(ValidationCheck("c", False, "no", "error"))
    assert (result.passed, [check.name for check in result.errors]) == (False, ["c"])
    assert result.summary() == "FAILED: 1/3 checks passed (1 errors, 1 warnings)"


@requirement("VALID-6", "VALID-7", "VALID-8", "VALID-9", "VALID-10", "VALID-12")
@pytest.mark.parametrize("kind", GOOD)
async def test_a_good_module_passes(kind: str, tmp_path: Path) -> None:
    result = await _validate(kind, GOOD[kind], tmp_path)

    assert result.passed, result.checks
    assert result.module_type == kind
    names = [check.name for check in result.checks]
    assert names[:3] == ["module_importable", "mount_exists", "mount_signature"]
    assert "protocol_compliance" in names


@requirement("VALID-2")
async def test_what_cannot_be_imported_is_looked_at_no_further(tmp_path: Path) -> None:
    validator = validation.ToolValidator()
    (tmp_path / "amplifier_module_empty").mkdir()

    missing = await validator.validate(tmp_path / "nowhere")
    empty = await validator.validate(tmp_path / "amplifier_module_empty")
    broken = await _validate("tool", "import no_such_library", tmp_path)

    for result in (missing, empty, broken):
        assert list(_failed(result)) == ["module_importable"]
        assert len(result.checks) == 1
    assert "import" in _failed(missing)["module_importable"].lower()
    assert "No __init__.py found in" in _failed(empty)["module_importable"]


@requirement("VALID-3", "VALID-4", "VALID-5")
@pytest.mark.parametrize(
    ("source", "check", "text"),
    [
        ("mount = None", "mount_exists", "mount"),
        ("def mount(coordinator, config): ...", "mount_signature", "async"),
        ("async def mount(coordinator): ...", "mount_signature", "2 parameters"),
        (
            "async def mount(c, config): ...\ndef on_session_ready(c): ...",
            "on_session_ready_async",
            "must be async",
        ),
        (
            "async def mount(c, config): ...\nasync def on_session_ready(c=None): ...",
            "on_session_ready_async",
            "must accept a coordinator argument",
        ),
    ],
)
async def test_a_wrong_entry_is_named(source: str, check: str, text: str, tmp_path: Path) -> None:
    result = await _validate("tool", source, tmp_path)

    assert text in _failed(result)[check]
    names = [entry.name for entry in result.checks]
    if check == "on_session_ready_async":
        assert names.index(check) > names.index("mount_signature")


@requirement("VALID-5")
def test_a_ready_function_is_checked_by_itself() -> None:
    class Module:
        pass

    async def fine(coordinator: Any) -> None: ...

    module: Any = Module()
    assert check_on_session_ready(module) is None
    module.on_session_ready = fine
    assert check_on_session_ready(module) is None
    module.on_session_ready = lambda coordinator: None  # pyright: ignore[reportUnknownLambdaType] - any function
    check = check_on_session_ready(module)
    assert check is not None
    assert (check.name, check.passed, check.severity) == ("on_session_ready_async", False, "error")


@requirement("VALID-6", "VALID-7", "VALID-8", "VALID-9")
@pytest.mark.parametrize(
    ("kind", "old", "new", "check"),
    [
        ("tool", 'name = "good"', 'name = ""', "tool_name"),
        ("tool", "async def execute(self, input)", "def execute(self, input)", "tool_execute"),
        (
            "tool",
            "execute(self, input):\n                return ToolResult(output=input)",
            "execute(self):\n                return ToolResult()",
            "tool_execute",
        ),
        ("provider", 'name = "good"', 'name = ""', "provider_name"),
        (
            "provider",
            'return ProviderInfo(id="good", display_name="Good")',
            "return {}",
            "provider_get_info",
        ),
        ("provider", "async def list_models", "def list_models", "provider_list_models"),
        ("provider", "async def complete", "def complete", "provider_complete"),
        (
            "provider",
            "def parse_tool_calls(self, response):\n                return []",
            "parse_tool_calls = None",
            "provider_parse_tool_calls",
        ),
        ("orchestrator", "async def execute", "def execute", "orchestrator_execute"),
        (
            "orchestrator",
            "prompt, context, providers, tools, hooks, **kwargs",
            "prompt, context",
            "orchestrator_execute",
        ),
        (
            "context",
            "async def add_message(self, message)",
            "async def add_message(self)",
            "context_add_message",
        ),
        ("context", "async def clear", "def clear", "context_clear"),
        ("context", "async def set_messages(self, messages): ...", "", "context_set_messages"),
    ],
)
async def test_each_member_of_a_module_is_checked(
    kind: str, old: str, new: str, check: str, tmp_path: Path
) -> None:
    assert old in GOOD[kind]

    result = await _validate(kind, GOOD[kind].replace(old, new), tmp_path)

    assert check in _failed(result)


@requirement("VALID-6")
@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ('description = "A good tool."', 'description = ""', "tool_description"),
        ('input_schema = {"type": "object"}', 'input_schema = "text"', "tool_input_schema"),
    ],
)
async def test_the_weaker_points_of_a_tool_are_warnings(
    old: str, new: str, check: str, tmp_path: Path
) -> None:
    result = await _validate("tool", GOOD["tool"].replace(old, new), tmp_path)

    assert result.passed
    assert check in [warning.name for warning in result.warnings]


@requirement("VALID-10")
async def test_a_hook_is_judged_by_its_handlers_and_not_by_its_cleanup(tmp_path: Path) -> None:
    sync = GOOD["hook"].replace("async def handle(self, event, data)", "def handle(self, event)")

    good = await _validate("hook", GOOD["hook"], tmp_path)
    bad = await _validate("hook", sync, tmp_path)

    assert good.passed
    assert "hook_call" in _failed(bad)


@requirement("VALID-11", "VALID-12")
@pytest.mark.parametrize(
    ("kind", "thing", "protocol"),
    [
        ("provider", "provider", "Provider"),
        ("tool", "tool", "Tool"),
        ("orchestrator", "orchestrator", "Orchestrator"),
        ("context", "context manager", "ContextManager"),
    ],
)
async def test_a_mount_must_bring_something_of_its_kind(
    kind: str, thing: str, protocol: str, tmp_path: Path
) -> None:
    nothing = await _validate(kind, GOOD[kind], tmp_path, {"without": True})
    head = GOOD[kind].split("async def mount")[0]
    mount = "async def mount(coordinator, config=None):\n            return "
    returned = await _validate(kind, f"{head}{mount}Thing()", tmp_path)
    cleanup = await _validate(kind, f"{head}{mount}lambda: None", tmp_path)
    raising = await _validate(kind, f"{head}{mount}1 / 0", tmp_path)

    assert f"No {thing} was mounted" in _failed(nothing)["protocol_compliance"]
    assert protocol in _failed(nothing)["protocol_compliance"]
    assert returned.passed
    assert cleanup.passed
    warned = next(check for check in cleanup.checks if check.name == "protocol_compliance")
    assert warned.severity == "warning"
    assert "Error during protocol compliance check" in _failed(raising)["protocol_compliance"]


@requirement("VALID-12")
async def test_a_module_may_be_named_by_file_or_by_import_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "single_file_tool.py"
    write_module(tmp_path, "tool-by-name", GOOD["tool"])
    source = (tmp_path / "amplifier_module_tool_by_name" / "__init__.py").read_text("utf-8")
    file.write_text(source, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    validator = validation.ToolValidator()

    assert (await validator.validate(file)).passed
    assert (await validator.validate(str(file))).passed
    named = await validator.validate("amplifier_module_tool_by_name")
    assert named.passed
    assert any("implements Tool interface" in check.message for check in named.checks)


@requirement("VALID-12", "VALID-13")
async def test_what_was_set_up_for_validation_is_cleaned_up(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    source = (
        GOOD["tool"]
        + f"""
            def note(word):
                with open({str(log)!r}, "a", encoding="utf-8") as file:
                    file.write(word + " ")
            note("mounted")
            coordinator.register_cleanup(lambda: note("registered"))
            return lambda: note("returned")
    """
    )

    await _validate("tool", source, tmp_path)

    words = log.read_text(encoding="utf-8").split()
    assert words[0] == "mounted"
    assert sorted(words[1:]) == ["registered", "returned"]


@requirement("VALID-17")
def test_a_name_that_is_taken_by_another_file_is_refused(tmp_path: Path) -> None:
    first = write_module(tmp_path / "a", "tool-twin", GOOD["tool"])
    second = write_module(tmp_path / "b", "tool-twin", GOOD["tool"])

    module = import_module_from_path(first / "amplifier_module_tool_twin")
    assert module.__name__ == "amplifier_module_tool_twin"
    with pytest.raises(ImportError, match="Refusing to import"):
        import_module_from_path(second / "amplifier_module_tool_twin")
    assert str(first) not in sys.path


@requirement("VALID-21")
def test_validators_work_where_there_is_no_pytest(tmp_path: Path) -> None:
    write_module(tmp_path, "tool-plain-python", GOOD["tool"])
    code = (
        "import asyncio, sys\n"
        "sys.modules['pytest'] = sys.modules['pytest_asyncio'] = None\n"
        "from amplifier_core.validation import ToolValidator\n"
        f"path = {str(tmp_path / 'amplifier_module_tool_plain_python')!r}\n"
        "print(asyncio.run(ToolValidator().validate(path)).passed)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == ("True", "")


@requirement("VALID-22")
def test_results_as_dicts_can_be_checked_too() -> None:
    assert proto_schema.validate_tool_result({"success": True}) == []
    assert proto_schema.validate_tool_result({}) == ["Missing required field: 'success'"]
    (wrong,) = proto_schema.validate_tool_result({"success": "yes"})
    assert wrong.startswith("Field 'success' must be bool, got")
    assert proto_schema.validate_hook_result({"action": "deny"}) == []
    fields = {
        "action": proto_schema.VALID_HOOK_ACTIONS,
        "context_injection_role": proto_schema.VALID_CONTEXT_INJECTION_ROLES,
        "approval_default": proto_schema.VALID_APPROVAL_DEFAULTS,
        "user_message_level": proto_schema.VALID_USER_MESSAGE_LEVELS,
    }
    for field, words in fields.items():
        assert isinstance(words, frozenset)
        (message,) = proto_schema.validate_hook_result({"action": "continue", field: "bogus"})
        assert message.startswith(f"Invalid {field} 'bogus'")
