"""The configuration of provider-functions."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field


class FunctionModelConfig(BaseModel):
    """Which function answers."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    function: str = Field(description="As `module:name`; it is imported.")
