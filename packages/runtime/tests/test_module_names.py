"""No string of the runtime names a module: a plan does, and a module declares what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import amplifier_runtime

_SOURCES = sorted(Path(amplifier_runtime.__file__).parent.rglob("*.py"))
_MODULES = {each.name for each in entry_points(group="amplifier.modules")}
# The plan in the example that `make cluster` prints.
_EXAMPLE = "EXAMPLE"


def _strings(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        is_example = isinstance(statement, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == _EXAMPLE for each in statement.targets
        )
        if not is_example:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


@pytest.mark.parametrize("source", _SOURCES, ids=lambda path: path.stem)
def test_no_string_of_a_file_names_a_module(source: Path) -> None:
    assert "hooks-budget" in _MODULES
    tree = ast.parse(source.read_text(encoding="utf-8"))
    named = [(each, text) for text in _strings(tree) for each in _MODULES if each in text]
    assert named == []
