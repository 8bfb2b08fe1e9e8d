"""What a project's files may say in a module's configuration, key by key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from amplifier_foundation.config.module_keys import MODULE_KEYS, MODULE_VARIABLES, Key

__all__ = ["USER_ONLY", "may_use", "why_withheld"]

USER_ONLY = "only your own settings may say that."
_OUTSIDE = "it leads out of the project; your own settings may say that."
_SECRET = "it may hold a secret; your own settings may pass it on."

# Variables that are known to hold no secret and no address. Any other might: a name says little.
_HARMLESS = frozenset(
    [
        "AMPLIFIER_HOME",
        "CI",
        "COLORTERM",
        "EDITOR",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "NO_COLOR",
        "PAGER",
        "PWD",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "VISUAL",
    ]
)
_HARMLESS_NAME = re.compile(r"LC_[A-Z]+|XDG_[A-Z]+_(?:HOME|DIR|DIRS)")
# Where a system keeps its programs; a project's command may name one of them by its path.
_OF_SYSTEM = tuple(Path(each) for each in ("/usr", "/bin", "/sbin", "/opt"))


def may_use(name: str, module: str | None, key: Key | None) -> bool:
    """Tell whether a variable expands in a value of a project's file.

    It does when it is harmless, or when it belongs to the module: for one of ours, in the keys
    that are there for it; for another, when it begins with the module's name.
    """
    if _is_harmless(name):
        return True
    if module is None:
        return False
    if module in MODULE_KEYS:
        ending = {"secret": "_KEY", "address": "_URL"}.get("" if key is None else key.kind)
        owned = name in MODULE_VARIABLES.get(module, ())
        return owned and ending is not None and name.endswith(ending)
    own = module.partition("-")[2].replace("-", "_").upper()
    return bool(own) and name.startswith(f"{own}_")


def why_withheld(key: Key, value: Any, own: Any, project: Path) -> str | None:
    """Return why a project's value is not used, or None when it is.

    `own` is the user's value in the same place.
    """
    if key.kind == "user":
        return USER_ONLY
    if key.kind == "only":
        return None if value in key.values else USER_ONLY
    if key.kind == "lower":
        return None if _is_lower(value, own, key.values) else USER_ONLY
    if key.kind == "path" and isinstance(value, str):
        return _OUTSIDE if _leaves(value, project) else None
    if key.kind == "command" and isinstance(value, str):
        return _OUTSIDE if _names_other_code(value, project) else None
    if key.kind == "variables":
        return None if isinstance(value, str) and _is_harmless(value) else _SECRET
    return None


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or _HARMLESS_NAME.fullmatch(name) is not None


def _is_lower(value: Any, own: Any, default: tuple[Any, ...]) -> bool:
    try:
        limit = own if isinstance(own, str | int | float) else default[0] if default else None
        number = float(value)
        return number >= 0 and (limit is None or number <= float(limit))
    except (TypeError, ValueError):
        return False


def _leaves(text: str, project: Path) -> bool:
    """Tell whether a path leads out of the project: from its text, or by a link on the way."""
    if text.startswith("~") or "\0" in text or ".." in Path(text).parts:
        return True
    try:
        real = (project / text).resolve()
        # What is written below `.git` may be run by git.
        of_git = ".git" in (part.lower() for part in real.parts)
        return of_git or not real.is_relative_to(project.resolve())
    except (OSError, RuntimeError):
        return True


def _names_other_code(text: str, project: Path) -> bool:
    """Tell whether a command, or one of its arguments, is a path to something elsewhere."""
    for part in (text, text.partition("=")[2]):
        path = Path(part)
        if not (part.startswith(("/", "~")) or ".." in path.parts or "/" in part):
            continue
        of_system = ".." not in path.parts and any(path.is_relative_to(e) for e in _OF_SYSTEM)
        if not of_system and "://" not in part and _leaves(part, project):
            return True
    return False
