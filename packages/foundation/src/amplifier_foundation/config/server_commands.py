"""Commands of MCP servers that would run code of a project which no list can name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

__all__ = ["servers_in", "unlisted_code"]

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def unlisted_code(values: Any) -> str:
    """Return why a project's servers cannot be trusted as they are written, or an empty text.

    `python -m name` looks for `name`, and like `python -c` for all that it imports, in the folder
    that it is started in; a file that is added there later would run.
    """
    for name, server in servers_in(values):
        command = [server.get("command"), *_list(server.get("args"))]
        if searches_folder([str(part) for part in command]):
            return f"The server `{name}` has Python search this folder for code (use `python -P`)."
    return ""


def servers_in(values: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every server that a module's `config.servers` starts, with its name."""
    waiting: list[Any] = [values]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, list):
            waiting += cast("list[Any]", value)
        elif isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            waiting += entry.values()
            servers = entry.get("servers")
            for name, server in _mapping(servers).items():
                if _mapping(server).get("command"):
                    yield name, _mapping(server)


def searches_folder(command: list[str]) -> bool:
    """Tell whether a command has Python look for modules in the folder that it is started in."""
    while command and (_is_env(command[0]) or "=" in command[0]):
        command = command[1:]
    if not command or not _PYTHON.fullmatch(command[0]):
        return False
    rest = iter(command[1:])
    for part in rest:
        if not part.startswith("-") or part == "-":
            return False
        letters = "" if part.startswith("--") else part[1:]
        before = letters.partition("m")[0].partition("c")[0]
        if part[:2] not in ("-W", "-X") and ("P" in before or "I" in before):
            return False
        if part in _WITH_VALUE:
            next(rest, None)
        elif part[:2] not in ("-W", "-X") and ("m" in letters or "c" in letters):
            return True
    return False


def _is_env(part: str) -> bool:
    return part.rpartition("/")[2] == "env"


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
