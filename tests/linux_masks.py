"""Hides what only Linux has, so that the tests run the code that other systems run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_sandbox.files import component_walk, rooted
from amplifier_sandbox.platforms import process_end, process_table
from amplifier_sandbox.processes import seatbelt


def mask_path_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide `openat2` and O_PATH, as on macOS."""
    assert sys.platform != "win32", "Windows has nothing of this to hide"
    place = os.O_RDONLY | os.O_NONBLOCK
    monkeypatch.setattr(rooted, "kernel_resolves_beneath", lambda: False)
    for module in (component_walk, rooted):
        monkeypatch.setattr(module, "PLACE", place)
        monkeypatch.setattr(module, "FOLDER", place | os.O_DIRECTORY | os.O_CLOEXEC)


_FAKE = """#!/bin/sh
printf '%s\\0' "$@" >'{record}'
while [ "$1" = -p ] || [ "$1" = -D ]; do shift 2; done
exec "$@"
"""


def mask_as_macos(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], list[str]]:
    """Hide what macOS lacks, and confine by a `sandbox-exec` that only looks like the real one.

    It confines nothing: it records its arguments and runs the program. Returns what reads the
    arguments of the last one.
    """
    record = folder / "arguments"
    program = folder / "sandbox-exec"
    program.write_text(_FAKE.format(record=record), encoding="utf-8")
    program.chmod(0o755)
    mask_path_resolution(monkeypatch)
    monkeypatch.setattr(seatbelt, "is_macos", lambda: True)
    monkeypatch.setattr(seatbelt, "find_seatbelt", lambda: str(program))
    monkeypatch.setattr(process_end, "has_process_descriptors", lambda: False)
    monkeypatch.setattr(process_table, "has_proc", lambda: False)

    def recorded() -> list[str]:
        return record.read_text(encoding="utf-8").split("\0")[:-1]

    return recorded
