"""Which module an object comes from, by the name of its package."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["module_of", "package_of"]

# `amplifier_module_tool_bash.tool`, or `amplifier_module_files.tool_search.tools` where several
# modules are in one distribution.
_FAMILY = re.compile(r"amplifier_module_[a-z]+\.((?:context|hooks|loop|provider|tool)_\w+)")
_SINGLE = re.compile(r"amplifier_module_(\w+)")


def module_of(thing: Any) -> str | None:
    """Return the id of the module an object comes from; None for other code."""
    name = type(thing).__module__
    found = _FAMILY.match(name) or _SINGLE.match(name)
    if found is None:
        return None
    return found[1].replace("_", "-")


def package_of(thing: Any) -> str:
    """Return the id of the module an object comes from, else the package it is defined in."""
    return module_of(thing) or type(thing).__module__.partition(".")[0].replace("_", "-")
