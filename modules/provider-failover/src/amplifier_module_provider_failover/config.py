"""The configuration of provider-failover; its README says what each key means."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from amplifier_core import llm_errors

# Only errors that another provider may not have: a request that is too long, malformed or filtered
# would fail there too.
_PASSING = (
    "ProviderUnavailableError",
    "LLMTimeoutError",
    "RateLimitError",
    "StreamError",
    "AuthenticationError",
    "NotFoundError",
    "ConfigurationError",
)


def _is_llm_error(name: str) -> str:
    if name not in llm_errors.__all__:
        raise ValueError(f"`{name}` is no LLM error; known: {', '.join(llm_errors.__all__)}")
    return name


class FailoverConfig(BaseModel):
    """Who answers, in which order, and what makes the next one take over."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    providers: list[str] = Field(default_factory=list[str])
    models: dict[str, str] = Field(default_factory=dict[str, str])
    cool_down_seconds: float = Field(default=300.0, ge=0)
    switch_on: list[Annotated[str, AfterValidator(_is_llm_error)]] = list(_PASSING)
    priority: int = 0

    @model_validator(mode="after")
    def _names_each_member_once(self) -> FailoverConfig:
        if len(set(self.providers)) < len(self.providers):
            raise ValueError(f"`providers` names a member twice: {', '.join(self.providers)}")
        if self.providers:
            strangers = self.models.keys() - self.providers
        else:
            strangers = ()
        if strangers:
            raise ValueError(f"`models` names no members: {', '.join(sorted(strangers))}")
        return self

    def switching_errors(self) -> tuple[type[llm_errors.LLMError], ...]:
        """Return the error classes that make the next provider take over."""
        return tuple(getattr(llm_errors, name) for name in self.switch_on)
