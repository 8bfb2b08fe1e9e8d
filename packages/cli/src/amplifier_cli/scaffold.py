"""A new module from the templates that are shipped with this package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from amplifier_cli.failures import CommandError

__all__ = ["KINDS", "kind_of", "scaffold"]

_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = ".template"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


class Kind(NamedTuple):
    """What differs between the kinds in the files that they share."""

    suite: str
    things: str
    summary: str
    dependencies: tuple[str, ...]


_KIT = ("amplifier-core", "amplifier-kit")
KINDS = {
    "provider": Kind("Provider", "providers", "access to the models of one vendor", _KIT),
    "tool": Kind("Tool", "tools", "a tool for the model", (*_KIT, "pydantic>=2.12")),
    "loop": Kind(
        "Orchestrator",
        "orchestrators",
        "a loop from prompt to answer",
        ("amplifier-core", "amplifier-kit", "amplifier-module-loops"),
    ),
    "context": Kind("Context", "contexts", "a memory", (*_KIT, "pydantic>=2.12")),
    "hooks": Kind("Hook", "hooks", "a guard over tool calls", ("amplifier-core", "pydantic>=2.12")),
}


def kind_of(module_id: str) -> str:
    """Return the kind that a module id begins with.

    Raises:
        CommandError: it is no module id.
    """
    kind, _, name = module_id.partition("-")
    if kind not in KINDS or not _NAME.fullmatch(name):
        raise CommandError(
            f"`{module_id}` is no name for a module.",
            why=f"It begins with {', '.join(f'{each}-' for each in KINDS)} and goes on in lower "
            "case letters, digits and dashes.",
            fix="amplifier module new tool-weather",
        )
    return kind


def scaffold(module_id: str, parent: Path) -> list[Path]:
    """Write a new module into `parent`, and return its files.

    Raises:
        CommandError: the id is none, or there is something of that name already.
    """
    kind = kind_of(module_id)
    folder = parent / module_id
    if folder.exists():
        raise CommandError(
            f"{folder} is there already.",
            why="Nothing was written, so that nothing is lost.",
            fix=f"amplifier module new {module_id} --dir another-folder",
        )
    words = _words(kind, module_id)
    written: list[Path] = []
    for root in (_TEMPLATES / "every", _TEMPLATES / kind):
        for template in sorted(root.rglob(f"*{_SUFFIX}")):
            relative = str(template.relative_to(root)).removesuffix(_SUFFIX)
            target = folder / relative.replace("PACKAGE", words["package"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(template.read_text("utf-8"), words), "utf-8")
            written.append(target)
    return sorted(written)


def _words(kind: str, module_id: str) -> dict[str, str]:
    about = KINDS[kind]
    name = module_id.removeprefix(f"{kind}-")
    return {
        "id": module_id,
        "name": name,
        "Name": "".join(part.capitalize() for part in name.split("-")),
        "snake": name.replace("-", "_"),
        "package": f"amplifier_module_{module_id.replace('-', '_')}",
        "Suite": about.suite,
        "things": about.things,
        "summary": about.summary,
        "Summary": about.summary[0].upper() + about.summary[1:],
        "dependencies": ", ".join(f'"{each}"' for each in about.dependencies),
    }


def _filled(text: str, words: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)
