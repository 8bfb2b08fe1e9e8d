"""Which package of a folder is the module: by its project file, and by names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.loader import ModuleLoader
from amplifier_core.testing import create_test_coordinator
from amplifier_foundation.errors import SettingsError
from amplifier_foundation.session_options import SessionOptions, apply_options
from amplifier_foundation.sources import SourceResolver
from amplifier_foundation.sources.errors import ModuleSourceError
from amplifier_foundation.sources.project import declared_modules, find_package, module_type

Resolvers = Callable[..., SourceResolver]
PROJECT = '[project]\nname = "x"\n[project.entry-points."amplifier.modules"]\n'
MOUNTING = """
class Named:
    name = "{name}"
    description = "A tool."
    async def execute(self, input): ...
async def {function}(coordinator, config):
    await coordinator.mount("tools", Named())
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the packages that these tests import."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("seed_"):
            del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write text files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def tool(name: str, function: str = "mount") -> str:
    return MOUNTING.format(name=name, function=function)


async def tools_of(resolver: SourceResolver, module_id: str, folder: Path) -> list[str]:
    """Load a module from a folder and return the names of the tools it mounts."""
    coordinator = create_test_coordinator()
    before = set(coordinator.get("tools"))
    await coordinator.mount("module-source-resolver", resolver)
    loader = ModuleLoader(coordinator)
    try:
        await (await loader.load(module_id, source_hint=str(folder)))(coordinator)
    finally:
        loader.cleanup()
    return sorted(set(coordinator.get("tools")) - before)


@pytest.mark.parametrize(
    "place", ["", "src/", "lib/", "python/packages/", "code/src/python/packages/"]
)
async def test_the_package_of_an_entry_point_is_found_in_flat_src_and_custom_layouts(
    tmp_path: Path, resolver_with: Resolvers, place: str
) -> None:
    folder = write(
        tmp_path / "any-folder",
        {
            "pyproject.toml": PROJECT + 'my-tool = "seed_layout:mount"\n',
            f"{place}seed_layout/__init__.py": tool("laid-out"),
            "tests/seed_layout/__init__.py": "raise RuntimeError('a test')",
            ".venv/seed_layout/__init__.py": "raise RuntimeError('hidden')",
        },
    )

    found = find_package(folder)

    assert found == ("my-tool", folder / place / "seed_layout", "seed_layout:mount")
    assert await tools_of(resolver_with(), "my-tool", folder) == ["laid-out"]


async def test_the_id_that_is_asked_for_chooses_among_the_modules_of_a_project(
    tmp_path: Path, resolver_with: Resolvers
) -> None:
    points = 'tool-a = "seed_family.a:mount"\ntool-b = "seed_family.b : mount_b"\n'
    folder = write(
        tmp_path / "family",
        {
            "pyproject.toml": PROJECT + points,
            "src/seed_family/__init__.py": "",
            "src/seed_family/a.py": tool("a"),
            "src/seed_family/b.py": tool("b", "mount_b"),
        },
    )

    assert await tools_of(resolver_with(), "tool-a", folder) == ["a"]
    assert await tools_of(resolver_with(), "tool-b", folder) == ["b"]
    with pytest.raises(ModuleSourceError, match="`tool-c` is not one of them") as refused:
        find_package(folder, "tool-c")
    assert refused.value.why == "It declares tool-a, tool-b."


def test_a_package_named_like_an_undeclared_module_of_a_family_is_that_module(
    tmp_path: Path,
) -> None:
    points = 'tool-a = "seed_a:mount"\ntool-b = "seed_b:mount"\n'
    folder = write(
        tmp_path, {"pyproject.toml": PROJECT + points, "amplifier_module_tool_c/__init__.py": ""}
    )

    assert find_package(folder, "tool-c") == ("tool-c", folder / "amplifier_module_tool_c", None)
    with pytest.raises(ModuleSourceError, match="`tool-d` is not one of them"):
        find_package(folder, "tool-d")


def test_the_only_module_of_a_project_may_be_asked_for_by_another_id(tmp_path: Path) -> None:
    project = PROJECT + 'tool-a = "seed_a:mount"\n'
    files = {"pyproject.toml": project, "seed_a/__init__.py": ""}
    folder = write(tmp_path, {**files, "amplifier_module_tool_b/__init__.py": ""})

    assert find_package(folder) == ("tool-a", folder / "seed_a", "seed_a:mount")
    assert find_package(folder, "tool-x") == ("tool-x", folder / "seed_a", "seed_a:mount")
    assert find_package(folder, "tool-b") == ("tool-b", folder / "amplifier_module_tool_b", None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["__init__.py", "amplifier_module_x/__init__.py"], "."),
        (
            ["src/amplifier_module_other/__init__.py", "my_tool/__init__.py"],
            "src/amplifier_module_other",
        ),
        (["my_tool/__init__.py"], "my_tool"),
        (["src/my_tool/__init__.py"], "src/my_tool"),
        (["my_tool.py", "another/__init__.py"], None),
    ],
)
def test_without_a_project_file_names_tell_the_package(
    tmp_path: Path, files: list[str], expected: str | None
) -> None:
    folder = write(tmp_path / "my-tool", dict.fromkeys(files, ""))

    found = find_package(folder)

    assert found == (None if expected is None else ("my-tool", folder / expected, None))


@pytest.mark.parametrize(
    ("entry_point", "why"),
    [
        ("seed_absent:mount", "no folder `seed_absent` with an __init__.py"),
        ("seed_file:mount", "no folder `seed_file` with an __init__.py"),
        ("../evil:mount", "does not look like `package:mount`"),
        ("seed_file", "does not look like `package:mount`"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_said_with_its_name(
    tmp_path: Path, entry_point: str, why: str
) -> None:
    project = PROJECT + f'my-tool = "{entry_point}"\n'
    folder = write(tmp_path, {"pyproject.toml": project, "seed_file.py": ""})

    with pytest.raises(ModuleSourceError, match="`my-tool` is not loaded") as refused:
        find_package(folder)

    assert entry_point in refused.value.why
    assert why in refused.value.why


def test_a_link_out_of_the_folder_is_not_searched(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"seed_linked/__init__.py": ""})
    folder = write(tmp_path / "m", {"pyproject.toml": PROJECT + 'm = "seed_linked:mount"\n'})
    (folder / "vendored").symlink_to(outside)

    with pytest.raises(ModuleSourceError):
        find_package(folder)


def test_an_unpacked_wheel_and_a_poetry_project_declare_modules_too(tmp_path: Path) -> None:
    wheel = write(
        tmp_path / "wheel",
        {"x-1.0.dist-info/entry_points.txt": "[amplifier.modules]\nmy-tool = my_tool:mount\n"},
    )
    poetry = write(
        tmp_path / "poetry",
        {"pyproject.toml": '[tool.poetry.plugins."amplifier.modules"]\na = "b:mount"\n'},
    )

    assert declared_modules(wheel) == {"my-tool": "my_tool:mount"}
    assert declared_modules(poetry) == {"a": "b:mount"}
    assert declared_modules(tmp_path) == {}


def test_a_type_comes_from_the_package_then_from_the_id(tmp_path: Path) -> None:
    package = write(tmp_path / "p", {"__init__.py": '__amplifier_module_type__ = "hook"\n'})
    silent = write(tmp_path / "s", {"__init__.py": ""})

    assert module_type("my-tool", package) == "hook"
    assert module_type("my-tool", silent) == "tool"
    assert module_type("my-tool", silent / "__init__.py") == "tool"
    assert module_type("my-module", silent) is None
    assert module_type("my-context", None) == "context"


def plan_with(*modules: str) -> dict[str, Any]:
    plan: dict[str, Any] = {"session": {}, "providers": [], "tools": [], "hooks": []}
    apply_options(SessionOptions(modules=modules), plan)
    return plan


def test_a_folder_of_the_command_line_is_put_where_its_type_belongs_and_required(
    tmp_path: Path,
) -> None:
    project = PROJECT + 'my-orchestrator = "seed_loop:mount"\n'
    loop = write(tmp_path / "loop", {"pyproject.toml": project, "seed_loop/__init__.py": ""})
    declared = {"__init__.py": '__amplifier_module_type__ = "provider"\n'}
    provider = write(tmp_path / "acme", declared)
    hook = write(tmp_path / "my-hook", {"__init__.py": ""})

    plan = plan_with(str(loop), str(provider), str(hook), "my-tool")

    assert plan["session"]["orchestrator"] == {"module": "my-orchestrator", "source": str(loop)}
    required = {"required": True}
    assert plan["providers"] == [{"module": "acme", "source": str(provider), **required}]
    assert plan["hooks"] == [{"module": "my-hook", "source": str(hook), **required}]
    assert plan["tools"] == [{"module": "my-tool", **required}]


def test_a_folder_without_a_package_is_refused(tmp_path: Path) -> None:
    empty = write(tmp_path / "my-hook", {"README.md": ""})

    with pytest.raises(SettingsError, match="There is no module in"):
        plan_with(str(empty))


def test_a_wish_for_a_module_of_no_known_type_is_refused(tmp_path: Path) -> None:
    unknown = write(tmp_path / "my-module", {"__init__.py": ""})

    with pytest.raises(SettingsError, match="does not say what kind of module it is"):
        plan_with(str(unknown))
