"""Fail when a file, a function or a half of the kernel is longer than a reader should have to bear.

Limits and the exceptions to them, each with its reason, are in `pyproject.toml` under
`[tool.amplifier.sizes]`. An exception has a limit of its own and must still be needed.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracked_files import tracked_files

KERNEL = Path("packages/core/src/amplifier_core")
KIT = ("validation", "testing.py", "pytest_plugin.py")
# What the kernel and its modules say to each other: reference that nobody reads in one go.
VOCABULARY = (
    "approval.py",
    "capabilities.py",
    "content_models.py",
    "display.py",
    "effects.py",
    "errors.py",
    "event_payloads.py",
    "events.py",
    "interfaces.py",
    "llm_errors.py",
    "message_models.py",
    "models.py",
    "module_sources.py",
    "redaction.py",
    "retry.py",
    "utils",
)


@dataclass
class Limits:
    """The limits in lines, and what may exceed them; remembers which exceptions were needed."""

    limits: dict[str, int]
    exceptions: dict[str, dict[str, Any]]
    needed: set[str] = field(default_factory=set[str])

    @classmethod
    def from_pyproject(cls, path: Path) -> Limits:
        """Read `[tool.amplifier.sizes]`."""
        table = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["amplifier"]["sizes"]
        exceptions = table.pop("exceptions", {})
        return cls(limits=table, exceptions=exceptions)

    def judge(self, kind: str, what: str, lines: int) -> Iterator[str]:
        """Yield a complaint when `what` has more lines than its kind, or its exception, allows."""
        limit = self.limits[kind]
        if lines > limit and what in self.exceptions:
            self.needed.add(what)
            limit = self.exceptions[what]["lines"]
        if lines > limit:
            yield f"{what}: {lines} lines, a {kind} has at most {limit}"

    def stale(self) -> Iterator[str]:
        """Yield a complaint for each exception that has no reason or is no longer needed."""
        for what, exception in self.exceptions.items():
            if not exception.get("reason"):
                yield f"{what}: its exception has no reason"
            if what not in self.needed:
                yield f"{what}: its exception is no longer needed"


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the dotted name and the number of lines of every function in `tree`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + node.name
            if not isinstance(node, ast.ClassDef):
                yield name, (node.end_lineno or node.lineno) - node.lineno + 1
            yield from functions(node, name + ".")
        elif not isinstance(node, ast.expr):  # an expression holds no function but a lambda
            yield from functions(node, prefix)


def half_of_kernel(path: Path) -> str | None:
    """Return the half of the kernel a source file counts towards; its test kit is in neither."""
    if not path.is_relative_to(KERNEL):
        return None
    part = path.relative_to(KERNEL).parts[0]
    if part in KIT:
        return None
    return "vocabulary" if part in VOCABULARY else "mechanism"


def check(root: Path) -> list[str]:
    """Return every complaint about the tree under `root`."""
    limits = Limits.from_pyproject(root / "pyproject.toml")
    kernel = {"mechanism": 0, "vocabulary": 0}
    complaints: list[str] = []
    for path in tracked_files(root):
        if path.suffix != ".py":
            continue
        text = (root / path).read_text(encoding="utf-8")
        lines = len(text.splitlines())
        complaints += limits.judge("file", str(path), lines)
        for name, length in functions(ast.parse(text, str(path))):
            complaints += limits.judge("function", f"{path}::{name}", length)
        half = half_of_kernel(path)
        if half is not None:
            kernel[half] += lines
    for half, lines in kernel.items():
        complaints += limits.judge(half, f"{KERNEL}: {half}", lines)
    return [*complaints, *limits.stale()]


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "sizes: ok")
    sys.exit(1 if found else 0)
