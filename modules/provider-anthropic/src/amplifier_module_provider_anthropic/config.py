"""The configuration of provider-anthropic; its README says what each key means."""

from __future__ import annotations

from pydantic import Field

from amplifier_kit.calls.settings import ProviderSettings

KEY_VARIABLE = "ANTHROPIC_API_KEY"
MAX_OUTPUT_TOKENS = 32_000


class AnthropicConfig(ProviderSettings):
    """What every provider can be told, and what only this one understands."""

    default_model: str = Field(default="claude-sonnet-5-5", min_length=1)
    prompt_caching: bool = True
    # None: the model's default.
    extended_thinking: bool | None = None
    reasoning_effort: str | None = None
    # For models that think by budget, when no effort is named.
    thinking_budget_tokens: int = Field(default=10_000, ge=1_024)
    # None: the SDK's default.
    api_version: str | None = None
    betas: list[str] = Field(default_factory=list[str])
