"""Print the shape of the source: how much there is, and how much of it a reader meets in a turn.

It prints, it does not gate. Tests are not counted. A turn is traced for real: one `amplifier run`
of the default bundle with all its guards, a scripted model and one tool call.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from shape_source import Package, circles, repeated_names, source_packages
from shape_trace import Trace, trace_command, trace_example

_ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure the checkout that this file is in, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--static", action="store_true", help="without the traced runs")
    options = parser.parse_args()
    packages = source_packages(_ROOT)
    _print_sizes(packages)
    _print_style(packages)
    _print_circles(packages)
    _print_names(packages)
    if not options.static:
        _print_traces()


def _print_sizes(packages: list[Package]) -> None:
    print("## Size\n")
    print("| package | files | lines | statements |")
    print("|---|--:|--:|--:|")
    for each in packages:
        _print_size(each.name, [each])
    _print_size("all", packages)
    print()


def _print_size(name: str, packages: list[Package]) -> None:
    files = sum(len(each.files) for each in packages)
    lines = sum(each.lines for each in packages)
    statements = sum(each.statements for each in packages)
    print(f"| {name} | {files} | {lines:,} | {statements:,} |")


def _print_style(packages: list[Package]) -> None:
    lines = sum(each.lines for each in packages)
    print("## Style\n")
    for name, count, per in (
        ("comments per 100 lines", sum(each.comments for each in packages), 100),
        ("parallel assignments per 1,000", sum(each.parallel for each in packages), 1000),
        ("conditional expressions per 1,000", sum(each.conditional for each in packages), 1000),
    ):
        print(f"- {name}: {count * per / lines:.1f} ({count:,})")
    print()


def _print_circles(packages: list[Package]) -> None:
    found = circles(packages)
    print(f"## Import circles, with those for type checkers: {len(found)}\n")
    _print_list(" ⇄ ".join(each) for each in found)


def _print_names(packages: list[Package]) -> None:
    repeated = repeated_names(packages)
    inside = {name: places for name, places in repeated.items() if len(set(places)) < len(places)}
    print(f"## Class names that stand for several classes: {len(repeated)}\n")
    print(f"Inside one package: {len(inside)}\n")
    _print_list(f"{name}: {', '.join(places)}" for name, places in sorted(inside.items()))


def _print_traces() -> None:
    print("## What one run enters\n")
    print("| | files | lines in them | functions |")
    print("|---|--:|--:|--:|")
    command = trace_command(_ROOT)
    example = trace_example(_ROOT)
    _print_trace("`amplifier run`, whole", command, "whole")
    _print_trace("its turn", command, "turn")
    _print_trace("`examples/hello.py`, its turn", example, "turn")
    files = command.spine
    lines = sum(_lines_of(_ROOT / each) for each in files)
    print(f"\n## The spine of a prompt: {len(files)} files, {lines:,} lines\n")
    print("On the stack, from the command to the model, to the tool and to the log:\n")
    _print_list(files)


def _print_trace(name: str, trace: Trace, part: str) -> None:
    entered = trace.entered[part]
    lines = sum(_lines_of(_ROOT / each) for each in entered)
    functions = sum(entered.values())
    print(f"| {name} | {len(entered)} | {lines:,} | {functions:,} |")


def _lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _print_list(items: Iterable[str]) -> None:
    lines = [f"- {each}" for each in items]
    print("\n".join(lines) + ("\n" if lines else ""))


if __name__ == "__main__":
    main()
