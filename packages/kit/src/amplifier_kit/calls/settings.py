"""The settings that every provider has."""

from __future__ import annotations

from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from amplifier_core.retry import RetryConfig


class Pricing(BaseModel):
    """US dollars per million tokens, for a model that the price data does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    cache_read: Decimal | None = Field(default=None, ge=0, description="Default: as input.")
    cache_write: Decimal | None = Field(default=None, ge=0, description="Default: as input.")


FREE = Pricing(input=Decimal(0), output=Decimal(0))


class ProviderSettings(BaseModel):
    """What a provider can be told in the mount plan; unknown keys are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key: SecretStr | None = Field(default=None, description="Else from the environment.")
    base_url: str | None = Field(default=None, description="Another server of the same format.")
    default_model: str = Field(default="", description="Unless a request names another.")
    max_output_tokens: int | None = Field(default=None, gt=0, description="Per answer.")
    context_window: int | None = Field(default=None, gt=0, description="Tokens; else the model's.")
    temperature: float | None = Field(default=None, ge=0)
    use_streaming: bool = Field(
        default=True, description="Announce answers as they arrive (`llm:stream_*`)."
    )
    timeout_seconds: float | None = Field(
        default=600.0, gt=0, description="For one attempt, streaming included; null: no limit."
    )
    idle_timeout_seconds: float = Field(
        default=120.0, gt=0, description="Longest silence of the server within an attempt."
    )
    connect_timeout_seconds: float = Field(default=10.0, gt=0, description="To reach the server.")
    max_retries: int = Field(default=3, ge=0, le=9, description="After a passing failure.")
    min_retry_delay_seconds: float = Field(default=1.0, ge=0, description="Doubled each time.")
    max_retry_delay_seconds: float = Field(
        default=60.0, gt=0, description="Of our own; a vendor's `retry-after` is a floor."
    )
    max_retry_after_seconds: float = Field(
        default=120.0, gt=0, description="A vendor that asks for a longer wait gets no retry."
    )
    pricing: Pricing | None = Field(default=None, description="Overrides the price data.")
    priority: int = Field(default=100, description="Loops choose the provider with the lowest.")
    raw: bool = Field(default=False, description="Put the wire parameters into `llm:*` events.")

    def retry_config(self) -> RetryConfig:
        """Return the retry settings in the kernel's form."""
        return RetryConfig(
            max_retries=self.max_retries,
            initial_delay=self.min_retry_delay_seconds,
            max_delay=self.max_retry_delay_seconds,
        )
