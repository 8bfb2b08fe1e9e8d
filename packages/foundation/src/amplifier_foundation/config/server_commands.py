"""Commands of MCP servers, and the code of a project that they would run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from amplifier_sandbox.processes.python_search import searches_folder

__all__ = ["command_of", "script_of", "servers_in", "unlisted_code"]

_RUNS_SCRIPTS = re.compile(
    r"(?:.*/)?(?:(?:python|pypy)[0-9.]*|node|deno|bun|ruby|perl|php|sh|bash|dash|zsh)"
)


def unlisted_code(values: Any) -> str:
    """Return why a project's servers cannot be trusted as they are written, or an empty text.

    `python -m name` looks for `name`, and like `python -c` for all that it imports, in the folder
    that it is started in; a file that is added there later would run.
    """
    for name, server in servers_in(values):
        if searches_folder(command_of(server)):
            return f"The server `{name}` has Python search this folder for code (use `python -P`)."
    return ""


def servers_in(values: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every server with a command, at whatever depth, with its name."""
    waiting: list[Any] = [values]
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, list):
            waiting += cast("list[Any]", value)
        elif isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            waiting += entry.values()
            for name, server in _mapping(entry.get("servers")).items():
                if _mapping(server).get("command"):
                    yield name, _mapping(server)


def command_of(server: dict[str, Any]) -> list[str]:
    """Return the command of a server with its arguments."""
    arguments: Any = server.get("args")
    if isinstance(arguments, list):
        given = cast("list[Any]", arguments)
    else:
        given = []
    return [str(part) for part in (server["command"], *given)]


def script_of(command: list[str]) -> str | None:
    """Return the file that a command runs as it is: the command, or the script of a language."""
    if _RUNS_SCRIPTS.fullmatch(command[0]):
        return next((part for part in command[1:] if not part.startswith("-")), None)
    if "/" in command[0]:
        return command[0]
    return None


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {}
