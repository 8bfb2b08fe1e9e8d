"""`amplifier config`: what is set, by which file, and how the user changes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

Command = Callable[..., "subprocess.CompletedProcess[str]"]

KEY = "planted-key-0123456789abcdef"


@pytest.mark.slow
def test_a_setting_is_set_shown_and_removed(amplifier: Command, home: Path, project: Path) -> None:
    assert "Nothing is set." in amplifier("config", "list").stderr
    amplifier("config", "set", "bundle.active", "default")
    entry = f"[{{module: provider-mock, config: {{api_key: {KEY}}}}}]"
    amplifier("config", "set", "config.providers", entry)

    assert amplifier("config", "get", "bundle.active").stdout == "default\n"
    listed = amplifier("config", "list")
    assert "bundle.active" in listed.stdout
    assert KEY not in listed.stdout + amplifier("config", "get", "config").stdout
    facts = json.loads(amplifier("config", "list", "--json").stdout)
    file = str(home / "settings.yaml")
    assert facts[0] == {"key": "bundle.active", "value": "default", "scope": "user", "file": file}
    assert f"{file}  (read)" in amplifier("config", "path").stdout
    assert amplifier("config", "unset", "bundle.active").returncode == 0
    assert list(yaml.safe_load((home / "settings.yaml").read_text("utf-8"))) == ["config"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "bundle.actve", "x"), "Did you mean `active`?"),
        (("set", "providers", "4"), "`providers` in"),
        (("set", "bundle.active", "["), "not valid YAML"),
        (("unset", "bundle.active"), "is not set in your own file"),
        (("get", "bundle.active"), "`bundle.active` is not set"),
    ],
)
def test_a_setting_that_has_no_meaning_changes_nothing(
    amplifier: Command, home: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = amplifier("config", *arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 3
    assert not (home / "settings.yaml").exists()


@pytest.mark.slow
def test_a_folder_below_a_repositorys_root_has_its_settings_and_trust(
    amplifier: Command, project: Path
) -> None:
    (project / ".git").mkdir()
    (project / "AGENTS.md").write_text("Answer in one line.", encoding="utf-8")
    below = project / "src" / "app"
    below.mkdir(parents=True)

    refused = amplifier("run", "hi", cwd=below)
    assert f"Working in {project}" in refused.stderr
    assert "Ignoring AGENTS.md" in refused.stderr
    assert amplifier("trust", "grant", "--yes", cwd=below).returncode == 0
    run = amplifier("run", "hi", cwd=below)
    assert "Ignoring" not in run.stderr
    explained = amplifier("explain", "--json", cwd=project).stdout
    assert f"file:{project / 'AGENTS.md'}" in explained
    listed = json.loads(amplifier("session", "list", "--json", cwd=project).stdout)
    assert len(listed) == 2
    # A path is relative to where it is typed, and so is the next step.
    (below / "b.yaml").write_text("bundle:\n  name: b\n", encoding="utf-8")
    asked = amplifier("run", "-b", "./b.yaml", "hi", cwd=below)
    assert "next   amplifier trust --file b.yaml" in asked.stderr
    trusted = amplifier("trust", "grant", "--yes", "--file", "b.yaml", cwd=below)
    assert "src/app/b.yaml" in trusted.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("bundle", "list"),
        ("config", "list"),
        ("module", "list"),
        ("provider", "list"),
        ("provider", "models"),
        ("session", "list"),
        ("tool", "list"),
        ("trust", "show"),
    ],
)
def test_every_listing_can_be_read_by_a_program(amplifier: Command, words: tuple[str, ...]) -> None:
    done = amplifier(*words, "--json")

    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list | dict)


@pytest.mark.slow
def test_skills_of_a_project_are_offered_once_it_is_trusted(
    amplifier: Command, project: Path
) -> None:
    skill = project / ".amplifier" / "skills" / "deploy"
    skill.mkdir(parents=True)
    text = "---\nname: deploy\ndescription: Deploys this project.\n---\nRun make deploy.\n"
    (skill / "SKILL.md").write_text(text, encoding="utf-8")

    amplifier("run", "hi")
    assert "Deploys this project." not in amplifier("explain", "--full").stdout
    amplifier("trust", "grant", "--yes")
    amplifier("run", "hi")
    assert "Deploys this project." in amplifier("explain", "--full").stdout
    # What a tool or anybody else changes afterwards is not used before it was seen again.
    (skill / "SKILL.md").write_text(text.replace("Deploys", "Deletes"), encoding="utf-8")
    amplifier("run", "hi")
    assert "Deletes this project." not in amplifier("explain", "--full").stdout
