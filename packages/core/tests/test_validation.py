"""What every validator does: find a module, import it, mount it, and say what it saw."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

import pytest

from amplifier_core.validation import (
    ContextValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationCheck,
    ValidationResult,
)
from amplifier_core.validation.base import (
    ModuleValidator,
    check_on_session_ready,
    import_module_from_path,
)
from contract.planted_modules import IMPORTS, PROVIDER, TOOL, Plant
from contract.requirements import requirement


def failures(result: ValidationResult) -> dict[str, str]:
    return {check.name: check.severity for check in result.checks if not check.passed}


def message(result: ValidationResult, name: str) -> str:
    return next(check.message for check in result.checks if check.name == name)


def names(result: ValidationResult) -> list[str]:
    return [check.name for check in result.checks]


# --- results -------------------------------------------------------------------------------------


@requirement("VALID-1")
def test_a_result_passes_until_an_error_fails() -> None:
    result = ValidationResult("tool", "somewhere")
    result.add(ValidationCheck("good", True, "fine", "info"))
    warning = ValidationCheck("odd", False, "hm", "warning")
    result.add(warning)
    assert (result.passed, result.warnings, result.errors) == (True, [warning], [])
    assert result.summary() == "PASSED: 1/2 checks passed (0 errors, 1 warnings)"

    error = ValidationCheck("bad", False, "no", "error")
    result.add(error)
    assert (result.passed, result.errors) == (False, [error])
    assert result.summary() == "FAILED: 1/3 checks passed (1 errors, 1 warnings)"


# --- finding and importing -----------------------------------------------------------------------


@requirement("VALID-2")
async def test_what_cannot_be_imported_is_looked_at_no_further(tmp_path: Path) -> None:
    (tmp_path / "broken_planted.py").write_text("import no_such_thing_anywhere", encoding="utf-8")
    for path in (tmp_path / "missing", tmp_path / "broken_planted.py", "no_such_thing_anywhere"):
        result = await ToolValidator().validate(path)

        assert failures(result) == {"module_importable": "error"}
        assert "import" in message(result, "module_importable")
        assert names(result) == ["module_importable"]


@requirement("VALID-2")
async def test_a_folder_without_a_package_says_what_is_missing(tmp_path: Path) -> None:
    result = await ToolValidator().validate(tmp_path)

    assert f"No __init__.py found in {tmp_path}" in message(result, "module_importable")


async def test_a_module_whose_code_raises_is_told_with_the_type(plant: Plant) -> None:
    result = await ToolValidator().validate(plant("raise KeyError('planted')"))

    assert "KeyError: 'planted'" in message(result, "module_importable")


@requirement("VALID-12")
async def test_a_package_a_file_a_project_folder_and_a_name_can_be_validated(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "amplifier-module-tool-planted"
    package = plant(TOOL)
    file = tmp_path / f"planted_{uuid4().hex}.py"
    file.write_text(IMPORTS + TOOL, encoding="utf-8")
    (project / "src").mkdir(parents=True)
    plant(TOOL).rename(project / "src" / f"amplifier_module_{uuid4().hex}")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    for path in (package, str(package), file, project, package.name):
        result = await ToolValidator().validate(path)
        assert result.passed, result.summary()
        assert result.module_path == str(path)


@requirement("VALID-17")
def test_importing_twice_gives_the_same_module_and_never_somebody_elses(
    plant: Plant, tmp_path: Path
) -> None:
    package = plant(TOOL)
    module = import_module_from_path(package)
    other = tmp_path / "elsewhere" / package.name
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("", encoding="utf-8")

    assert import_module_from_path(package) is module
    assert str(tmp_path) not in sys.path
    with pytest.raises(ImportError, match="Refusing to import"):
        import_module_from_path(other)
    del sys.modules[package.name]


@requirement("VALID-17")
def test_a_submodule_of_another_file_is_refused_too(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = plant(TOOL)
    monkeypatch.setitem(sys.modules, f"{package.name}.inner", sys)

    with pytest.raises(ImportError, match="Refusing to import"):
        import_module_from_path(package)


def test_a_file_that_is_not_there_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="No file"):
        import_module_from_path(tmp_path / "nothing.py")


# --- mount ---------------------------------------------------------------------------------------


@requirement("VALID-3")
@pytest.mark.parametrize("source", ["", "mount = 7"])
async def test_a_module_without_mount_fails(plant: Plant, source: str) -> None:
    result = await ToolValidator().validate(plant(source))

    assert failures(result) == {"mount_exists": "error"}
    assert "mount" in message(result, "mount_exists")
    assert names(result) == ["module_importable", "mount_exists"]


@requirement("VALID-4")
async def test_a_mount_that_is_not_async_or_takes_too_little_fails(plant: Plant) -> None:
    sync = await ToolValidator().validate(plant("def mount(coordinator, config): ..."))
    short = await ToolValidator().validate(plant("async def mount(coordinator): ..."))

    assert failures(sync) == failures(short) == {"mount_signature": "error"}
    assert "async" in message(sync, "mount_signature")
    assert "2 parameters" in message(short, "mount_signature")


@requirement("VALID-5")
async def test_a_faulty_ready_callback_is_listed_after_the_signature(plant: Plant) -> None:
    sync = await ToolValidator().validate(plant(TOOL + "def on_session_ready(c): ..."))
    blind = await ToolValidator().validate(plant(TOOL + "async def on_session_ready(c=None): ..."))
    good = await ToolValidator().validate(plant(TOOL + "async def on_session_ready(c): ..."))

    assert failures(sync) == failures(blind) == {"on_session_ready_async": "error"}
    assert "must be async" in message(sync, "on_session_ready_async")
    assert "must accept a coordinator argument" in message(blind, "on_session_ready_async")
    assert names(sync).index("on_session_ready_async") == names(sync).index("mount_signature") + 1
    assert good.passed


@requirement("VALID-5")
def test_the_ready_check_alone_says_nothing_when_there_is_nothing_to_say() -> None:
    assert check_on_session_ready(sys) is None


async def test_the_mount_function_may_have_another_name(plant: Plant) -> None:
    package = plant(TOOL.replace("def mount", "def install"))

    for entry_point in ("install", f"{package.name}:install"):
        assert (await ToolValidator().validate(package, entry_point)).passed
    assert not (await ToolValidator().validate(package, "tool-planted")).passed


@requirement("VALID-11")
async def test_a_mount_that_raises_fails_with_its_words(plant: Plant) -> None:
    result = await ToolValidator().validate(
        plant("async def mount(coordinator, config):\n    raise ValueError('planted')")
    )

    assert failures(result) == {"protocol_compliance": "error"}
    assert message(result, "protocol_compliance") == (
        "Error during protocol compliance check: ValueError: planted"
    )


@requirement("VALID-11")
@pytest.mark.parametrize(
    ("validator", "words"),
    [
        (ToolValidator(), "No tool was mounted and mount() did not return a Tool instance"),
        (ProviderValidator(), "No provider was mounted and mount() did not return a Provider"),
        (OrchestratorValidator(), "No orchestrator was mounted and mount() did not return an"),
        (ContextValidator(), "No context manager was mounted and mount() did not return a"),
    ],
)
async def test_a_mount_that_brings_nothing_fails(
    plant: Plant, validator: ModuleValidator, words: str
) -> None:
    result = await validator.validate(plant("async def mount(coordinator, config): ..."))

    assert failures(result) == {"protocol_compliance": "error"}
    assert words in message(result, "protocol_compliance")


@requirement("VALID-11")
async def test_a_returned_instance_passes_and_a_returned_cleanup_passes_as_a_warning(
    plant: Plant,
) -> None:
    returned = TOOL.replace('await coordinator.mount("tools", Tool())', "return Tool()")
    instance = await ToolValidator().validate(plant(returned))
    cleanup = await ToolValidator().validate(
        plant("async def mount(coordinator, config):\n    return lambda: None")
    )

    assert "implements Tool interface" in message(instance, "protocol_compliance")
    assert instance.passed
    assert cleanup.passed
    check = next(each for each in cleanup.checks if each.name == "protocol_compliance")
    assert (check.passed, check.severity) == (True, "warning")


@requirement("VALID-12")
async def test_the_config_reaches_the_mount(plant: Plant) -> None:
    package = plant(PROVIDER)
    without = await ProviderValidator().validate(package)
    with_key = await ProviderValidator().validate(package, config={"api_key": "planted"})

    assert "No provider was mounted" in message(without, "protocol_compliance")
    assert "implements Provider interface" in message(with_key, "protocol_compliance")
    assert with_key.passed
