"""`module validate`: the layouts and the commands that the module contracts show."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.requirements import requirement

Command = Callable[..., "subprocess.CompletedProcess[str]"]

PROJECT = '[project]\nname = "x"\nversion = "1"\n[project.entry-points."amplifier.modules"]\n'
TOOL = """
from amplifier_core.models import ToolResult

class MyTool:
    name = "my_tool"
    description = "Does something."
    async def execute(self, input):
        return ToolResult(output="done")
    def get_schema(self):
        return {"type": "object", "properties": {}}

async def mount(coordinator, config):
    await coordinator.mount("tools", MyTool(), name="my-tool")
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@requirement("VALID-23", "TOOL-4")
def test_a_tool_laid_out_as_the_contract_shows_is_valid(amplifier: Command, project: Path) -> None:
    point = 'my-tool = "my_tool:mount"\n'
    write(project / "my-tool", {"pyproject.toml": PROJECT + point, "my_tool/__init__.py": TOOL})

    done = amplifier("module", "validate", "./my-tool", "--type", "tool")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "my-tool (tool)" in done.stdout
    assert "warning  tool_input_schema" in done.stdout
    assert "behaviour  7 of 7 checks passed" in done.stdout


HOOK = """
async def mount(coordinator, config):
    async def look(event, data): ...
    return coordinator.hooks.register("tool:pre", look)
"""


@pytest.mark.parametrize(
    ("source", "given", "kind"), [(TOOL, "hook", "tool"), (HOOK, "tool", "hook")]
)
def test_a_module_that_mounts_something_else_than_its_type_is_not_valid(
    amplifier: Command, project: Path, source: str, given: str, kind: str
) -> None:
    write(project / "my-module", {"my_module/__init__.py": source})

    done = amplifier("module", "validate", "./my-module", "--type", given)

    assert done.returncode == 1
    assert f"It mounts a {kind}: check it with --type {kind}" in done.stdout
    assert "behaviour" not in done.stdout


def test_a_module_that_this_kernel_refuses_is_not_valid(amplifier: Command, project: Path) -> None:
    needs = '[project]\ndependencies = ["amplifier-core>=2.0.3"]\n'
    write(project / "my-tool", {"pyproject.toml": needs, "my_tool/__init__.py": TOOL})

    done = amplifier("module", "validate", "./my-tool", "--type", "tool")

    assert done.returncode == 1
    assert "`my-tool` is not loaded: it requires amplifier-core >=2.0.3" in done.stdout


def test_a_module_that_does_not_import_fails_once_and_says_why(
    amplifier: Command, project: Path
) -> None:
    write(project / "my-module", {"my_module/__init__.py": "def mount("})

    typed = amplifier("module", "validate", "./my-module", "--type", "tool")
    untyped = amplifier("module", "validate", "./my-module")

    assert typed.returncode == 1
    assert typed.stdout.count("SyntaxError") == 1
    assert "SyntaxError" in untyped.stderr
    assert len(untyped.stderr.splitlines()) == 3


@requirement("VALID-23")
def test_a_type_that_the_package_contradicts_is_a_failed_check(
    amplifier: Command, project: Path
) -> None:
    declared = f'__amplifier_module_type__ = "hook"\n{TOOL}'
    write(project / "my-tool", {"my_tool/__init__.py": declared})

    done = amplifier("module", "validate", "my-tool", "--type", "tool")

    assert done.returncode == 1
    assert "failed   module_type" in done.stdout
    assert "declares `__amplifier_module_type__ = 'hook'`, and is checked as tool" in done.stdout


@requirement("VALID-23")
def test_a_type_that_nothing_says_is_inferred_from_what_is_mounted(
    amplifier: Command, project: Path
) -> None:
    point = 'my-module = "my_package.sub:mount_it"\n'
    files = {"pyproject.toml": PROJECT + point, "src/my_package/__init__.py": ""}
    mount = TOOL.replace("def mount", "def mount_it")
    write(project / "my-module", {**files, "src/my_package/sub.py": mount})

    done = amplifier("module", "validate", "./my-module")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "my-module (tool)" in done.stdout
    assert "behaviour  7 of 7 checks passed" in done.stdout


@requirement("VALID-23")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "async def mount(coordinator, config): ...",
            "Its id, its package and its mount() do not say it",
        ),
        ("1 / 0", "Cannot import module: ZeroDivisionError: division by zero"),
    ],
)
def test_a_type_that_cannot_be_known_is_asked_for_with_a_command_that_works(
    amplifier: Command, project: Path, source: str, reason: str
) -> None:
    write(project / "my-module", {"my_module/__init__.py": source})

    done = amplifier("module", "validate", "./my-module")

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error  The type of `my-module` is not known.",
        f"why    {reason}. Types: tool, provider, hook, orchestrator, context.",
        "next   amplifier module validate ./my-module --type tool",
    ]


PROVIDER = """
from amplifier_core.models import ProviderInfo

class MyProvider:
    name = "mine"
    def get_info(self):
        return ProviderInfo(id="mine", display_name="Mine")
    async def list_models(self):
        return []
    async def complete(self, request, **kwargs): ...
    def parse_tool_calls(self, response):
        return []

async def mount(coordinator, config):
    if set(config) - {"key"}:
        raise ValueError("unknown setting")
    if "key" in config:
        await coordinator.mount("providers", MyProvider())
"""


@pytest.mark.parametrize("module_id", ["my-provider", "my-module"])
def test_a_provider_that_mounts_nothing_without_a_key_is_given_a_placeholder(
    amplifier: Command, project: Path, module_id: str
) -> None:
    source = PROVIDER.replace('"key"', '"api_key"')
    write(project / module_id, {f"{module_id.replace('-', '_')}/__init__.py": source})

    done = amplifier("module", "validate", f"./{module_id}")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{module_id} (provider)" in done.stdout
    assert "configuration: api_key (a placeholder)" in done.stdout


def test_a_provider_that_no_placeholder_helps_is_checked_without_one(
    amplifier: Command, project: Path
) -> None:
    write(project / "my-provider", {"my_provider/__init__.py": PROVIDER})

    done = amplifier("module", "validate", "./my-provider")

    assert done.returncode == 1
    assert "No provider was mounted" in done.stdout
    assert "unknown setting" not in done.stdout


def test_a_folder_of_several_modules_is_asked_which_one(amplifier: Command, project: Path) -> None:
    points = 'tool-a = "pack.a:mount"\ntool-b = "pack.b:mount"\n'
    files = {"pyproject.toml": PROJECT + points, "pack/__init__.py": "", "pack/a.py": TOOL}
    write(project / "family", files)

    done = amplifier("module", "validate", "./family")
    chosen = amplifier("module", "validate", "./family", "--id", "tool-a")

    assert done.returncode == 1
    assert "has several modules, and `family` is not one of them" in done.stderr
    assert "tool-a, tool-b" in done.stderr
    assert chosen.returncode == 0, chosen.stdout + chosen.stderr


def test_an_unknown_type_is_refused_with_the_known_ones(amplifier: Command) -> None:
    done = amplifier("module", "validate", ".", "--type", "gadget")

    assert done.returncode == 2
    assert "'tool', 'provider', 'hook', 'orchestrator', 'context'" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module_id", "mounted"),
    [
        ("hooks-logging", "hook"),
        ("loop-basic", "orchestrator"),
        ("context-simple", "context"),
        ("provider-mock", "provider"),
        ("tool-todo", "tool"),
    ],
)
def test_an_installed_module_is_checked_by_its_id(
    amplifier: Command, module_id: str, mounted: str
) -> None:
    done = amplifier("module", "validate", module_id, "--type", mounted, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{module_id} ({mounted})" in done.stdout


def test_a_module_that_needs_a_configuration_is_checked_with_the_one_given(
    amplifier: Command, project: Path
) -> None:
    needs = TOOL.replace("    await", '    config["city"]\n    await')
    point = 'my-tool = "my_tool:mount"\n'
    write(project / "my-tool", {"pyproject.toml": PROJECT + point, "my_tool/__init__.py": needs})

    without = amplifier("module", "validate", "./my-tool")
    given = amplifier("module", "validate", "./my-tool", "--config", '{"city": "Oslo"}')
    wrong = amplifier("module", "validate", "./my-tool", "--config", "city")

    assert without.returncode == 1
    assert given.returncode == 0, given.stdout + given.stderr
    assert wrong.returncode == 2
    assert "--config" in wrong.stderr
