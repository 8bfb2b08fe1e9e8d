"""Code that is not installed leaves nothing behind where it lies, and runs as it is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from amplifier_foundation import paths
from amplifier_foundation.config.plain_files import require_own
from amplifier_foundation.errors import SettingsError
from amplifier_kit.durable_files import make_private_folder

__all__ = ["compile_apart"]


def compile_apart(home: Path) -> None:
    """Have Python keep what it compiles from now on in the person's own folder.

    Beside its source a compiled file would change a folder that is trusted as it was, and one that
    came with the folder would run in place of the source that was looked at.

    Raises:
        SettingsError: another user could have put compiled files there.
    """
    if sys.pycache_prefix is None:
        folder = paths.compiled(home.resolve())
        # Python makes the folders in it as the umask says, so this one keeps others out.
        make_private_folder(folder)
        require_own(folder, SettingsError)
        sys.pycache_prefix = os.fspath(folder)
