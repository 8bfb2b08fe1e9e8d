"""Preferences for providers and models, as published modules use them."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

import amplifier_foundation
from amplifier_foundation.spawn_utils import (
    PROTECTED_CONFIG_KEYS,
    ProviderPreference,
    apply_provider_preferences,
    apply_provider_preferences_with_resolution,
    is_glob_pattern,
    is_protected_key,
    resolve_model_pattern,
)

PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic"},
    "providers": [
        {"module": "provider-anthropic", "config": {"api_key": "k1", "base_url": "https://a"}},
        {"module": "provider-openai", "id": "team-b", "config": {"priority": 7}},
    ],
}


class Lists:
    """A provider that lists models."""

    def __init__(self, *models: Any) -> None:
        self._models = models

    async def list_models(self) -> list[Any]:
        if "down" in self._models:
            raise ConnectionError("down")
        return list(self._models)


class Mounted:
    """A coordinator with providers, as far as a preference asks for it."""

    def __init__(self, plan: dict[str, Any] | None = None, **providers: Any) -> None:
        self.config = PLAN if plan is None else plan
        self._providers = {name.replace("_", "-"): each for name, each in providers.items()}

    def get(self, point: str) -> dict[str, Any]:
        assert point == "providers"
        return self._providers


def test_a_preference_is_the_same_after_it_was_written_and_read() -> None:
    for wish in (ProviderPreference("a", "m"), ProviderPreference("a", "m", {"effort": "low"})):
        assert ProviderPreference.from_dict(wish.to_dict()) == wish
    assert ProviderPreference("a", "m").to_dict() == {"provider": "a", "model": "m"}


@pytest.mark.parametrize("key", ["provider", "model"])
def test_a_preference_without_a_key_names_the_key(key: str) -> None:
    data = {"provider": "a", "model": "m"}
    del data[key]

    with pytest.raises(ValueError, match=f"requires '{key}' key"):
        ProviderPreference.from_dict(data)


@pytest.mark.parametrize("name", ["anthropic", "provider-anthropic"])
def test_a_provider_is_found_by_its_short_and_its_whole_name(name: str) -> None:
    made = apply_provider_preferences(PLAN, [ProviderPreference(name, "m")])

    assert made["providers"][0]["config"]["default_model"] == "m"
    assert made["providers"][0]["config"]["priority"] == 0


def test_the_first_preference_that_the_plan_can_meet_is_applied_and_the_plan_is_not_changed() -> (
    None
):
    before = copy.deepcopy(PLAN)
    options = [ProviderPreference("nobody", "x"), ProviderPreference("team-b", "gpt")]

    made = apply_provider_preferences(PLAN, options)

    assert made["providers"][1]["config"] == {"priority": 0, "default_model": "gpt"}
    assert made["providers"][0] == PLAN["providers"][0]
    assert before == PLAN


@pytest.mark.parametrize("options", [[], [ProviderPreference("nobody", "x")]])
def test_a_plan_that_meets_no_preference_is_returned_as_it_is(
    options: list[ProviderPreference],
) -> None:
    assert apply_provider_preferences(PLAN, options) is PLAN
    assert apply_provider_preferences({"session": {}}, options) == {"session": {}}


@pytest.mark.parametrize(
    "key", [*sorted(PROTECTED_CONFIG_KEYS), "API_KEY", "azure_ad_token", "extra_headers", "api-key"]
)
def test_no_preference_changes_whom_a_provider_talks_to_or_as_whom(key: str) -> None:
    wish = ProviderPreference("anthropic", "m", {key: "evil", "temperature": 0.1})

    config = apply_provider_preferences(PLAN, [wish])["providers"][0]["config"]

    assert "evil" not in config.values()
    assert config["temperature"] == 0.1
    assert config["api_key"] == "k1"


def test_what_is_no_secret_and_no_address_may_be_preferred() -> None:
    usual = ["temperature", "max_tokens", "reasoning_effort", "timeout_seconds", "top_p"]

    assert not [key for key in usual if is_protected_key(key)]


def test_a_preference_cannot_give_itself_another_priority_or_model() -> None:
    wish = ProviderPreference("anthropic", "m", {"priority": 99, "default_model": "other"})

    config = apply_provider_preferences(PLAN, [wish])["providers"][0]["config"]

    assert config["priority"] == 0
    assert config["default_model"] == "m"


def test_an_empty_model_leaves_the_one_that_the_provider_has() -> None:
    plan = {"providers": [{"module": "provider-x", "config": {"default_model": "own"}}]}

    made = apply_provider_preferences(plan, [ProviderPreference("x", "")])

    assert made["providers"][0]["config"] == {"default_model": "own", "priority": 0}


def test_a_pattern_is_known_by_its_signs() -> None:
    assert all(map(is_glob_pattern, ["a-*", "a?", "[ab]"]))
    assert not is_glob_pattern("claude-3.5")


async def test_a_pattern_means_the_last_model_that_fits_in_any_case() -> None:
    models = Lists("Small-1", SimpleNamespace(id="small-3"), "small-2", "large-9")

    found = await resolve_model_pattern("SMALL-*", "anthropic", Mounted(provider_anthropic=models))

    assert found.resolved_model == "small-3"
    assert found.pattern == "SMALL-*"
    assert found.available_models == ["Small-1", "small-3", "small-2", "large-9"]
    assert found.matched_models == ["small-3", "small-2", "Small-1"]


@pytest.mark.parametrize("models", [(), ("large-9",), ("down",)])
async def test_a_pattern_that_no_model_fits_is_no_model(models: tuple[str, ...]) -> None:
    mounted = Mounted(anthropic=Lists(*models))

    found = await resolve_model_pattern("small-*", "anthropic", mounted)

    assert found.resolved_model is None
    assert found.matched_models == []


async def test_without_a_pattern_or_a_provider_nobody_is_asked() -> None:
    assert (await resolve_model_pattern("plain", "x", None)).resolved_model == "plain"
    assert (await resolve_model_pattern("a-*", None, None)).resolved_model == "a-*"


async def test_of_several_instances_that_of_the_lowest_priority_lists_the_models() -> None:
    plan = {
        "providers": [
            {"module": "provider-openai", "id": "slow", "config": {"priority": 9}},
            {"module": "provider-openai", "id": "fast", "config": {"priority": 1}},
        ]
    }
    mounted = Mounted(plan, slow=Lists("m-1"), fast=Lists("m-2"))

    assert (await resolve_model_pattern("m-*", "openai", mounted)).resolved_model == "m-2"
    assert (await resolve_model_pattern("m-*", "gemini", mounted)).resolved_model is None


async def test_a_preference_whose_pattern_fits_nothing_gives_way_to_the_next() -> None:
    mounted = Mounted(anthropic=Lists("large-1"), team_b=Lists("gpt-1", "gpt-2"))
    options = [
        ProviderPreference("gemini", "g"),
        ProviderPreference("anthropic", "small-*"),
        ProviderPreference("team-b", "gpt-*"),
    ]

    made = await apply_provider_preferences_with_resolution(PLAN, options, mounted)
    none = await apply_provider_preferences_with_resolution(PLAN, options[:2], mounted)

    assert made["providers"][1]["config"]["default_model"] == "gpt-2"
    assert none is PLAN


def test_the_published_names_are_at_the_top_of_the_package() -> None:
    for name in amplifier_foundation.__all__:
        assert name in dir(amplifier_foundation)
        assert callable(getattr(amplifier_foundation, name))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = amplifier_foundation.no_such_name  # pyright: ignore[reportAttributeAccessIssue] - that is the point
