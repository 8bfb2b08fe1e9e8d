"""The configuration of provider-openai."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from amplifier_kit.calls.settings import ProviderSettings

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
OPENAI = "api.openai.com"
DEFAULT_BASE_URL = f"https://{OPENAI}/v1"


class OpenAIConfig(ProviderSettings):
    """What every provider can be told, and what only this API knows."""

    default_model: str = Field(default="gpt-6.1-sol", description="Unless a request names one.")
    reasoning_effort: str | None = Field(default=None, description="Unless a request names one.")
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = Field(
        default="auto", description="Asked for together with an effort; null: none."
    )
    use_prompt_cache_key: bool = Field(default=True, description="Send the session's id as key.")

    @property
    def origin(self) -> str:
        """The host of the server; only it can decrypt the reasoning that it returned."""
        return urlsplit(self.base_url or DEFAULT_BASE_URL).hostname or ""
