"""The configuration of context-persistent; its README says what each key means."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from amplifier_module_contexts.config import MemoryConfig


class PersistentConfig(MemoryConfig):
    """Where the conversation is written, how durably, without what, and what requests get."""

    path: Path | None = None
    fsync: Literal["turn", "always"] = "turn"
    takeover: bool = False
    blank_secrets: bool = True
