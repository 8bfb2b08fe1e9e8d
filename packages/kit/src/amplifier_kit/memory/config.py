"""The configuration that contexts share; their READMEs say what each key means."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from amplifier_kit.memory.texts import SHORTEST


class MemoryConfig(BaseModel):
    """When a request is compacted, how, and which results are kept aside."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    max_tokens: int = Field(default=100_000, gt=0)
    compact_threshold: float = Field(
        default=0.8,
        gt=0,
        le=1,
        validation_alias=AliasChoices("compact_threshold", "compaction_threshold"),
    )
    target_usage: float = Field(default=0.5, gt=0, le=1)
    protected_recent: float = Field(default=0.1, ge=0, le=1)
    truncate_chars: int = Field(default=1_000, ge=SHORTEST)
    mark_dropped: bool = True
    chars_per_token: float = Field(default=4.0, gt=0)
    spill_chars: int = Field(default=20_000, ge=1_000)
