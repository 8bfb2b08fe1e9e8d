"""The two environments: the library from the working tree, pydantic-ai from the package index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from benchmarks.kernel.environments import ROOT, prepare
from benchmarks.library.statements import COMPARE

_PREFIX = "amplifier"
_NAME = re.compile(r"[\w.-]+")


def prepare_amplifier() -> Path:
    """Build the environment of the library, editable; return its interpreter."""
    folders = _folders_below("amplifier")
    definitions = [(folder / "pyproject.toml").read_text("utf-8") for folder in folders]
    arguments = [part for folder in folders for part in ("--editable", str(folder))]
    return prepare("library", arguments, state=definitions)


def prepare_pydantic_ai() -> Path:
    """Build the environment of examples/compare; return its interpreter."""
    requirements = COMPARE / "requirements.txt"
    return prepare(
        "pydantic-ai",
        ["--requirement", str(requirements)],
        state=[requirements.read_text("utf-8")],
    )


def _folders_below(distribution: str) -> list[Path]:
    """Return the folders of a distribution and of all of ours that it needs."""
    projects = {
        project["name"]: (path.parent, project)
        for path in sorted(ROOT.glob("*/*/pyproject.toml"))
        for project in [tomllib.loads(path.read_text("utf-8"))["project"]]
    }
    found: dict[str, Path] = {}
    open_names = [distribution]
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        found[name], project = projects[name]
        needed = [_NAME.match(each) for each in project["dependencies"]]
        open_names += [each[0] for each in needed if each and each[0].startswith(_PREFIX)]
    return list(found.values())


if __name__ == "__main__":
    print(prepare_pydantic_ai())
