"""The modules of this repository: one distribution each, or several in a family that share code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ENTRY_POINTS = "amplifier.modules"


class Module(NamedTuple):
    """One module, as the project file of its distribution declares it."""

    module_id: str
    folder: Path
    package: str
    summary: str

    @property
    def is_of_family(self) -> bool:
        """Whether its distribution has other modules, too."""
        return self.folder.name != self.module_id

    @property
    def readme(self) -> Path:
        """The page about this module."""
        return self.folder / (f"{self.module_id}.md" if self.is_of_family else "README.md")

    @property
    def source(self) -> Path:
        """The folder of its package."""
        return self.folder / "src" / self.package.replace(".", "/")

    @property
    def tests(self) -> Path:
        """The folder of its own tests."""
        name = self.module_id.replace("-", "_")
        return self.folder / "tests" / name if self.is_of_family else self.folder / "tests"


def distribution_folders(root: Path) -> list[Path]:
    """Return the folders of all distributions of modules."""
    return sorted(path.parent for path in root.glob("modules/*/pyproject.toml"))


def modules(root: Path) -> list[Module]:
    """Return every module below `root`, by id."""
    found: list[Module] = []
    for folder in distribution_folders(root):
        declared = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        project: dict[str, Any] = declared["project"]
        tools: dict[str, Any] = declared.get("tool", {})
        summaries: dict[str, str] = tools.get("amplifier", {}).get("summaries", {})
        for module_id, entry_point in project["entry-points"][ENTRY_POINTS].items():
            package = entry_point.partition(":")[0]
            summary = summaries.get(module_id) or str(project["description"])
            found.append(Module(module_id, folder, package, summary))
    return sorted(found)
