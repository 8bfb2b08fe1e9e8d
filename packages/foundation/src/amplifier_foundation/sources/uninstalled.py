"""Code that is not installed leaves nothing behind where it lies, and runs as it is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from amplifier_foundation import paths

__all__ = ["compile_apart"]


def compile_apart(home: Path) -> None:
    """Have Python keep what it compiles from now on in the person's own folder.

    Beside its source a compiled file would change a folder that is trusted as it was, and one that
    came with the folder would run in place of the source that was looked at.
    """
    if sys.pycache_prefix is None:
        sys.pycache_prefix = os.fspath(paths.compiled(home.resolve()))
