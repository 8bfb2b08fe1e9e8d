"""The configuration of tool-task; its README says what each key means."""

from __future__ import annotations

from amplifier_kit.children.config import ChildrenConfig


class TaskConfig(ChildrenConfig, extra="forbid", frozen=True, defer_build=True):
    """How many children there may be, and how long each of them may take."""
