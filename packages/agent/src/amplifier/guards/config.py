"""The configuration of hooks-functions."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from amplifier.references import StoredDeps


class FunctionGuardsConfig(BaseModel):
    """Which functions are guards."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    functions: list[str] = Field(
        default_factory=list[str], description="Each as `module:name`; they are imported."
    )
    deps: StoredDeps | None = Field(default=None, description="The dependencies of the session.")
