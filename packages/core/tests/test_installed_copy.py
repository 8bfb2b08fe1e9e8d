"""The pytest plugin beside an installed wheel of the module under test, as in tox."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from amplifier_core.validation.base import importable_copy
from contract.planted_projects import TOOL, USES_TOOL, project, write

pytest_plugins = ["pytester"]

PACKAGE = "amplifier_module_tool_planted"
IMPORTS_TOOL = f"import {PACKAGE}, pathlib\n{USES_TOOL}"
TESTS_WHAT_IT_IMPORTS = (
    f"{IMPORTS_TOOL}    assert module_path == pathlib.Path({PACKAGE}.__file__).parent\n"
)
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "amplifier-module-tool-planted"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["src/amplifier_module_tool_planted"]
[tool.pytest.ini_options]
asyncio_mode = "strict"
asyncio_default_fixture_loop_scope = "function"
"""


def source_project(folder: pytest.Pytester, test: str) -> Path:
    """Write a project with a `src` folder; what is in it is not on the import path."""
    root = folder.path / "mine"
    write(root / "src" / PACKAGE / "__init__.py", TOOL)
    write(root / "tests" / "test_planted.py", test)
    write(root / "pyproject.toml", PROJECT)
    return root


def test_the_copy_that_the_tests_import_is_tested_and_named(folder: pytest.Pytester) -> None:
    source_project(folder, TESTS_WHAT_IT_IMPORTS)
    folder.syspathinsert(project(folder, at="site-packages"))

    result = folder.runpytest_inprocess("mine/tests")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [f"Tested the installed copy */site-packages/{PACKAGE}, not */src/*"]
    )


def test_a_second_copy_that_is_not_installed_is_refused(folder: pytest.Pytester) -> None:
    source_project(folder, IMPORTS_TOOL)
    folder.syspathinsert(project(folder, at="other"))

    result = folder.runpytest_inprocess("mine/tests")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*Refusing to import `{PACKAGE}` from */mine/src/*"])


def test_a_source_that_the_command_line_names_is_not_exchanged(folder: pytest.Pytester) -> None:
    root = source_project(
        folder, USES_TOOL + f"    assert {str(folder.path / 'mine')!r} in str(module_path)\n"
    )
    folder.syspathinsert(project(folder, at="site-packages"))

    result = folder.runpytest_inprocess("mine/tests", f"--module-path={root}")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("Tested the installed copy*")


@pytest.mark.parametrize("name", ["planted_group/planted", "planted_folder"])
def test_a_package_that_is_installed_nowhere_is_its_own_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package = tmp_path / "src" / name
    write(package / "__init__.py", "")
    if "/" in name:
        write(package.parent / "__init__.py", "")
    # A folder without code is importable as well, and is not a copy of the package.
    (tmp_path / "planted_folder").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    assert importable_copy(package) == package


@pytest.mark.slow
def test_a_real_wheel_is_tested_from_the_checkout_of_its_source(folder: pytest.Pytester) -> None:
    root = source_project(folder, TESTS_WHAT_IT_IMPORTS)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run([*pip, *build], cwd=root, check=True)
    (wheel,) = (root / "dist").glob("*.whl")
    python = _environment(folder.path / "env")
    install = ["--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True)

    # Not `python -m pytest`, nor PYTHONPATH: neither is what tox does.
    command = [python, "-c", "import pytest; raise SystemExit(pytest.main())", "-q"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )

    assert "1 passed" in done.stdout, done.stdout
    assert f"Tested the installed copy {folder.path}/env/" in done.stdout


def _environment(folder: Path) -> Path:
    """Make an environment that also has what is installed here, and return its interpreter."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.check_output([python, "-c", ask], text=True).strip()
    here = sysconfig.get_path("purelib")
    write(Path(own) / "here.pth", f"import site; site.addsitedir({here!r})\n")
    return python
