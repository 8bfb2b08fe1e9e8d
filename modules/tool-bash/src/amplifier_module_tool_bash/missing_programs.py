"""What to say about a command that failed because a program is not visible in the sandbox."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from amplifier_sandbox.platforms.opening import open_itself
from amplifier_sandbox.processes.toolchains import Toolchains

_CANNOT_RUN = 126
_NOT_FOUND = 127
_MOST_LINES = 20
_LONGEST_SHEBANG = 256
_SETTINGS = (
    "name its folder in `read_only_paths` of tool-bash, and variables that it needs in `pass_env`"
)
# As bash, dash and `env` write it.
_NAMES = (
    re.compile(r"([^\s:'‘]+): (?:command )?not found"),
    re.compile(r"['‘]([^'’]+)['’]: No such file or directory"),
    re.compile(r"([^\s:]+): bad interpreter: No such file or directory"),
    re.compile(r"([^\s:]+): (?:cannot execute: required file not found|No such file or directory)"),
)


def hint_for(exit_code: int, said: str, workspace: Path, toolchains: Toolchains) -> str | None:
    """Return one line that names the setting by which a missing program would be found.

    `said` is what the command has printed. Of the machine outside, the line reveals only what PATH
    has: whether any other path exists there is not looked up.
    """
    if exit_code not in (_CANNOT_RUN, _NOT_FOUND):
        return None
    # The last such line is about the program whose failure is the exit code.
    for line in reversed(said.splitlines()[-_MOST_LINES:]):
        for pattern in _NAMES:
            match = pattern.search(line)
            if match is not None:
                return _hint_about(match[1], workspace, toolchains)
    return None


def _hint_about(name: str, workspace: Path, toolchains: Toolchains) -> str | None:
    if "/" not in name:
        return _hint_about_path_entry(name, toolchains)
    needed = name if name.startswith("/") else _what_it_needs(name, workspace)
    visible = (Path("/usr"), Path("/bin"), workspace, *toolchains.shown)
    if needed is None or any(Path(needed).is_relative_to(each) for each in visible):
        return None
    return f"`{needed}` is not visible in the sandbox; if it exists outside, {_SETTINGS}."


def _what_it_needs(name: str, workspace: Path) -> str | None:
    """Return the path that a file of the workspace links to, or names as its interpreter."""
    folder = Path(os.path.realpath(workspace / os.path.dirname(name)))  # noqa: PTH120 - a string
    if not folder.is_relative_to(os.path.realpath(workspace)):
        return None
    program = folder / Path(name).name
    try:
        if program.is_symlink():
            return str(folder / program.readlink())
        # The command may have made it a link or a pipe by now.
        with os.fdopen(open_itself(program, os.O_RDONLY), "rb", buffering=0) as file:
            first = (file.read(_LONGEST_SHEBANG) or b"").partition(b"\n")[0]
    except (OSError, ValueError):
        return None
    words = first.decode(errors="replace").removeprefix("#!").split()
    if first.startswith(b"#!/") and words:
        return words[0]
    return None


def _hint_about_path_entry(name: str, toolchains: Toolchains) -> str | None:
    found = shutil.which(name)
    if found is None:
        return None
    folder = os.path.dirname(found)  # noqa: PTH120 - as PATH has it
    why = dict(toolchains.left_out).get(folder, "toolchains are not shown")
    return f"`{name}` is in `{folder}`, which is not visible in the sandbox: {why}; {_SETTINGS}."
