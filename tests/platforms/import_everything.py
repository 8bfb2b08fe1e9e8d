"""Imports every module of every distribution of ours; prints those that cannot be imported."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def names() -> list[str]:
    """Return the name of every module below the source folders."""
    found: list[str] = []
    for folder in sorted([*ROOT.glob("packages/*/src"), *ROOT.glob("modules/*/src")]):
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in found if not name.endswith("__main__")]


def main() -> int:
    """Import all of them; return how many failed."""
    failed = 0
    every = names()
    for name in every:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - also a module that ends the process is a finding
            failed += 1
            sys.stdout.write(f"{name}\n{traceback.format_exc()}\n")
    sys.stdout.write(f"{len(every) - failed} of {len(every)} modules imported\n")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
