"""The configuration of provider-chat-completions; its README says what each key means."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from amplifier_kit.calls.settings import ProviderSettings

URL_VARIABLE = "OPENAI_BASE_URL"
KEY_VARIABLE = "OPENAI_API_KEY"


class ChatCompletionsConfig(ProviderSettings):
    """What can be said about one server, besides what all providers share."""

    name: str = Field(default="chat-completions", min_length=1, description="To mount under.")
    probe_timeout_seconds: float = Field(
        default=2.0, gt=0, description="For the mount's questions."
    )
    stream_usage: bool = Field(default=True, description="Ask streams for usage; some refuse.")
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens", description="How the server spells the limit of an answer."
    )
    late_system_role: Literal["system", "user"] = Field(
        default="system", description="Of system messages further down; some templates want `user`."
    )
    send_reasoning: bool = Field(default=False, description="Send earlier reasoning back.")
    extra_body: dict[str, Any] = Field(default={}, description="Further fields of every request.")
