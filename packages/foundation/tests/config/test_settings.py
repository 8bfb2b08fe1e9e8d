"""Settings: three scopes, the origin of each value, and mistakes that are named."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.errors import SettingsError
from amplifier_foundation.settings import load_settings

Write = Callable[[str, str], Path]

USER = """
providers:
  - module: provider-anthropic
    config: {default_model: claude-a, max_retries: 1}
session: {metadata: {team: blue, floor: 1}}
"""
PROJECT = """
bundle: dev
providers:
  - module: provider-anthropic
    config: {default_model: claude-b}
"""
LOCAL = """
session: {metadata: {team: red}}
"""


def test_later_scopes_win_and_keep_what_they_do_not_mention(
    home: Path, project: Path, write: Write
) -> None:
    write("home/settings.yaml", USER)
    write("project/.amplifier/settings.yaml", PROJECT)
    write("project/.amplifier/settings.local.yaml", LOCAL)

    settings = load_settings(project, trusted=True)

    assert settings.get("providers") == [
        {
            "module": "provider-anthropic",
            "config": {"default_model": "claude-b", "max_retries": 1},
        }
    ]
    assert settings.get("session.metadata") == {"team": "red", "floor": 1}
    assert settings.get("bundle.active") == "dev"
    assert settings.get("bundle.nothing", "else") == "else"


def test_every_value_knows_the_file_it_came_from(home: Path, project: Path, write: Write) -> None:
    write("home/settings.yaml", USER)
    write("project/.amplifier/settings.yaml", PROJECT)
    write("project/.amplifier/settings.local.yaml", LOCAL)

    settings = load_settings(project, trusted=True)

    assert {each.key: (each.value, each.layer.scope) for each in settings.all()} == {
        "providers[provider-anthropic].module": ("provider-anthropic", "project"),
        "providers[provider-anthropic].config.default_model": ("claude-b", "project"),
        "providers[provider-anthropic].config.max_retries": (1, "user"),
        "session.metadata.team": ("red", "local"),
        "session.metadata.floor": (1, "user"),
        "bundle.active": ("dev", "project"),
    }
    origin = settings.origin("session.metadata")
    assert origin is not None
    assert origin.path == project / ".amplifier/settings.local.yaml"
    assert settings.origin("sources") is None


def test_items_of_joined_lists_know_their_file_too(home: Path, project: Path, write: Write) -> None:
    write("home/settings.yaml", "bundle: {app: [one]}")
    write("project/.amplifier/settings.yaml", "bundle: {app: [one, two]}")

    settings = load_settings(project, trusted=True)

    assert [(each.value, each.layer.scope) for each in settings.all()] == [
        ("one", "project"),
        ("two", "project"),
    ]


def test_without_any_file_there_are_no_settings(home: Path, project: Path) -> None:
    settings = load_settings(project, trusted=True)

    assert settings.values == {}
    assert list(settings.all()) == []


def test_an_unknown_key_is_named_with_the_one_that_was_meant(
    home: Path, project: Path, write: Write
) -> None:
    path = write("home/settings.yaml", "provider: []\nmodules: {tool: []}\nenv: {PATH: /x}\n")

    assert load_settings(project, trusted=False).notices == (
        f"`provider` in `{path}` has no meaning. Did you mean `providers`?",
        f"`modules.tool` in `{path}` has no meaning. Did you mean `tools`?",
        f"`env` in `{path}` has no meaning.",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("providers: {module: x}", "`providers` in"),
        ("bundle: {app: x}", "`bundle.app` in"),
        ("providers: [x]", "has an entry without a module"),
        ("modules: {hooks: [{config: {}}]}", "`modules.hooks` in"),
        ("- a\n- b", "must hold keys and values"),
        ("a: [1\nb: 2", "line 2"),
        ("a: 2026-99-99", "not valid YAML"),
        ("a: !!binary aGVsbG8=", "holds a bytes"),
        ("a: !!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(
    text: str, told: str, home: Path, project: Path, write: Write
) -> None:
    path = write("home/settings.yaml", text)

    with pytest.raises(SettingsError) as error:
        load_settings(project, trusted=False)

    assert told in str(error.value)
    assert str(path) in str(error.value)


def test_a_few_lines_that_stand_for_billions_of_values_are_refused(
    home: Path, project: Path, write: Write
) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    write("home/settings.yaml", "\n".join(["a0: &a0 x", *levels]))

    with pytest.raises(SettingsError, match="holds too much"):
        load_settings(project, trusted=False)


def test_a_value_that_holds_itself_is_refused(home: Path, project: Path, write: Write) -> None:
    write("home/settings.yaml", "config: &a {b: *a}")

    with pytest.raises(SettingsError, match="holds too much"):
        load_settings(project, trusted=False)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(home: Path, project: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    folder = project / ".amplifier"
    folder.mkdir()
    (folder / "real").write_text("bundle: x", encoding="utf-8")
    (folder / "settings.yaml").symlink_to(folder / "real")
    os.mkfifo(folder / "settings.local.yaml")

    settings = load_settings(project, trusted=True)

    assert [layer.scope for layer in settings.layers] == ["project"]


def test_in_the_folder_above_the_persons_own_there_is_no_project(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / ".amplifier"))
    write(".amplifier/settings.yaml", "bundle: mine")

    settings = load_settings(tmp_path, trusted=False)

    assert [layer.scope for layer in settings.layers] == ["user"]
    assert settings.withheld == ()


@pytest.mark.attack("C1")
def test_without_trust_a_projects_settings_are_not_even_parsed(
    home: Path, project: Path, write: Write
) -> None:
    write("home/settings.yaml", "bundle: mine")
    broken = "bundle: [theirs"
    theirs = write("project/.amplifier/settings.yaml", broken)
    local = write("project/.amplifier/settings.local.yaml", broken)

    settings = load_settings(project, trusted=False)

    assert settings.values == {"bundle": {"active": "mine"}}
    assert settings.withheld == (theirs, local)
    with pytest.raises(SettingsError):
        load_settings(project, trusted=True)


def test_relative_sources_start_where_their_file_belongs(
    home: Path, project: Path, write: Write
) -> None:
    entry = "modules: {tools: [{module: %s, source: ./m}]}"
    write("home/settings.yaml", entry % "tool-a")
    write("project/.amplifier/settings.yaml", entry % "tool-b")

    tools = load_settings(project, trusted=True).get("modules.tools")

    assert [tool["source"] for tool in tools] == [str(home / "m"), str(project / "m")]
