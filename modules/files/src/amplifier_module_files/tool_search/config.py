"""The configuration of tool-search; its README says what each key means."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class SearchConfig(BaseModel):
    """Where to search, and how much of what is found is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    working_dir: Path | None = None
    timeout_seconds: float = Field(default=30.0, gt=0, description="For one call, all in all.")
    max_file_bytes: int = Field(default=10_000_000, gt=0, description="Larger files are left out.")
    max_results: int = Field(default=200, gt=0, description="Lines or paths that are shown.")
