"""The package indexes that this machine can reach: those that its pip and npm are set to."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

from toolchains.user_home import SECRET, UserHome, write


class Indexes(NamedTuple):
    """The address of each; empty for the manager's own default."""

    pip: str
    npm: str


def find_indexes() -> Indexes:
    """Ask pip and npm."""
    return Indexes(
        _answer(sys.executable, "-m", "pip", "config", "get", "global.index-url"),
        _answer("npm", "config", "get", "registry"),
    )


def set_indexes(home: UserHome, indexes: Indexes) -> None:
    """Give the user of `home` the same settings, with a token in one of them."""
    if indexes.pip:
        write(home.folder / ".config/pip/pip.conf", f"[global]\nindex-url = {indexes.pip}\n")
        # uv does not read the settings of pip.
        write(home.folder / ".config/uv/uv.toml", f'index-url = "{indexes.pip}"\n')
    write(home.folder / ".npmrc", f"//npm.example/:_authToken={SECRET}\nregistry={indexes.npm}\n")


def _answer(*command: str) -> str:
    # pip fails if the setting is not there.
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
