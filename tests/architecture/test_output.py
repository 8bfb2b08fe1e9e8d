"""Text from outside is never printed raw: only the writers print, and they make it visible."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLI = "packages/cli/src/amplifier_cli"
RUNTIME = "packages/runtime/src/amplifier_runtime"
PRINTING = [CLI, RUNTIME, "packages/foundation/src"]
# Where JSON is written for a reader; `json_text` of the kit is the one function for it.
WRITING_JSON = [CLI, f"{RUNTIME}/commands"]

# The writers, and what each of them may call.
WRITERS = {
    f"{CLI}/output.py": {"click.echo"},
    f"{RUNTIME}/commands/output.py": {"click.echo", "click.prompt"},
    # Runs before the package that makes text visible is known to be there.
    f"{CLI}/entry.py": {"sys.stderr.write"},
    # Draws into memory, and makes every piece visible.
    f"{CLI}/chat/line_renderer.py": {"Console"},
    # The spinner.
    f"{CLI}/terminal.py": {"Console"},
    # Writes the lines that the paper above has made.
    f"{CLI}/chat/terminal.py": {"write_raw"},
}
_OF_CLICK = {"echo", "secho", "style", "prompt", "confirm", "echo_via_pager", "pause"}
_STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
_ANYWHERE = {"Console", "write_raw", "print_exception", "print_exc", "print_stack", "print_last"}


def printing_calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield where something is printed, and by what."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("click", "sys"):
            for each in node.names:
                if each.name in _OF_CLICK | _STREAMS:
                    yield node.lineno, f"from {node.module} import {each.name}"
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.name in ("click", "sys", "json") and each.asname:
                    yield node.lineno, f"import {each.name} as"
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if _prints(name) or (name == "os.write" and _is_standard(node)):
                yield node.lineno, name if "." not in name or _is_whole(name) else _last(name)


def _is_standard(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and first.value in (1, 2)


def _is_whole(name: str) -> bool:
    return name.startswith(("click.", "sys.", "os."))


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _prints(name: str) -> bool:
    first, _, last = name.partition(".")
    if name in ("print", "input"):
        return True
    if first == "click" and last in _OF_CLICK:
        return True
    if first == "sys" and last.partition(".")[0] in _STREAMS:
        return last.endswith(("write", "writelines"))
    return _last(name) in _ANYWHERE


def dumps(tree: ast.AST) -> Iterator[int]:
    """Yield where JSON is written without the kit."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "json.dumps":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "json":
            yield node.lineno


def files(folders: list[str]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the source files below folders, with their paths from the root."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.attack("review H4")
def test_nothing_is_printed_but_by_the_writers() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, tree in files(PRINTING)
        for line, name in printing_calls(tree)
        if name not in WRITERS.get(path, set())
    ]

    assert found == []


@pytest.mark.attack("review H4")
def test_json_for_a_reader_is_written_by_one_function() -> None:
    found = [f"{path}:{line}" for path, tree in files(WRITING_JSON) for line in dumps(tree)]

    assert found == []


def test_every_writer_is_there_and_writes() -> None:
    written = {path: {name for _, name in printing_calls(tree)} for path, tree in files(PRINTING)}

    assert {path: written[path] for path in WRITERS} == WRITERS


@pytest.mark.parametrize(
    "code",
    [
        "print(x)",
        "click.echo(x, err=True)",
        "click.secho(x)",
        "click.confirm(x)",
        "f(click.style(x))",
        "sys.stdout.write(x)",
        "sys.stderr.buffer.write(x)",
        "sys.__stdout__.writelines(x)",
        "Console(stderr=True).print(x)",
        "rich.console.Console()",
        "traceback.print_exception(e)",
        "os.write(1, x)",
        "from click import echo",
        "from sys import stdout",
        "import click as c",
        "self._output.write_raw(x)",
        "input(x)",
    ],
)
def test_each_way_to_print_is_found(code: str) -> None:
    assert list(printing_calls(ast.parse(code)))


@pytest.mark.parametrize("code", ["json.dumps(x)", "from json import dumps", "f = json.dumps"])
def test_each_way_to_write_json_is_found(code: str) -> None:
    assert list(dumps(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["say(x)", "sys.stdout.isatty()", "file.write(x)", "click.Abort()"]
)
def test_what_does_not_print_is_not_found(code: str) -> None:
    assert not list(printing_calls(ast.parse(code)))
