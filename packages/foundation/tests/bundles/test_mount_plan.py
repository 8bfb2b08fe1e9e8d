"""Compiling: settings over bundles, variables, keys, and plans that sessions accept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.validation.mount_plan import MountPlanValidator
from amplifier_foundation.bundles import (
    Bundle,
    compile_bundle,
    default_bundle,
    detect_provider,
    load_bundle,
)
from amplifier_foundation.settings import Settings, load_settings
from contract.requirements import requirement

Write = Callable[[str, str], Path]


def test_the_default_bundle_is_a_plan_that_needs_no_key(settings: Settings) -> None:
    prepared = compile_bundle(default_bundle(settings), settings, {})

    assert MountPlanValidator().validate(prepared.plan).passed
    assert [tool["module"] for tool in prepared.plan["tools"]] == [
        "tool-filesystem",
        "tool-search",
        "tool-bash",
        "tool-web",
        "tool-todo",
        "tool-skills",
        "tool-task",
    ]
    assert [hook["module"] for hook in prepared.plan["hooks"]] == [
        "hooks-redaction",
        "hooks-approval",
        "hooks-taint",
        "hooks-budget",
    ]
    assert prepared.provider is not None
    assert prepared.provider.is_mock
    assert "No model configured" in prepared.provider.why
    assert [part.origin for part in prepared.instructions] == ["bundle:default/bundle.md"]
    assert prepared.notices == []


async def test_a_session_of_the_default_bundle_mounts_whole(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(settings.project)
    prepared = compile_bundle(default_bundle(settings), settings, {})

    async with AmplifierSession(prepared.plan) as session:
        states = {each.module_id: each.state for each in session.status.modules}

    assert len(states) == 14
    assert set(states.values()) == {"mounted"}


@pytest.mark.parametrize(
    ("environ", "module", "config"),
    [
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "provider-anthropic", {}),
        ({"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}, "provider-openai", {}),
        ({"GEMINI_API_KEY": "k"}, "provider-gemini", {}),
        ({"GOOGLE_API_KEY": "k"}, "provider-gemini", {}),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_API_KEY": "k"},
            "provider-chat-completions",
            {"base_url": "http://127.0.0.1:1/v1"},
        ),
        ({"OPENAI_API_KEY": ""}, "provider-mock", {"stream": True}),
    ],
)
def test_the_provider_is_the_one_that_is_set_up(
    environ: dict[str, str], module: str, config: dict[str, Any], settings: Settings
) -> None:
    choice = detect_provider(settings, environ)

    assert (choice.module, choice.config) == (module, config)
    assert "k" not in choice.why.split()


def test_settings_choose_before_keys_do(settings: Settings, write: Write) -> None:
    path = write("home/settings.yaml", "providers: [{module: provider-x, config: {a: 1}}]")
    chosen = load_settings(settings.project, trusted=False)

    choice = detect_provider(chosen, {"OPENAI_API_KEY": "k"})

    assert (choice.module, choice.config, choice.why) == (
        "provider-x",
        {"a": 1},
        f"Chosen in `{path}`.",
    )


def test_a_key_from_the_file_reaches_the_provider_that_cannot_find_it(
    settings: Settings, write: Write
) -> None:
    write("home/credentials.yaml", "ANTHROPIC_API_KEY: from the file").chmod(0o600)

    detected = compile_bundle(default_bundle(settings), settings, {}).plan["providers"]
    write("home/settings.yaml", "config: {providers: [{module: provider-anthropic}]}")
    chosen = load_settings(settings.project, trusted=False)
    named = compile_bundle(default_bundle(chosen), chosen, {}).plan["providers"]
    environ = {"ANTHROPIC_API_KEY": "from the environment"}
    left = compile_bundle(default_bundle(chosen), chosen, environ).plan["providers"]

    whole = {"module": "provider-anthropic", "config": {"api_key": "from the file"}}
    assert detected == named == [whole]
    assert left == [{"module": "provider-anthropic"}]


async def test_settings_lie_over_the_bundle(settings: Settings, write: Write) -> None:
    write(
        "home/settings.yaml",
        "session: {orchestrator: {config: {max_steps: 5}}}\n"
        "modules:\n"
        "  tools: [{module: t, config: {b: 2}}, {module: extra}]\n"
        "  hooks: [{module: h}]\n"
        "sources: {modules: {t: /elsewhere, loop-x: /loop}}\n",
    )
    chosen = load_settings(settings.project, trusted=False)
    path = write(
        "b/a.yaml",
        "session: {orchestrator: loop-x, context: {module: context-x}, orchestrator_source: /old}\n"
        "tools: [{module: t, source: /old, config: {a: 1}}]\n",
    )
    bundle = await load_bundle(path, settings=chosen)
    before = repr(bundle)

    plan = compile_bundle(bundle, chosen, {}).plan

    assert plan["tools"] == [
        {"module": "t", "source": "/elsewhere", "config": {"a": 1, "b": 2}},
        {"module": "extra"},
    ]
    assert plan["hooks"] == [{"module": "h"}]
    assert plan["session"]["orchestrator"] == {
        "module": "loop-x",
        "source": "/loop",
        "config": {"max_steps": 5},
    }
    assert repr(bundle) == before
    assert MountPlanValidator().validate(plan).passed


async def test_short_forms_of_a_session_become_entries(settings: Settings, write: Write) -> None:
    path = write("b/a.yaml", "session: {orchestrator: l, orchestrator_source: /s, context: c}")

    plan = compile_bundle(await load_bundle(path, settings=settings), settings, {}).plan

    assert plan["session"] == {
        "orchestrator": {"module": "l", "source": "/s"},
        "context": {"module": "c"},
    }


@requirement("PLAN-8")
async def test_variables_are_replaced_in_values_and_left_in_texts(
    settings: Settings, write: Write
) -> None:
    write("home/credentials.yaml", "MY_KEY: from the file").chmod(0o600)
    path = write(
        "b/a.md",
        "---\nsession: {orchestrator: l, context: c}\n"
        "providers: [{module: p, config: {api_key: '${MY_KEY}', x: '${NONE}'}}]\n"
        "tools: [{module: t, config: {a: '${A}', b: 'x-${B:b}-${A}', k: '${MY_KEY}',"
        " l: ['${NONE}', 1]}}]\n"
        "---\nSay ${A}.",
    )

    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {"A": "1"})

    assert prepared.plan["providers"] == [{"module": "p", "config": {"api_key": "from the file"}}]
    assert prepared.plan["tools"] == [{"module": "t", "config": {"a": "1", "b": "x-b-1", "l": [1]}}]
    assert prepared.instructions[0].text == "Say ${A}."
    assert prepared.notices == [
        "`${MY_KEY}` is not set; what it would have set was left out.",
        "`${NONE}` is not set; what it would have set was left out.",
    ]


def test_an_empty_bundle_gets_a_loop_a_memory_and_a_notice(settings: Settings) -> None:
    prepared = compile_bundle(Bundle("empty"), settings, {})

    assert MountPlanValidator().validate(prepared.plan).passed
    assert prepared.notices == [
        "The bundle `empty` leaves parts open; it gets `loop-streaming` as orchestrator,"
        " `context-summarizing` as context."
    ]
