"""What takes long to build is built once in a run, not once in each worker."""

from __future__ import annotations

import faulthandler
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_sandbox.platforms.locks import locked


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """Return a folder that `build` has filled; all workers of a run share it.

    A test must not change what is in there.
    """
    run = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent
    # A build may take longer than a test may hang; the programs of a build have their own limits.
    faulthandler.cancel_dump_traceback_later()
    folder = run / name
    is_built = run / f"{name}.built"
    with locked(run / f"{name}.lock"):
        if not is_built.exists():
            # What a build that failed has left.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            is_built.touch()
    return folder
