"""Hints about accidents in honest code: what a module does when it is merely imported.

This is not a protection against malicious code. Code is read, not run, and whoever wants to hide
what it does has many ways to (a class with a special method, a thread, a name put together at run
time). No hint means that nothing was noticed, never that a module can be trusted. No decision
depends on it: trust, the lock and its pins decide what is loaded.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from amplifier_foundation.sources.content import files_of
from amplifier_foundation.sources.import_time import SourceCode

__all__ = ["WHAT_HINTS_ARE", "Finding", "inspect_module"]

WHAT_HINTS_ARE = (
    "Hints are about accidents, such as work that is done at import. They do not protect you from "
    "code that is meant to do harm, which is not found: pin only what you trust."
)

_COMPILED = (".so", ".pyd", ".dll", ".dylib", ".pyc", ".pyo")
# Run by Python itself, at every start.
_AT_START = ("sitecustomize.py", "usercustomize.py")
_COMMAND = re.compile(
    r"amplifier|(python|pip)[0-9.]*|uvx?|pipx|git|ssh|scp|sudo|su|doas|env|sh|bash|zsh|fish|dash"
    r"|ls|cat|cp|mv|rm|cd|echo|printf|grep|sed|awk|find|xargs|tar|make|curl|wget|node|npm|npx"
    r"|docker|kubectl|gh|vi|vim|nano|less|man|true|false|test|kill|ps|whoami|login|passwd"
)
_SCRIPT_TABLES = ("scripts", "gui-scripts")
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")


class Finding(NamedTuple):
    """One thing that its author may not have meant; `str()` is how it is shown."""

    kind: str
    place: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.place}: {self.detail}"


def inspect_module(folder: Path) -> list[Finding]:
    """Return what was noticed in a module's folder that acts before the module is mounted.

    It notices `.pth` and `sitecustomize` files, commands that hide well-known ones, code that
    cannot be read, and calls at import time that start processes, reach the network or run made-up
    code, also through functions of the module that are called then. Tests, examples and scripts in
    the folder count too, since they can be imported. It misses most of what somebody would do on
    purpose; see above.
    """
    files = list(files_of(folder))
    found = [finding for name, _ in files for finding in _of_name(name)]
    found += _shadowing(files)
    code = SourceCode((name, path) for name, path in files if name.endswith(".py"))
    found += [Finding("unreadable code", name, why) for name, why in code.unreadable]
    found += [
        Finding(f"import-time {act.kind}", f"{act.file}:{act.line}", act.call)
        for act in code.acts_at_import()
    ]
    return sorted(set(found), key=lambda finding: (finding.place, finding))


def _of_name(name: str) -> Iterator[Finding]:
    path = PurePosixPath(name)
    if path.suffix == ".pth":
        yield Finding("path file", name, "Python runs its lines at every start")
    elif path.name in _AT_START:
        yield Finding("start-up file", name, "Python runs it at every start")
    elif path.suffix.lower() in _COMPILED or ".so." in path.name:
        yield Finding("compiled code", name, "it cannot be read")
    elif path.parent.match("*.data/scripts") and _COMMAND.fullmatch(path.name):
        yield Finding("script shadowing", name, f"it hides the command `{path.name}`")


def _shadowing(files: Iterable[tuple[str, Path]]) -> Iterator[Finding]:
    for name, path in files:
        try:
            if PurePosixPath(name).name == "pyproject.toml":
                commands = _of_project(path)
            elif name.endswith(".dist-info/entry_points.txt"):
                commands = _of_distribution(path)
            else:
                continue
        except (ValueError, configparser.Error) as error:
            yield Finding("unreadable metadata", name, str(error).partition("\n")[0])
            continue
        for command in commands:
            if _COMMAND.fullmatch(command):
                yield Finding("script shadowing", name, f"it hides the command `{command}`")


def _of_project(path: Path) -> list[str]:
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return [command for table in _SCRIPT_TABLES for command in project.get(table, {})]


def _of_distribution(path: Path) -> list[str]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign] - names keep their case
    parser.read_string(path.read_text(encoding="utf-8"))
    groups = [group for group in _SCRIPT_GROUPS if parser.has_section(group)]
    return [command for group in groups for command in parser.options(group)]
