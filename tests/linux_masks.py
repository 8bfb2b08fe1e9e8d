"""Hides what only Linux has, so that the tests run the code that other systems run."""

from __future__ import annotations

import os

import pytest

from amplifier_sandbox.files import component_walk, rooted

_PLACE = os.O_RDONLY | os.O_NONBLOCK


def mask_path_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide `openat2` and O_PATH, as on macOS."""
    monkeypatch.setattr(rooted, "kernel_resolves_beneath", lambda: False)
    for module in (component_walk, rooted):
        monkeypatch.setattr(module, "PLACE", _PLACE)
        monkeypatch.setattr(module, "FOLDER", _PLACE | os.O_DIRECTORY | os.O_CLOEXEC)
