"""The configuration that contexts share."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from amplifier_kit.texts import SHORTEST


class MemoryConfig(BaseModel):
    """When a request is compacted, how, and which results are kept aside."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    instructions: str = Field(
        default="", description="The system prompt of every request; empty: none."
    )
    max_tokens: int = Field(
        default=100_000, gt=0, description="Budget when neither caller nor provider names one."
    )
    compact_threshold: float = Field(
        default=0.8,
        gt=0,
        le=1,
        validation_alias=AliasChoices("compact_threshold", "compaction_threshold"),
        description="Share of the budget above which a request is compacted.",
    )
    auto_compact: Literal[True] = Field(
        default=True, description="Published bundles say it; a request is always fitted here."
    )
    target_usage: float = Field(
        default=0.5, gt=0, le=1, description="Share that a compacted view goes down to."
    )
    protected_recent: float = Field(
        default=0.1, ge=0, le=1, description="Newest share whose results are not shortened."
    )
    truncate_chars: int = Field(
        default=1_000, ge=SHORTEST, description="Length of a shortened tool result."
    )
    mark_dropped: bool = Field(
        default=True, description="Put a message in place of those that were left out."
    )
    chars_per_token: float = Field(
        default=4.0, gt=0, description="The estimate before a provider has reported anything."
    )
    spill_chars: int | None = Field(
        default=20_000,
        ge=1_000,
        description="Length above which a tool result is put aside; null: none is.",
    )
