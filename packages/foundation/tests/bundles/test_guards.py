"""Guards: required wherever a plan comes from, replaced only by an entry that names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_foundation.bundles import compile_bundle, default_bundle, load_bundle
from amplifier_foundation.errors import BundleError, GuardError
from amplifier_foundation.guards import GUARDS, with_required_guards
from amplifier_foundation.session_options import SessionOptions, apply_options
from amplifier_foundation.settings import Settings, load_settings

Write = Callable[[str, str], Path]
Entry = dict[str, Any]

APPROVAL = "hooks-approval"


def hooks_of(plan: dict[str, Any]) -> dict[str, Entry]:
    return {each["module"]: each for each in plan["hooks"]}


def with_user_hooks(home: Path, project: Path, *hooks: Entry, **more: Any) -> Settings:
    home.mkdir(parents=True, exist_ok=True)
    values = {"modules": {"hooks": list(hooks)}, **more}
    (home / "settings.yaml").write_text(yaml.safe_dump(values))
    return load_settings(project, trusted=False)


def compiled(settings: Settings) -> dict[str, Entry]:
    return hooks_of(compile_bundle(default_bundle(settings), settings, {}).plan)


def test_every_hook_of_the_default_bundle_is_a_guard_that_says_it_is_required(
    settings: Settings,
) -> None:
    for hook in default_bundle(settings).hooks:
        assert hook["module"] in GUARDS
        assert hook["required"] is True


@pytest.mark.parametrize("entry", [{"required": False}, {"required": None}, {"config": {}}])
def test_no_setting_makes_a_guard_optional(home: Path, project: Path, entry: Entry) -> None:
    settings = with_user_hooks(home, project, {"module": APPROVAL, **entry})

    assert compiled(settings)[APPROVAL]["required"] is True


def test_a_guard_is_required_in_a_bundle_of_its_own_and_in_its_agents(settings: Settings) -> None:
    bundle = default_bundle(settings)._replace(hooks=[{"module": APPROVAL}], has_default=False)
    plan = compile_bundle(bundle, settings, {}).plan
    plan["agents"] = {"poet": {"hooks": [{"module": APPROVAL}]}, "other": {"agents": "none"}}

    required = with_required_guards(plan)

    assert plan["hooks"] == [{"module": APPROVAL, "required": True}]
    assert required["agents"]["poet"]["hooks"] == [{"module": APPROVAL, "required": True}]
    assert required["agents"]["other"] == {"agents": "none"}


def test_what_one_layer_requires_no_other_makes_optional(home: Path, project: Path) -> None:
    settings = with_user_hooks(home, project, {"module": "hooks-mine", "required": False})
    bundle = default_bundle(settings)._replace(hooks=[{"module": "hooks-mine", "required": True}])

    plan = compile_bundle(bundle, settings, {}).plan

    assert plan["hooks"] == [{"module": "hooks-mine", "required": True}]


def test_a_hook_that_is_not_a_guard_stays_optional_and_may_have_any_key(
    home: Path, project: Path
) -> None:
    settings = with_user_hooks(home, project, {"module": "hooks-mine", "note": "mine"})

    assert compiled(settings)["hooks-mine"] == {"module": "hooks-mine", "note": "mine"}


REPLACEMENTS = [
    {"module": APPROVAL, "source": "/elsewhere"},
    {"module": APPROVAL, "id": "another", "source": "/elsewhere"},
    {"module": "hooks-mine", "id": APPROVAL},
    {"module": "hooks-mine", "instance_id": APPROVAL},
]


@pytest.mark.parametrize("entry", REPLACEMENTS)
def test_settings_that_would_replace_a_guard_without_naming_it_are_refused(
    home: Path, project: Path, entry: Entry
) -> None:
    with pytest.raises(GuardError, match=f"{APPROVAL}` is a guard") as refused:
        compiled(with_user_hooks(home, project, entry))

    assert str(home / "settings.yaml") in refused.value.message
    assert f"replaces: {APPROVAL}" in refused.value.fix


@pytest.mark.parametrize("entry", REPLACEMENTS)
@pytest.mark.parametrize("order", [("default", "./other.yaml"), ("./other.yaml", "default")])
async def test_an_included_bundle_that_would_replace_a_guard_is_refused_in_either_order(
    settings: Settings, write: Write, entry: Entry, order: tuple[str, str]
) -> None:
    write("other.yaml", yaml.safe_dump({"bundle": {"name": "other"}, "hooks": [entry]}))
    includes = [{"bundle": each} for each in order]
    path = write("b.yaml", yaml.safe_dump({"bundle": {"name": "b"}, "includes": includes}))

    with pytest.raises(GuardError, match=f"{APPROVAL}` is a guard"):
        await load_bundle(path, settings=settings)


async def test_a_bundle_without_default_chooses_the_source_of_its_guards(
    settings: Settings, write: Write
) -> None:
    entry = {"module": APPROVAL, "source": "/elsewhere"}
    path = write("b.yaml", yaml.safe_dump({"bundle": {"name": "b"}, "hooks": [entry]}))

    plan = compile_bundle(await load_bundle(path, settings=settings), settings, {}).plan

    assert plan["hooks"] == [{**entry, "required": True}]


def test_an_entry_that_names_the_guard_takes_its_place_whole(home: Path, project: Path) -> None:
    entry = {"module": APPROVAL, "source": "/elsewhere", "replaces": APPROVAL}
    settings = with_user_hooks(home, project, entry)

    prepared = compile_bundle(default_bundle(settings), settings, {})

    assert hooks_of(prepared.plan)[APPROVAL] == {**entry, "required": True}
    assert prepared.notices == [f"The guard `{APPROVAL}` is `{APPROVAL}` from /elsewhere here."]


def test_a_module_that_replaces_a_guard_is_required_and_the_guard_is_left_out(
    home: Path, project: Path
) -> None:
    entry = {"module": "hooks-mine", "replaces": APPROVAL, "required": False}

    hooks = compiled(with_user_hooks(home, project, entry))

    assert hooks["hooks-mine"]["required"] is True
    assert APPROVAL not in hooks


def test_who_replaces_a_guard_says_so_in_every_layer(home: Path, project: Path) -> None:
    with_user_hooks(home, project, {"module": APPROVAL, "source": "/a", "replaces": APPROVAL})
    own = project / ".amplifier" / "settings.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(yaml.safe_dump({"modules": {"hooks": [{"module": APPROVAL, "source": "./b"}]}}))

    with pytest.raises(GuardError, match="would replace it"):
        compiled(load_settings(project, trusted=True))


def test_a_map_of_sources_does_not_replace_a_guard(home: Path, project: Path) -> None:
    settings = with_user_hooks(home, project, sources={"modules": {APPROVAL: "/elsewhere"}})

    with pytest.raises(GuardError, match="would replace it"):
        compiled(settings)


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ({"module": APPROVAL, "confg": {"default": "deny"}}, "Did you mean `config`?"),
        ({"module": "hooks-mine", "replaces": "hooks-aproval"}, f"Did you mean `{APPROVAL}`?"),
    ],
)
def test_a_mistyped_key_of_a_guard_is_refused_with_the_one_that_was_meant(
    home: Path, project: Path, entry: Entry, hint: str
) -> None:
    with pytest.raises(GuardError) as refused:
        compiled(with_user_hooks(home, project, entry))

    assert hint in refused.value.message


@pytest.mark.parametrize(
    "hook", [{"module": APPROVAL, "source": "/x"}, {"module": APPROVAL, "confg": {}}]
)
async def test_an_agent_cannot_have_another_guard(
    settings: Settings, write: Write, hook: Entry
) -> None:
    agents = {"poet": {"description": "Writes.", "hooks": [hook]}}
    bundle = {"bundle": {"name": "b"}, "includes": ["default"], "agents": agents}
    loaded = await load_bundle(write("b.yaml", yaml.safe_dump(bundle)), settings=settings)

    with pytest.raises(GuardError, match="agent poet|valid key"):
        compile_bundle(loaded, settings, {})


async def test_hooks_of_an_agent_that_are_not_modules_are_refused(
    settings: Settings, write: Write
) -> None:
    agents = {"poet": {"description": "Writes.", "hooks": ["hooks-approval"]}}
    bundle = {"bundle": {"name": "b"}, "includes": ["default"], "agents": agents}
    loaded = await load_bundle(write("b.yaml", yaml.safe_dump(bundle)), settings=settings)

    with pytest.raises(BundleError, match="agent poet"):
        compile_bundle(loaded, settings, {})


def test_a_flag_neither_replaces_a_guard_nor_takes_its_configuration(
    home: Path, project: Path, tmp_path: Path
) -> None:
    settings = with_user_hooks(home, project, {"module": "hooks-budget", "config": {"steps": 3}})
    plan = compile_bundle(default_bundle(settings), settings, {}).plan
    folder = tmp_path / "hooks-budget"
    folder.mkdir()
    (folder / "__init__.py").write_text('__amplifier_module_type__ = "hook"\n')

    apply_options(SessionOptions(modules=("hooks-budget",)), plan)

    assert hooks_of(plan)["hooks-budget"]["config"] == {"steps": 3}
    with pytest.raises(GuardError, match="--module"):
        apply_options(SessionOptions(modules=(str(folder),)), plan)


@pytest.mark.parametrize("entry", REPLACEMENTS)
async def test_the_guards_included_last_take_the_place_of_those_of_another_bundle(
    settings: Settings, write: Write, entry: Entry
) -> None:
    write("other.yaml", yaml.safe_dump({"bundle": {"name": "other"}, "hooks": [entry]}))
    includes = [{"bundle": "./other.yaml"}, {"bundle": "default:guards"}]
    path = write("b.yaml", yaml.safe_dump({"bundle": {"name": "b"}, "includes": includes}))

    bundle = await load_bundle(str(path), settings=settings)

    assert bundle.hooks == default_bundle(settings).hooks
    assert not any("guard" in each for each in compile_bundle(bundle, settings, {}).notices)


@pytest.mark.parametrize("last", ["default", "default:guards"])
async def test_what_a_bundle_says_of_a_guard_is_kept_when_the_guards_come_after(
    settings: Settings, write: Write, last: str
) -> None:
    rule = {"module": APPROVAL, "config": {"headless": "deny"}}
    write("rules.yaml", yaml.safe_dump({"bundle": {"name": "rules"}, "hooks": [rule]}))
    includes = [{"bundle": "./rules.yaml"}, {"bundle": last}]
    path = write("b.yaml", yaml.safe_dump({"bundle": {"name": "b"}, "includes": includes}))

    config = hooks_of({"hooks": (await load_bundle(str(path), settings=settings)).hooks})[APPROVAL]

    assert config["config"]["headless"] == "deny"
    assert config["config"]["rules"]
