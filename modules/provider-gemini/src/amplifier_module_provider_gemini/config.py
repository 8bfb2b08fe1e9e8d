"""The configuration of provider-gemini; its README says what each key means."""

from __future__ import annotations

from pydantic import Field

from amplifier_kit.calls.settings import ProviderSettings

KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")


class GeminiConfig(ProviderSettings):
    """What every provider can be told, and what is Gemini's own."""

    default_model: str = Field("gemini-3.8-flash", description="Unless a request names another.")
    api_version: str = Field(
        "v1beta", description="First part of the path; `v1` is the stable one."
    )
    reasoning_effort: str | None = Field(
        None, description="`none` to `high`; else the model's own."
    )
