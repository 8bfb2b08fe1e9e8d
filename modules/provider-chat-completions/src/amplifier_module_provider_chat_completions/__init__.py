"""provider-chat-completions: models of any server that speaks OpenAI's Chat Completions."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.mounting import explain_absence, mount_provider
from amplifier_module_provider_chat_completions.config import (
    KEY_VARIABLE,
    URL_VARIABLE,
    ChatCompletionsConfig,
)
from amplifier_module_provider_chat_completions.provider import OWN_EVENTS, ChatCompletionsProvider

__amplifier_module_type__ = "provider"
__all__ = ["ChatCompletionsProvider", "mount"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]] | None:
    """Mount the provider under its name, and probe the server for its context window.

    Config: see `ChatCompletionsConfig`. Without a `base_url` nothing is mounted.
    """
    given = dict(config or {})
    for key, variable in (("base_url", URL_VARIABLE), ("api_key", KEY_VARIABLE)):
        given[key] = given.get(key) or os.environ.get(variable) or None
    settings = ChatCompletionsConfig.model_validate(given)
    if settings.base_url is None:
        remedy = f"set `base_url`, or {URL_VARIABLE} and, for a key, {KEY_VARIABLE}"
        explain_absence(coordinator, settings.name, remedy)
        return None
    provider = ChatCompletionsProvider(settings, coordinator)
    close = await mount_provider(coordinator, provider, *OWN_EVENTS)
    await provider.look_at_server()
    return close
