"""Fail when a copy of a version or of a list differs from its source; with `--write`, rewrite it.

`[tool.amplifier.versions]` in the root `pyproject.toml` has the product's version and the version
of the public contract that the kernel implements. Everything else is a copy: an sdist must build
without the rest of the repository, so each distribution states its own version and pins its
siblings. For the same reason it has its own copy of `[tool.amplifier.metadata]` and of the licence.
The lists of distributions that a developer installs and the type checker reads are made from the
folders on disk.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

KERNEL = "amplifier-core"
# The label sorts our kernel after the release it implements, and no public index takes it.
LABEL = "independent"

LICENCE = Path("LICENSE")
CONSTRAINTS = Path("constraints.txt")
SHIPPED_CONSTRAINTS = Path("packages/foundation/src/amplifier_foundation/constraints.txt")
OWN_HEADING = "# Our own distributions; made by `make versions`.\n"
SHIPPED_HEADING = "# What belongs together, for `pip install -c`; made by `make versions`.\n"

PROJECT_VERSION = re.compile(r'^version = "[^"]*"', re.MULTILINE)
# What stands between the licence and the dependencies of a project is made here.
METADATA = re.compile(r'^license = "MIT"\n(?:.*\n)*?(?=dependencies = )', re.MULTILINE)
CODE_VERSION = re.compile(r'^__version__ = "[^"]*"', re.MULTILINE)
ENVIRONMENTS = re.compile(r"^executionEnvironments = \[\n(?:    .*\n)*\]\n", re.MULTILINE)
EDITABLES = re.compile(r"(?:^-e \./.*\n)+", re.MULTILINE)
SIBLING = re.compile(r'"(amplifier-[a-z-]+|amplifier(?=\[))(\[[a-z,-]+\])?(?:[<>=!~][^"]*)?"')


class Distribution(NamedTuple):
    """One distribution of this repository: its project file, its package, and its version."""

    name: str
    version: str
    project: Path
    package: Path


def distributions(root: Path) -> list[Distribution]:
    """Return every distribution with the version it should have, by name."""
    settings = _toml(root / "pyproject.toml")["tool"]["amplifier"]["versions"]
    product: str = settings["product"]
    kernel = f"{settings['contract']}+{LABEL}.{product}"
    found: list[Distribution] = []
    packages = root.glob("packages/*/pyproject.toml")
    modules = root.glob("modules/*/pyproject.toml")
    for project in (*packages, *modules):
        name: str = _toml(project)["project"]["name"]
        package = next(project.parent.glob("src/*/__init__.py"))
        version = kernel if name == KERNEL else product
        found.append(Distribution(name, version, project, package))
    return sorted(found)


def copies(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield each file that has a copy, its text, and the text it should have."""
    ours = distributions(root)
    versions = {each.name: each.version for each in ours}
    metadata = _metadata(_toml(root / "pyproject.toml")["tool"]["amplifier"]["metadata"])
    licence = _text(root / LICENCE)
    for each in ours:
        text = _text(each.project)
        described = METADATA.sub(lambda _: metadata, text)
        yield each.project, text, _project_with(described, each.version, versions)
        own_licence = each.project.parent / LICENCE
        yield own_licence, _text_if_any(own_licence), licence
        code = _text(each.package)
        yield each.package, code, CODE_VERSION.sub(f'__version__ = "{each.version}"', code)
    pins = "".join(f"{name}=={version}\n" for name, version in versions.items())
    constraints = _text(root / CONSTRAINTS)
    others = constraints.partition(OWN_HEADING)[0]
    yield root / CONSTRAINTS, constraints, others + OWN_HEADING + pins
    shipped = root / SHIPPED_CONSTRAINTS
    yield shipped, _text_if_any(shipped), SHIPPED_HEADING + pins
    yield from _lists(root, [each.project.parent.relative_to(root) for each in ours])


def _lists(root: Path, folders: list[Path]) -> Iterator[tuple[Path, str, str]]:
    """Yield the files with a list of all distributions, as `copies` does."""
    ordered = sorted(folders, key=lambda folder: (folder.parts[0] == "modules", folder))
    project = root / "pyproject.toml"
    tests = [_environment("tests", ["tools"])]
    tests += [_environment(f"{folder}/tests", ["tests"]) for folder in ordered]
    environments = "executionEnvironments = [\n" + "".join(tests) + "]\n"
    text = _text(project)
    yield project, text, ENVIRONMENTS.sub(lambda _: environments, text)
    requirements = root / "requirements-dev.txt"
    editables = "".join(f"-e ./{folder}\n" for folder in ordered)
    text = _text(requirements)
    yield requirements, text, EDITABLES.sub(lambda _: editables, text)


def _environment(folder: str, extra_paths: list[str]) -> str:
    extra = ", ".join(f'"{each}"' for each in extra_paths)
    return f'    {{ root = "{folder}", extraPaths = [{extra}], reportPrivateUsage = false }},\n'


def _project_with(text: str, version: str, versions: dict[str, str]) -> str:
    def pinned(match: re.Match[str]) -> str:
        name, extras = match[1], match[2] or ""
        return f'"{name}{extras}=={versions[name]}"' if name in versions else match[0]

    head, separator, rest = text.partition("\ndependencies = ")
    head = PROJECT_VERSION.sub(f'version = "{version}"', head, count=1)
    # A tool's settings name distributions too, without a version.
    requirements, tool, settings = rest.partition("\n[tool.")
    return head + separator + SIBLING.sub(pinned, requirements) + tool + settings


def _metadata(settings: dict[str, Any]) -> str:
    """Return the lines of a project file that every distribution has."""
    authors = ", ".join(f"{{ name = {json.dumps(name)} }}" for name in settings["authors"])
    classifiers = "".join(f"    {json.dumps(each)},\n" for each in settings["classifiers"])
    urls = ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in settings["urls"].items())
    return (
        'license = "MIT"\n'
        'license-files = ["LICENSE"]\n'
        f"authors = [{authors}]\n"
        f"keywords = {json.dumps(settings['keywords'])}\n"
        f"classifiers = [\n{classifiers}]\n"
        f"urls = {{ {urls} }}\n"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _text_if_any(path: Path) -> str:
    return _text(path) if path.is_file() else ""


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(_text(path))


def main(arguments: list[str]) -> int:
    """Compare, or rewrite with `--write`; returns 1 when a copy differs."""
    write = "--write" in arguments
    folders = [argument for argument in arguments if not argument.startswith("-")]
    differing: list[Path] = []
    for path, text, expected in copies(Path(folders[0] if folders else ".")):
        if text == expected:
            continue
        if write:
            path.write_text(expected, encoding="utf-8")
        else:
            differing.append(path)
    for path in differing:
        print(f"{path}: it is not what the project files say; run `make versions`")
    if not differing:
        print("versions: ok")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
