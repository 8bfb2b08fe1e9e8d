"""Mounting a provider, with its costs and events on the channels that apps read."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from pydantic import SecretStr

from amplifier_core.message_models import ChatResponse, ToolCall, ToolCallBlock
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_kit.calls.model_calls import OWN_EVENTS, ModelCalls
from amplifier_kit.calls.settings import ProviderSettings
from amplifier_kit.notices import absence_capability, show

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=ProviderSettings)


class MountableProvider(Protocol):
    """What `mount_provider` needs to know of a provider."""

    @property
    def name(self) -> str:
        """The name it is mounted under."""
        ...

    @property
    def client(self) -> LazyClient[Any]:
        """Its SDK's client."""
        ...

    @property
    def calls(self) -> ModelCalls:
        """Its calls."""
        ...


async def mount_provider(
    coordinator: Any, provider: MountableProvider, *events: str
) -> Callable[[], Awaitable[None]]:
    """Mount `provider`, start importing its SDK, and return its cleanup.

    `events` are the ones that it emits in addition to those of every provider.
    """
    await coordinator.mount("providers", provider, name=provider.name)
    source = f"provider-{provider.name}"
    announced = [*OWN_EVENTS, *events]
    coordinator.register_contributor("session.cost", source, provider.calls.cost)
    coordinator.register_contributor("observability.events", source, announced.copy)
    provider.client.start()
    return provider.client.close


def with_key(coordinator: Any, settings: S, name: str, *variables: str) -> S | None:
    """Return settings with a key: their own, or that of the first variable that is set.

    None means that there is no key: mount nothing. A message to the user says what to set.
    """
    if settings.api_key:
        own = settings.api_key.get_secret_value()
    else:
        own = ""
    candidates = [own, *(os.environ.get(variable, "") for variable in variables)]
    key = next((each.strip() for each in candidates if each.strip()), None)
    if key is None:
        explain_absence(coordinator, name, f"set {' or '.join(variables)}, or `api_key`")
        return None
    return settings.model_copy(update={"api_key": SecretStr(key)})


def explain_absence(coordinator: Any, name: str, remedy: str) -> None:
    """Report to the user that a provider is not mounted, and what to do about it."""
    logger.warning("provider not mounted name=%s remedy=%s", name, remedy)
    # For the error of a session that has no provider at all.
    coordinator.register_capability(absence_capability(f"provider-{name}"), remedy)
    show(coordinator, f"not mounted: {remedy}", source=f"provider-{name}")


def calls_in_response(response: ChatResponse) -> list[ToolCall]:
    """Return the calls of a response, from its list or, without one, from its blocks."""
    if response.tool_calls is not None:
        return list(response.tool_calls)
    return [
        ToolCall(id=block.id, name=block.name, arguments=block.input)
        for block in response.content
        if isinstance(block, ToolCallBlock)
    ]
