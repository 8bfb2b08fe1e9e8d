"""Keep the bytecode of modules that are not installed out of their own folders."""

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
    """Make Python write bytecode into the user's own folder from now on.

    A compiled file beside its source would change a trusted folder, and one that came with the
    folder would run instead of the source that was reviewed.

    Raises:
        SettingsError: another user could have put compiled files there.
    """
    if sys.pycache_prefix is None:
        folder = paths.compiled(home.resolve())
        # Python creates the folders inside by the umask, so this one has to keep others out.
        make_private_folder(folder)
        require_own(folder, SettingsError)
        sys.pycache_prefix = os.fspath(folder)
