"""No string in a package names a module: a property, a capability or a key says what is needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from modules_on_disk import modules

ROOT = Path(__file__).parents[2]
IDS = {each.module_id for each in modules(ROOT)}
FOUNDATION = "packages/foundation/src/amplifier_foundation"
JOURNAL = "packages/journal/src/amplifier_journal"

# Where a module is named all the same, and why.
NAMED = {
    "packages/core/src/amplifier_core/_mounting.py": "the defaults that the contract fixes",
    f"{FOUNDATION}/bundles/agents.py": "which tools an agent lacks that may ask no other agent",
    f"{FOUNDATION}/bundles/mount_plan.py": "whose folders are part of what the user trusts",
    f"{FOUNDATION}/bundles/providers.py": "which provider a key or an address stands for",
    f"{FOUNDATION}/config/project_rules.py": "the table of what a project may set, by module",
    f"{FOUNDATION}/guards.py": "the guards that are shipped",
    f"{JOURNAL}/replay/replayer.py": "whose file a replay must not touch",
    f"{FOUNDATION}/session_options.py": "which hooks `--budget` and `--allow` configure",
}


def names_in(source: str) -> Iterator[str]:
    """Yield each module that a string constant of a file is the id of."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in IDS:
            yield str(node.value)


def test_only_listed_files_of_the_packages_name_a_module() -> None:
    files = ROOT.glob("packages/*/src/**/*.py")
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        if any(names_in(path.read_text(encoding="utf-8")))
    }

    assert naming == set(NAMED)


def test_a_module_is_found_wherever_a_string_names_it() -> None:
    source = 'OWN = {"tool-bash": 1}\ndef find(module="loop-basic"):\n    """Like tool-web."""\n'

    assert sorted(names_in(source)) == ["loop-basic", "tool-bash"]
