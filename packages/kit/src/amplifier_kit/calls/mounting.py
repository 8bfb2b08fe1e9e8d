"""Mounting a provider: into its place, with its costs and its events where apps look for them."""

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
from amplifier_kit.notices import show

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
    """Mount `provider`, begin the import of its SDK, and return what closes it.

    `events` are those the provider announces besides the ones every provider has.
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

    None means that there is no key, that nothing is to be mounted, and that the person was told.
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
    """Say that the provider of this name is not mounted, and what to do about it."""
    logger.warning("provider not mounted name=%s remedy=%s", name, remedy)
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
