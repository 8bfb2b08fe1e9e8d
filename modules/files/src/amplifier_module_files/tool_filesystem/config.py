"""The configuration of tool-filesystem; its README says what each key means."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class AllowedPath(BaseModel):
    """A folder besides the working folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    write: bool = False


class FilesystemConfig(BaseModel):
    """Which folders are open, how large a file may be, and where checkpoints lie."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    working_dir: Path | None = None
    allowed_paths: list[Path | AllowedPath] = Field(default_factory=list[Path | AllowedPath])
    max_file_bytes: int = Field(default=10_000_000, gt=0)
    checkpoint_dir: Path | None = None
    keep_turns: int = Field(default=100, gt=0)
