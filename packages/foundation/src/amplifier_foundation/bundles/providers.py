"""Which provider a session gets: the one in the settings, else one with a key or an address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from amplifier_foundation.credentials import find_key
from amplifier_foundation.settings import Settings

__all__ = [
    "KEYS",
    "MOCK",
    "ProviderChoice",
    "add_keys",
    "chosen_providers",
    "detect_provider",
    "server_entry",
]

# The variables that have each provider's key, in the order in which they are looked up.
KEYS: dict[str, tuple[str, ...]] = {
    "provider-anthropic": ("ANTHROPIC_API_KEY",),
    "provider-openai": ("OPENAI_API_KEY",),
    "provider-gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
# What answers if there is neither a key nor an address.
MOCK = "provider-mock"
_SERVER = "provider-chat-completions"
_ADDRESS = "OPENAI_BASE_URL"


class ProviderChoice(NamedTuple):
    """A provider, its configuration, and the reason for the choice as a sentence for the user."""

    module: str
    config: dict[str, Any]
    why: str

    @property
    def is_mock(self) -> bool:
        """Whether the mock answers instead of a model, which the user has to be warned about."""
        return self.module == MOCK


def detect_provider(settings: Settings, environ: Mapping[str, str] | None = None) -> ProviderChoice:
    """Return the first provider of the settings, else one for which there is an address or key.

    Falls back to provider-mock, so that everything can be tried without a key.
    """
    environ = os.environ if environ is None else environ
    for entry in chosen_providers(settings):
        layer = settings.origin("providers") or settings.origin("config.providers")
        where = f" in `{layer.path}`" if layer else ""
        return ProviderChoice(entry["module"], entry.get("config") or {}, f"Chosen{where}.")
    if address := environ.get(_ADDRESS):
        entry = server_entry(address)
        return ProviderChoice(entry["module"], entry["config"], f"{_ADDRESS} is {address}.")
    for module, names in KEYS.items():
        for name in names:
            if key := find_key(name, home=settings.home, environ=environ):
                # Providers read the environment themselves, but neither file nor keyring.
                if key.origin == "environment":
                    config = {}
                else:
                    config = {"api_key": key.value}
                return ProviderChoice(module, config, f"{name} was found ({key.origin}).")
    looked_for = ", ".join([_ADDRESS, *(name for names in KEYS.values() for name in names)])
    why = f"No model configured (none of {looked_for}); using the mock model."
    return ProviderChoice(MOCK, {"stream": True}, why)


def server_entry(base_url: str) -> dict[str, Any]:
    """Return the entry of a provider for a server of the user's own."""
    return {"module": _SERVER, "config": {"base_url": base_url}}


def chosen_providers(settings: Settings) -> list[dict[str, Any]]:
    """Return the providers that the settings name, under either of the two keys for it."""
    return [*(settings.get("config.providers") or []), *(settings.get("providers") or [])]


def add_keys(
    providers: list[dict[str, Any]], settings: Settings, environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the providers with the keys that they cannot find in the environment themselves."""
    completed: list[dict[str, Any]] = []
    for entry in providers:
        config: dict[str, Any] = entry.get("config") or {}
        if not config.get("api_key"):
            found = [
                find_key(name, home=settings.home, environ=environ)
                for name in KEYS.get(entry["module"], ())
            ]
            key = next((each for each in found if each is not None), None)
            if key is not None and key.origin != "environment":
                entry = {**entry, "config": {**config, "api_key": key.value}}
        completed.append(entry)
    return completed
