"""The configuration of context-summarizing; its README says what each key means."""

from __future__ import annotations

from pydantic import Field

from amplifier_module_contexts.config import MemoryConfig


class SummarizingConfig(MemoryConfig):
    """When a request is compacted, who summarises, and what must survive."""

    blob_bytes: int = Field(default=64_000_000, gt=0)
    summary_provider: str | None = None
    summary_model: str | None = None
    summary_tokens: int = Field(default=1_000, gt=0)
    pinned: tuple[str, ...] = ()
    goal_chars: int = Field(default=4_000, gt=0)
