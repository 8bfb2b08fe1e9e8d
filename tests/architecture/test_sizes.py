"""The size gate: this repository passes it, and each planted excess is reported by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KERNEL = "packages/core/src/amplifier_core"


def lines(count: int) -> str:
    return "x = 1\n" * count


def function(count: int) -> str:
    return "def long() -> None:\n" + "    x = 1\n" * (count - 1)


@pytest.mark.slow  # `make check` runs the gate itself
def test_this_repository_is_small_enough_to_read(run_tool: Callable[..., Any], root: Path) -> None:
    result = run_tool("sizes", root)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"a.py": lines(601)}, "a.py: 601 lines, a file has at most 600"),
        ({"a.py": function(81)}, "a.py::long: 81 lines, a function has at most 80"),
        (
            {f"{KERNEL}/f{n}.py": lines(400) for n in range(9)},
            f"{KERNEL}: mechanism: 3600 lines, a mechanism has at most 3200",
        ),
        (
            {f"{KERNEL}/utils/f{n}.py": lines(400) for n in range(9)},
            f"{KERNEL}: vocabulary: 3600 lines, a vocabulary has at most 2500",
        ),
    ],
)
def test_each_excess_is_reported(
    run_tool: Callable[..., Any],
    plant: Callable[[str, str], None],
    files: dict[str, str],
    complaint: str,
) -> None:
    for path, text in files.items():
        plant(path, text)

    result = run_tool("sizes")

    assert result.returncode == 1
    assert result.stdout == complaint + "\n"


def test_what_just_fits_passes(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    plant("a.py", lines(600))
    plant("b.py", function(80))
    for number in range(8):
        plant(f"{KERNEL}/f{number}.py", lines(400))
    plant(f"{KERNEL}/models.py", lines(600))
    for number in range(9):
        plant(f"{KERNEL}/validation/f{number}.py", lines(400))
    plant(f"{KERNEL}/testing.py", lines(400))
    plant(f"{KERNEL}/pytest_plugin.py", lines(400))

    result = run_tool("sizes")

    assert result.returncode == 0, result.stdout


def test_a_method_is_named_by_its_class(
    run_tool: Callable[..., Any], plant: Callable[[str, str], None]
) -> None:
    plant("a.py", "class Loop:\n    async def run(self) -> None:\n" + "        x = 1\n" * 80)

    result = run_tool("sizes")

    assert "a.py::Loop.run: 81 lines" in result.stdout


@pytest.mark.parametrize(
    ("exception", "complaint"),
    [
        ('"a.py" = { lines = 650, reason = "a table" }', ""),
        ('"a.py" = { lines = 605, reason = "a table" }', "at most 605"),
        ('"a.py" = { lines = 650, reason = "" }', "a.py: its exception has no reason"),
        (
            '"a.py" = { lines = 650, reason = "a table" }\n"b.py" = { lines = 9, reason = "gone" }',
            "b.py: its exception is no longer needed",
        ),
    ],
)
def test_an_exception_has_a_limit_a_reason_and_a_use(
    repository: Path,
    run_tool: Callable[..., Any],
    plant: Callable[[str, str], None],
    exception: str,
    complaint: str,
) -> None:
    pyproject = (repository / "pyproject.toml").read_text(encoding="utf-8")
    plant("pyproject.toml", f"{pyproject}\n[tool.amplifier.sizes.exceptions]\n{exception}\n")
    plant("a.py", lines(610))

    result = run_tool("sizes")

    assert result.returncode == (1 if complaint else 0)
    assert complaint in result.stdout
