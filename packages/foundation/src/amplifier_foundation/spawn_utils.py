"""Which provider and model a child session uses: ordered preferences, models by pattern."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

__all__ = [
    "PROTECTED_CONFIG_KEYS",
    "ModelResolutionResult",
    "ProviderPreference",
    "apply_provider_preferences",
    "apply_provider_preferences_with_resolution",
    "is_glob_pattern",
    "is_protected_key",
    "resolve_model_pattern",
]

logger = logging.getLogger(__name__)

_PREFIX = "provider-"
# Where a provider connects, and with which identity. A preference may be written by a model, which
# must not be able to send a key or a conversation elsewhere.
PROTECTED_CONFIG_KEYS = frozenset(
    [
        "access_token",
        "api_key",
        "api_version",
        "azure_endpoint",
        "base_url",
        "bearer_token",
        "ca_bundle",
        "client_id",
        "client_secret",
        "deployment_name",
        "host",
        "http_proxy",
        "https_proxy",
        "managed_identity_client_id",
        "organization",
        "password",
        "project",
        "proxy",
        "secret",
        "ssl_verify",
        "tenant_id",
        "token",
        "use_default_credential",
        "use_managed_identity",
        "verify",
        "verify_ssl",
    ]
)
# Third-party providers have other names for the same things.
_PROTECTED_WORDS = frozenset(
    [
        "certificate",
        "cert",
        "command",
        "credential",
        "credentials",
        "endpoint",
        "env",
        "environment",
        "file",
        "header",
        "headers",
        "host",
        "key",
        "keys",
        "password",
        "path",
        "proxy",
        "secret",
        "secrets",
        "token",
        "uri",
        "url",
    ]
)


@dataclass
class ProviderPreference:
    """One of several ordered preferences: a provider by any of its names, a model or a pattern.

    `config` is merged into the provider's configuration, without keys that are protected.
    """

    provider: str
    model: str
    config: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """Return the preference as plain data, without an empty `config`."""
        plain: dict[str, Any] = {"provider": self.provider, "model": self.model}
        if self.config:
            plain["config"] = self.config
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ProviderPreference:
        """Return the preference that `to_dict` wrote; raises ValueError when a key is missing."""
        for key in ("provider", "model"):
            if key not in data:
                raise ValueError(f"A preference requires '{key}' key; this one has {sorted(data)}.")
        return cls(data["provider"], data["model"], data.get("config", {}))


@dataclass
class ModelResolutionResult:
    """The result of resolving a model's name; `resolved_model` is None if no model matches.

    `pattern` is None unless the name was a pattern.
    """

    resolved_model: str | None
    pattern: str | None = None
    available_models: list[str] | None = None
    matched_models: list[str] | None = None


def is_glob_pattern(model_hint: str) -> bool:
    """Whether a model's name is a pattern: it has one of `*`, `?`, `[`."""
    return any(sign in model_hint for sign in "*?[")


def is_protected_key(key: str) -> bool:
    """Whether no preference may change this key of a provider's configuration."""
    lowered = key.lower()
    words = lowered.replace("-", "_").split("_")
    return lowered in PROTECTED_CONFIG_KEYS or not _PROTECTED_WORDS.isdisjoint(words)


async def resolve_model_pattern(
    model_hint: str, provider_name: str | None, coordinator: Any
) -> ModelResolutionResult:
    """Return the model that a name or a pattern means; of several matches, the last by name.

    The models are those that the provider, mounted in `coordinator`, lists. Case is ignored.
    Without a provider, the hint is returned unchanged.
    """
    if not is_glob_pattern(model_hint):
        return ModelResolutionResult(model_hint)
    if not provider_name:
        logger.warning("model pattern without a provider pattern=%s", model_hint)
        return ModelResolutionResult(model_hint, pattern=model_hint)
    available = await _models_of(provider_name, coordinator)
    wanted = model_hint.lower()
    matched = [each for each in available if fnmatch.fnmatchcase(each.lower(), wanted)]
    matched.sort(reverse=True)
    if not matched:
        count = len(available)
        logger.warning("no model fits provider=%s pattern=%s of=%d", provider_name, wanted, count)
    resolved = matched[0] if matched else None
    return ModelResolutionResult(resolved, model_hint, available, matched)


def apply_provider_preferences(
    mount_plan: dict[str, Any], preferences: Sequence[ProviderPreference]
) -> dict[str, Any]:
    """Return the plan with the first preferred provider that it has given priority and a model.

    A plan that has none of them is returned unchanged.
    """
    for preference in preferences:
        at = _find_provider_index(mount_plan.get("providers") or [], preference.provider)
        if at is not None:
            return _preferring(mount_plan, at, preference.model, preference.config)
    _note_unmet(mount_plan, preferences)
    return mount_plan


async def apply_provider_preferences_with_resolution(
    mount_plan: dict[str, Any], preferences: Sequence[ProviderPreference], coordinator: Any
) -> dict[str, Any]:
    """Do what `apply_provider_preferences` does, and resolve models given by pattern.

    If no model matches a pattern, the next preference is tried.
    """
    for preference in preferences:
        at = _find_provider_index(mount_plan.get("providers") or [], preference.provider)
        if at is None:
            continue
        model: str | None = preference.model
        if is_glob_pattern(preference.model):
            found = await resolve_model_pattern(preference.model, preference.provider, coordinator)
            model = found.resolved_model
        if model is not None:
            return _preferring(mount_plan, at, model, preference.config)
    _note_unmet(mount_plan, preferences)
    return mount_plan


def _preferring(
    plan: dict[str, Any], at: int, model: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the plan with the provider at index `at` before all others, and with this model."""
    providers: list[dict[str, Any]] = [
        {**each, "config": _config_of(each)} for each in plan["providers"]
    ]
    chosen: dict[str, Any] = providers[at]["config"]
    chosen.update({key: each for key, each in config.items() if not is_protected_key(key)})
    # After the preference's own keys, so that these cannot set another priority or model.
    chosen["priority"] = 0
    if model:
        # An empty model, as recipes write it, means the provider's own.
        chosen["default_model"] = model
    return {**plan, "providers": providers}


def _note_unmet(plan: dict[str, Any], preferences: Sequence[ProviderPreference]) -> None:
    if preferences:
        wanted = [each.provider for each in preferences]
        present = [each.get("module") for each in plan.get("providers") or ()]
        logger.warning("no preferred provider present=%s wanted=%s", present, wanted)


def _config_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the configuration of a provider of a plan."""
    return dict(entry.get("config") or {})


def _names_of(entry: Mapping[str, Any]) -> set[str]:
    """Return all names of a provider in a plan: module id, short name, instance ids."""
    module = str(entry.get("module") or "")
    short = module.removeprefix(_PREFIX)
    own = {str(entry[key]) for key in ("id", "instance_id") if entry.get(key)}
    return {module, short, f"{_PREFIX}{short}", *own}


def _find_provider_index(providers: Sequence[Mapping[str, Any]], provider_id: str) -> int | None:
    for at, entry in enumerate(providers):
        if provider_id in _names_of(entry):
            return at
    return None


async def _models_of(provider_name: str, coordinator: Any) -> list[str]:
    """Return the models that a mounted provider lists; an empty list if that fails."""
    try:
        provider = _find_provider_instance(
            coordinator.get("providers") or {}, provider_name, coordinator
        )
        if not hasattr(provider, "list_models"):
            return []
        models: list[Any] = await provider.list_models()
    except Exception:
        # A provider that is out of reach matches no pattern; the next preference is tried.
        logger.exception("models not listed provider=%s", provider_name)
        return []
    return [each if isinstance(each, str) else str(getattr(each, "id", each)) for each in models]


def _find_provider_instance(
    providers: Mapping[str, Any], provider_name: str, coordinator: Any = None
) -> Any:
    """Return a mounted provider by name, else the one of that module with the lowest priority."""
    for name, provider in providers.items():
        if provider_name in (name, name.removeprefix(_PREFIX), f"{_PREFIX}{name}"):
            return provider
    plan: Any = getattr(coordinator, "config", None)
    if not isinstance(plan, dict):
        return None
    entries: list[dict[str, Any]] = cast("dict[str, Any]", plan).get("providers") or []
    fitting = [each for each in entries if provider_name in _names_of(each)]
    fitting.sort(key=lambda each: _config_of(each).get("priority", 0))
    for entry in fitting:
        mounted_as = entry.get("id") or entry.get("instance_id") or entry.get("module")
        if mounted_as in providers:
            return providers[str(mounted_as)]
    return None
