"""The configuration of hooks-taint; its README says what each key means."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TaintConfig(BaseModel):
    """Whose words are trusted, and how much has to be shared for one to derive from another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    by: Literal["words", "origin"] = Field(
        default="words",
        description="Ask about calls with words that were read, or about all once text from outside"
        " was read.",
    )
    trusted_tools: list[str] = Field(
        default_factory=list[str], description="Their output is trusted whatever they declare."
    )
    exempt_arguments: dict[str, list[str]] = Field(
        default_factory=dict[str, list[str]],
        description="By tool: arguments that may hold what was read; `*` stands for all.",
    )
    shared_characters: int = Field(
        default=24, ge=8, description="Letters and digits in a row that are no coincidence."
    )
    max_characters: int = Field(
        default=2_000_000, gt=0, description="Of one result; a longer one is not compared."
    )
    max_fingerprints: int = Field(default=500_000, gt=0, description="With more, all is asked.")
    timeout_seconds: float = Field(default=300.0, gt=0, description="For an answer; then it is no.")
