"""Which of the mounted providers a step uses."""

from __future__ import annotations

from typing import Any

from amplifier_core.llm_errors import LLMError


def select_provider(providers: dict[str, Any], preferred: str | None) -> tuple[str, Any]:
    """Return the preferred provider, else the one with the lowest priority number."""
    if preferred is not None and preferred in providers:
        return preferred, providers[preferred]
    if not providers:
        raise RuntimeError("No providers mounted")
    if len(providers) == 1:
        (only,) = providers.items()
        return only
    name = min(providers, key=lambda each: _priority(providers[each]))
    return name, providers[name]


def default_model(provider: Any) -> str | None:
    """Return the model that a provider uses for a request that names none, if it says so."""
    defaults: dict[str, Any] = provider.get_info().defaults
    return defaults.get("model")


def failure_facts(provider_name: str, error: Exception) -> dict[str, Any]:
    """Return what `provider:error` tells of a failed call."""
    failure = {"type": type(error).__name__, "msg": str(error)}
    facts: dict[str, Any] = {"provider": provider_name, "error": failure}
    if isinstance(error, LLMError):
        facts |= {"retryable": error.retryable, "status_code": error.status_code}
    return facts


def _priority(provider: Any) -> int:
    own = getattr(provider, "priority", None)
    if own is None:
        settings: Any = getattr(provider, "config", None) or {}
        own = settings.get("priority")
    return 100 if own is None else own
