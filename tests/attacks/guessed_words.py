"""Trust and loader as they once were, each with its own reading of a source.

Kept to show that the generator of `tools/fuzz_sources.py` finds what was wrong with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from amplifier_foundation.sources.errors import SourceFormatError
from amplifier_foundation.sources.uri import parse_source

_VARIABLE = re.compile(r"\$\{(\w+)(?::([^}]*))?\}")
_MAX_CHARS = 1_000


def guessed(source: Any, project: Path) -> set[Path]:
    """Return the folders of the project that were listed: whatever word looked like a path."""
    found: set[Path] = set()
    for text in _texts(source):
        for word in _words(text):
            if word and os.path.isdir(project / word):  # noqa: PTH112 - never raises
                found.add((project / word).resolve())
    return {each for each in found if each.is_relative_to(project) and each.name != ".git"}


def opened(source: Any, project: Path) -> Path | None:
    """Return the folder that was loaded, if there was one."""
    try:
        if isinstance(source, str):
            if source.startswith("."):
                source = str((project / source).resolve())
            source = _VARIABLE.sub(lambda match: os.environ.get(match[1], match[2] or ""), source)
        parsed = parse_source(source)
        path = (project / Path(parsed.location).expanduser()).resolve()
    except (SourceFormatError, OSError, RuntimeError, ValueError):
        return None
    return path if parsed.kind == "path" and path.is_dir() else None


def _texts(source: Any) -> list[str]:
    values: list[Any] = [source]
    if isinstance(source, dict):
        values = list(cast("dict[str, Any]", source).values())
    return [each for each in values if isinstance(each, str) and len(each) <= _MAX_CHARS]


def _words(text: str) -> Iterator[str]:
    plain = _VARIABLE.sub(lambda match: match[2] or "", text).removeprefix("file://")
    for word in dict.fromkeys((plain, *plain.split())):
        path = word.partition("#")[0].removeprefix("@")
        yield path
        if ":" in path:
            yield path.partition(":")[2]
