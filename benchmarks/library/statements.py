"""The size of the programs of examples/compare, in statements."""

from __future__ import annotations

import ast
from pathlib import Path

COMPARE = Path(__file__).resolve().parents[2] / "examples" / "compare"
# The mock models are not part of a program, and mistakes are not one.
_NOT_COUNTED = {"mistakes", "models"}


def statements_of(file: Path) -> int:
    """Return the number of statements of a program, without its docstrings."""
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    return sum(isinstance(each, ast.stmt) and not _is_docstring(each) for each in nodes)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def sizes() -> dict[str, tuple[int, int]]:
    """Return the statements of every program, with `amplifier` and with pydantic-ai."""
    found: dict[str, tuple[int, int]] = {}
    for ours in sorted(COMPARE.glob("*_amplifier.py")):
        program = ours.stem.removesuffix("_amplifier")
        other = ours.with_name(f"{program}_pydantic_ai.py")
        if program not in _NOT_COUNTED:
            found[program] = statements_of(ours), statements_of(other)
    return found


if __name__ == "__main__":
    for name, (one, two) in sizes().items():
        print(f"| `{name}` | {one} | {two} |")
