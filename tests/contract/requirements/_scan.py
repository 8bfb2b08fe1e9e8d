"""Find out, without importing any test, which test carries which requirement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

_TEST_FOLDERS = ("packages/*/tests", "modules/*/tests", "tests")
_IDLE_MARKS = frozenset({"skip", "xfail"})

_Decorated = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Carrier:
    """One use of the decorator: where it stands, what it names and what is wrong with it."""

    place: str
    ids: tuple[str, ...]
    problem: str | None = None


def files_of_tests(root: Path = ROOT) -> list[Path]:
    """List every test file of the repository, sorted."""
    found = {
        file
        for pattern in _TEST_FOLDERS
        for folder in root.glob(pattern)
        for file in folder.rglob("test_*.py")
    }
    return sorted(found)


@cache
def carriers(root: Path = ROOT) -> tuple[Carrier, ...]:
    """Give every use of `@requirement(...)` in the test files of the repository."""
    return tuple(carrier for file in files_of_tests(root) for carrier in carriers_in(file, root))


def carriers_in(file: Path, root: Path = ROOT) -> Iterator[Carrier]:
    """Give the uses of `@requirement(...)` in one file."""
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    for node in ast.walk(tree):
        if isinstance(node, _Decorated):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _name(decorator.func) == "requirement":
                    place = f"{file.relative_to(root)}:{node.lineno} {node.name}"
                    yield _carrier(place, node, decorator)


def _carrier(place: str, node: _Decorated, decorator: ast.Call) -> Carrier:
    literals = [
        argument.value
        for argument in decorator.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    problem = None
    if len(literals) != len(decorator.args) or decorator.keywords:
        problem = "IDs must be string literals"
    elif not node.name.lower().startswith("test"):
        problem = "only a test can carry a requirement"
    elif any(_name(_callee(other)) in _IDLE_MARKS for other in node.decorator_list):
        problem = "a test that is skipped or expected to fail proves nothing"
    return Carrier(place, tuple(literals), problem)


def _callee(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _name(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
