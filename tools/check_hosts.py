"""Fail when a file names where it was made: a package index, an artifact, a path of one machine.

A lock with a host in it works for whoever made it and for nobody else. So `constraints.txt` holds
names and versions only, and where packages come from is the business of each machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tracked_files import read_text, tracked_files

FORBIDDEN_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock*.toml", "pip.conf")
LOCK_LIKE = ("*.lock", "constraints*.txt", "requirements*.txt", "pyproject.toml", "uv.toml")
PINS_ONLY = "constraints*.txt"

# The page of a project is metadata; no package comes from there.
PROJECT_PAGE = '"https://github.com/microsoft/amplifier"'
ADDRESS = re.compile(r"\b(?:https?|file|ssh|git\+\w+)://\S*")
INDEX_OPTION = re.compile(
    r"^\s*-[if]\b|--(?:extra-)?index(?:-url)?\b|--find-links\b|--trusted-host\b"
    r"|\b(?:extra-)?index-url\s*=|\bfind-links\s*=|\[tool\.uv\.(?:index|sources)|\[\[tool\.uv\.index"
)
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[^\s@;]+(?: ; .+)?")
# A class of one letter keeps a pattern from matching the line that defines it.
MACHINE_PATH = re.compile(
    r"(?<![\w./:>~-])/(?:wor[k]|roo[t]|(?:home|Users)/(?!user\b)\w+)(?![\w-])"
)


def named(path: Path, patterns: tuple[str, ...]) -> bool:
    """Return whether the file's name fits one of the patterns."""
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def complaints_about(path: Path, text: str) -> Iterator[str]:
    """Yield what is wrong with one file."""
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}:{number}"
        if match := MACHINE_PATH.search(line):
            yield f"{where}: `{match[0]}` is a path of one machine"
        if not named(path, LOCK_LIKE):
            continue
        if match := ADDRESS.search(line.replace(PROJECT_PAGE, "")):
            yield f"{where}: `{match[0]}` is an address"
        if match := INDEX_OPTION.search(line):
            yield f"{where}: `{match[0].strip()}` chooses a package index"
        pinned = line.split("#", 1)[0].strip()
        if fnmatch(path.name, PINS_ONLY) and pinned and not PIN.fullmatch(pinned):
            yield f"{where}: `{pinned}` is not name==version"


def check(root: Path) -> list[str]:
    """Return every complaint about the tree under `root`."""
    complaints: list[str] = []
    for path in tracked_files(root):
        if named(path, FORBIDDEN_FILES):
            complaints.append(f"{path}: names hosts by construction; constraints.txt is the lock")
        complaints += complaints_about(path, read_text(root / path) or "")
    return complaints


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) or "hosts: ok")
    sys.exit(1 if found else 0)
