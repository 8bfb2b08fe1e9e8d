"""The configuration of tool-skills; its README says what each key means."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


def _default_paths() -> list[Path]:
    return [Path("~/.amplifier/skills"), Path(".amplifier/skills")]


class SkillsConfig(BaseModel):
    """Where skills lie, and whether those of the project may be offered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    working_dir: Path | None = None
    paths: list[Path] = Field(default_factory=_default_paths)
    trust_project: bool = False
