"""The public names of the kernel: adding or dropping one is a visible line in a committed list."""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import amplifier_core

LIST = Path(__file__).with_name("public_names.txt")
CORE = Path(__file__).parents[2] / "packages/core"
STUB = CORE / "src/amplifier_core/__init__.pyi"


def committed_names() -> list[str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_public_names_are_the_committed_ones() -> None:
    assert sorted(amplifier_core.__all__) == committed_names()


def test_every_public_name_can_be_had() -> None:
    missing = [name for name in amplifier_core.__all__ if not hasattr(amplifier_core, name)]

    assert missing == []


def test_no_name_is_public_twice() -> None:
    assert len(set(amplifier_core.__all__)) == len(amplifier_core.__all__)


def test_the_version_in_the_code_is_the_version_of_the_distribution() -> None:
    metadata = tomllib.loads((CORE / "pyproject.toml").read_text(encoding="utf-8"))

    assert amplifier_core.__version__ == metadata["project"]["version"]


def names_in_stub() -> dict[str, str]:
    """Return the file of the kernel that each name of the stub is imported from."""
    homes: dict[str, str] = {}
    for statement in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                # Without the alias a name in a stub is not re-exported.
                assert alias.asname == alias.name
                homes[alias.name] = str(statement.module)
    return homes


def test_the_stub_leads_every_public_name_to_the_home_it_has_at_run_time() -> None:
    at_run_time = {
        name: f"amplifier_core.{home}" for name, home in vars(amplifier_core)["_HOME_OF"].items()
    }
    submodules = {
        each.name: "amplifier_core"
        for each in pkgutil.iter_modules(amplifier_core.__path__)
        if not each.name.startswith("_")
    }

    assert names_in_stub() == at_run_time | submodules


def test_a_misspelt_import_is_an_error_for_a_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import amplifier_core\n"
        "from amplifier_core import HookRegistry\n"
        "from amplifier_core import HookRegisty\n"
        "amplifier_core.hooks.HookRegistry()\n"
        "amplifier_core.hoks\n",
        encoding="utf-8",
    )

    result = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", program],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=tmp_path,  # this repository's own settings are stricter than a user's
    )

    found = json.loads(result.stdout)["generalDiagnostics"]
    errors = {
        (each["range"]["start"]["line"], each["rule"])
        for each in found
        if each["severity"] == "error"
    }
    assert errors == {(2, "reportAttributeAccessIssue"), (4, "reportAttributeAccessIssue")}
