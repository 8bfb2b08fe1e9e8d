"""The configuration of context-simple; its README says what each key means."""

from __future__ import annotations

from pydantic import Field

from amplifier_module_contexts.config import MemoryConfig


class ContextConfig(MemoryConfig):
    """When a request is compacted, how, and how much is kept aside."""

    blob_bytes: int = Field(default=64_000_000, gt=0)
