"""The configuration of provider-mock; its README says what each key means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from amplifier_core import llm_errors
from amplifier_core.message_models import CostUsd

_CLOSED = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ScriptedCall(BaseModel):
    """A tool the script asks for."""

    model_config = _CLOSED

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    id: str | None = None


class ScriptedUsage(BaseModel):
    """What the script reports instead of the estimate; the rest stays estimated."""

    model_config = _CLOSED

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    cache_read_tokens: int | None = Field(default=None, ge=0)
    cache_write_tokens: int | None = Field(default=None, ge=0)
    cost_usd: CostUsd | None = None


class ScriptedError(BaseModel):
    """A failure: an error class of the kernel by its name, and what it is built with."""

    model_config = _CLOSED

    type: str
    message: str = "scripted failure"
    status_code: int | None = None
    retryable: bool | None = None
    retry_after: float | None = Field(default=None, ge=0, description="Seconds.")

    @model_validator(mode="after")
    def _can_be_built(self) -> ScriptedError:
        if self.type not in llm_errors.__all__:
            raise ValueError(
                f"`{self.type}` is no LLM error; known: {', '.join(llm_errors.__all__)}"
            )
        try:
            self.build()
        except TypeError as error:
            raise ValueError(f"`{self.type}` cannot be built: {error}") from error
        return self

    def build(self, **context: Any) -> llm_errors.LLMError:
        """Return the error, to be raised."""
        given = self.model_dump(exclude={"type", "message"}, exclude_none=True)
        kind: type[llm_errors.LLMError] = getattr(llm_errors, self.type)
        return kind(self.message, **given, **context)


def _named(value: object) -> object:
    if isinstance(value, str):
        return {"type": value}
    return value


def _said(value: object) -> object:
    if isinstance(value, str):
        return {"text": value}
    return value


class Step(BaseModel):
    """One answer of the model: what it thinks, says and asks for, or how it fails.

    With both text and an error, a streamed answer breaks off after the text.
    """

    model_config = _CLOSED

    text: str | None = None
    thinking: str | None = None
    tool_calls: list[ScriptedCall] = Field(default_factory=list[ScriptedCall])
    error: Annotated[ScriptedError, BeforeValidator(_named)] | None = None
    delay_seconds: float = Field(default=0.0, ge=0)
    usage: ScriptedUsage = Field(default_factory=ScriptedUsage)


class MockConfig(BaseModel):
    """How the mock answers, and what it says about itself."""

    model_config = _CLOSED

    mode: Literal["tool_calling", "echo", "scripted", "replay"]
    script: list[Annotated[Step, BeforeValidator(_said)]] = Field(default_factory=list[Step])
    after_script: Literal["raise", "repeat", "echo"] = "raise"
    replay_file: Path | None = None
    delay_seconds: float = Field(default=0.0, ge=0)
    stream: bool = False
    # Also accepted under the name that all other providers use.
    model: str = Field(
        default="mock-model", validation_alias=AliasChoices("model", "default_model")
    )
    context_window: int = Field(default=128_000, gt=0)
    max_output_tokens: int = Field(default=4_096, gt=0)
    priority: int = 100

    @model_validator(mode="before")
    @classmethod
    def _find_mode(cls, values: Any) -> Any:
        """Infer a missing mode from the other keys."""
        if not isinstance(values, dict) or "mode" in values:
            return cast("Any", values)
        implied = "scripted" if "script" in values else "replay" if "replay_file" in values else ""
        return {**cast("dict[str, Any]", values), "mode": implied or "tool_calling"}

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> MockConfig:
        if (self.mode == "scripted") != bool(self.script):
            raise ValueError("mode `scripted` needs a `script`, and no other mode takes one")
        if (self.mode == "replay") != (self.replay_file is not None):
            raise ValueError("mode `replay` needs a `replay_file`, and no other mode takes one")
        return self
