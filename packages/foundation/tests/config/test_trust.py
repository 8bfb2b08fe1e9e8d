"""Trust: decisions bound to what a project held, and a record that fails closed."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_foundation.errors import TrustError
from amplifier_foundation.trust import Trust

Write = Callable[[str, str], Path]

SETTINGS = """
bundle: ./bundles/dev.md
modules:
  tools:
    - module: tool-own
      source: ./modules/tool-own
      config: {folder: src}
"""
BUNDLE = """---
bundle: {name: dev}
includes:
  - bundle: dev:behaviors/notes
agents: {include: [dev:helper]}
context: {include: [dev:context/rules.md]}
---
Do as @dev:context/more.md says, and as @missing.md will say.
"""


@pytest.fixture
def trusted(home: Path, project: Path, write: Write) -> Trust:
    """A project with everything that can act, and the decision to trust it."""
    write("project/.amplifier/settings.yaml", SETTINGS)
    write("project/.amplifier/skills/greet/SKILL.md", "Say hello.")
    write("project/bundles/dev.md", BUNDLE)
    write("project/bundles/behaviors/notes.yaml", "bundle: {name: notes}")
    write("project/bundles/agents/helper.md", "---\nmeta: {name: helper}\n---\nHelp.")
    write("project/bundles/context/rules.md", "Rules. See @dev:context/deep.md.")
    write("project/bundles/context/more.md", "More.")
    write("project/bundles/context/deep.md", "Deep.")
    write("project/modules/tool-own/pyproject.toml", "[project]")
    write("project/modules/tool-own/src/own.py", "pass")
    write("project/.mcp.json", '{"mcpServers": {"x": {"command": "./run/server.sh"}}}')
    write("project/run/server.sh", "#!/bin/sh")
    write("project/AGENTS.md", "Be kind. Mind @README.md.")
    write("project/README.md", "Not read by us.")
    write("project/src/main.py", "pass")
    trust = Trust()
    trust.record(project, trust.status(project).digest)
    return trust


def test_a_folder_that_nobody_decided_about_is_not_trusted(
    home: Path, project: Path, write: Write
) -> None:
    write("project/.amplifier/settings.yaml", "bundle: x")

    status = Trust().status(project)

    assert not status.trusted
    assert status.files == [".amplifier/settings.yaml"]
    assert status.changed == []


def test_everything_that_could_act_is_part_of_the_decision(trusted: Trust, project: Path) -> None:
    status = trusted.status(project)

    assert status.trusted
    assert status.files == [
        ".amplifier/settings.yaml",
        ".amplifier/skills/greet/SKILL.md",
        ".mcp.json",
        "AGENTS.md",
        "bundles/agents/helper.md",
        "bundles/behaviors/notes.yaml",
        "bundles/context/deep.md",
        "bundles/context/more.md",
        "bundles/context/rules.md",
        "bundles/dev.md",
        "modules/tool-own/pyproject.toml",
        "modules/tool-own/src/own.py",
        "run/server.sh",
    ]


def test_work_on_other_files_leaves_the_decision_alone(
    trusted: Trust, project: Path, write: Write
) -> None:
    write("project/README.md", "New.")
    write("project/src/main.py", "print()")

    assert trusted.status(project).trusted


@pytest.mark.attack("C4")
@pytest.mark.parametrize(
    "name",
    [
        ".amplifier/settings.yaml",
        ".amplifier/settings.local.yaml",
        ".amplifier/bundles/dev.md",
        ".amplifier/anything",
        ".mcp.json",
        "AGENTS.md",
        "CLAUDE.md",
        "amplifier.lock",
        "bundles/dev.md",
        "bundles/agents/helper.md",
        "bundles/context/deep.md",
        "bundles/missing.md",
        "modules/tool-own/src/own.py",
        "modules/tool-own/src/__pycache__/own.cpython-311.pyc",
        "run/server.sh",
    ],
)
def test_a_file_that_was_changed_or_made_later_is_named_and_ends_the_trust(
    name: str, trusted: Trust, project: Path, write: Write
) -> None:
    write(f"project/{name}", "bundle: {name: evil}")

    status = trusted.status(project)

    assert not status.trusted
    assert status.changed == [name]
    with pytest.raises(TrustError, match=f"`{name}` changed since") as error:
        trusted.require(project)
    assert error.value.exit_code == 3


@pytest.mark.attack("C4")
def test_a_file_that_is_removed_or_renamed_ends_the_trust(trusted: Trust, project: Path) -> None:
    (project / "AGENTS.md").rename(project / "CLAUDE.md")

    assert trusted.status(project).changed == ["AGENTS.md", "CLAUDE.md"]


@pytest.mark.attack("C4")
def test_a_link_is_held_to_where_it_leads_and_to_what_is_there(
    home: Path, project: Path, write: Write
) -> None:
    outside = write("outside/a.yaml", "bundle: a")
    (project / ".amplifier").mkdir()
    link = project / ".amplifier" / "settings.yaml"
    link.symlink_to(outside)
    trust = Trust()
    trust.record(project, trust.status(project).digest)
    assert trust.status(project).trusted

    outside.write_text("bundle: b", encoding="utf-8")
    assert trust.status(project).changed == [".amplifier/settings.yaml"]

    outside.write_text("bundle: a", encoding="utf-8")
    twin = write("outside/b.yaml", "bundle: a")
    link.unlink()
    link.symlink_to(twin)
    assert trust.status(project).changed == [".amplifier/settings.yaml"]


@pytest.mark.attack("C4")
def test_what_cannot_be_held_to_its_content_keeps_a_folder_from_being_trusted(
    home: Path, project: Path, write: Write
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    write("outside/settings.yaml", "bundle: x")
    trust = Trust()
    pipe = project / "AGENTS.md"
    os.mkfifo(pipe)
    (project / ".amplifier").symlink_to(project.parent / "outside")

    status = trust.status(project)

    assert status.unverifiable == [".amplifier", "AGENTS.md"]
    with pytest.raises(TrustError, match="cannot be trusted"):
        trust.record(project, status.digest)
    assert not trust.status(project).trusted


@pytest.mark.attack("C4")
def test_a_change_while_the_person_decides_is_not_what_they_decided_about(
    home: Path, project: Path, write: Write
) -> None:
    write("project/AGENTS.md", "Be kind.")
    trust = Trust()
    shown = trust.status(project).digest
    write("project/AGENTS.md", "Be evil.")

    with pytest.raises(TrustError, match="not what you were shown"):
        trust.record(project, shown)

    assert not trust.status(project).trusted


@pytest.mark.attack("C4")
def test_a_decision_does_not_move_with_the_folder_or_to_one_inside(
    trusted: Trust, project: Path, write: Write
) -> None:
    write("project/sub/.amplifier/settings.yaml", "bundle: x")
    assert not trusted.status(project / "sub").trusted

    moved = project.rename(project.with_name("moved"))
    assert not trusted.status(moved).trusted


def test_a_bundle_that_the_person_names_is_part_of_the_decision_too(
    home: Path, project: Path, write: Write
) -> None:
    bundle = write("project/other.md", "---\nbundle: {name: other}\n---\nHello.")
    trust = Trust()
    trust.record(project, trust.status(project, [bundle]).digest, named=[bundle])
    assert trust.status(project).trusted

    write("project/other.md", "Changed.")

    assert trust.status(project).changed == ["other.md"]


@pytest.mark.attack("U1")
@pytest.mark.parametrize("part", ["orchestrator", "context"])
def test_the_source_of_a_loop_or_a_memory_is_part_of_the_decision(
    home: Path, project: Path, write: Write, part: str
) -> None:
    named = f"session:\n  {part}: my-{part}\n  {part}_source: ./my-{part}\n"
    bundle = write("project/own.yaml", named)
    code = write(f"project/my-{part}/my_{part}/__init__.py", "")

    status = Trust(home).status(project, [bundle])

    assert str(code.relative_to(project)) in status.files


def test_a_revoked_decision_is_gone(trusted: Trust, project: Path) -> None:
    assert trusted.revoke(project)
    assert not trusted.revoke(project)
    assert not trusted.status(project).trusted


def test_addresses_in_a_project_are_named_and_granted_one_by_one(
    home: Path, project: Path, write: Write
) -> None:
    provider = "providers: [{module: p, config: {base_url: %s}}]"
    write("project/.amplifier/settings.yaml", provider % "'https://user@Evil.example:8443/v1?x'")
    write("project/.amplifier/bundles/x.yaml", provider % "'${WHERE:http://b.example}'")
    trust = Trust()
    status = trust.status(project)
    assert status.origins == ["http://b.example", "https://evil.example:8443"]
    assert status.granted == []

    trust.record(project, status.digest, origins=["https://evil.example:8443"])

    assert trust.status(project).granted == ["https://evil.example:8443"]


def test_decisions_made_at_the_same_time_are_all_kept(home: Path, tmp_path: Path) -> None:
    projects = [tmp_path / f"p{number}" for number in range(8)]

    def decide(project: Path) -> None:
        (project / ".amplifier").mkdir(parents=True)
        trust = Trust(home)
        trust.record(project, trust.status(project).digest)

    threads = [threading.Thread(target=decide, args=(project,)) for project in projects]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(Trust(home).status(project).trusted for project in projects)


def test_the_persons_own_folder_is_no_part_of_a_project(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / ".amplifier"))
    write(".amplifier/settings.yaml", "bundle: mine")

    assert Trust().status(tmp_path).files == []


def test_a_folder_with_too_much_that_could_act_is_refused(
    home: Path, project: Path, write: Write
) -> None:
    for number in range(5_001):
        write(f"project/.amplifier/many/{number}", "")

    with pytest.raises(TrustError, match="too large"):
        Trust().status(project)


DAMAGED = {
    "empty": "",
    "torn": '{"version": 1, "projects": {"/x": {"digest": "ab',
    "no JSON": "trust: everything",
    "a list": "[]",
    "another version": '{"version": 2, "projects": {}}',
    "no projects": '{"version": 1}',
    "projects as a list": '{"version": 1, "projects": []}',
    "no files": '{"version": 1, "projects": {"/x": {"digest": "", "origins": []}}}',
    "deep": "[" * 100_000,
}


@pytest.mark.attack("C5")
@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_record_trusts_nothing_and_says_so(
    text: str, trusted: Trust, home: Path, project: Path
) -> None:
    (home / "trust.json").write_text(text, encoding="utf-8")

    with pytest.raises(TrustError, match="no project is trusted") as error:
        trusted.status(project)

    assert error.value.exit_code == 3
    with pytest.raises(TrustError):
        trusted.require(project)
    with pytest.raises(TrustError):
        trusted.record(project, "")
    assert (home / "trust.json").read_text(encoding="utf-8") == text


@pytest.mark.attack("C5")
def test_a_record_that_was_edited_to_fit_other_files_is_refused(
    trusted: Trust, home: Path, project: Path, write: Write
) -> None:
    record = json.loads((home / "trust.json").read_text(encoding="utf-8"))
    del record["projects"][str(project)]["files"]["AGENTS.md"]
    (home / "trust.json").write_text(json.dumps(record), encoding="utf-8")

    with pytest.raises(TrustError, match="does not fit"):
        trusted.status(project)


@pytest.mark.attack("C5")
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_record_that_others_could_have_written_is_refused(
    mode: int, trusted: Trust, home: Path, project: Path
) -> None:
    (home / "trust.json").chmod(mode)

    with pytest.raises(TrustError, match="could have written") as error:
        trusted.status(project)

    assert error.value.exit_code == 3


@pytest.mark.attack("C5")
def test_a_pipe_or_a_folder_in_place_of_the_record_is_refused_at_once(
    trusted: Trust, home: Path, project: Path
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    (home / "trust.json").unlink()
    os.mkfifo(home / "trust.json")
    with pytest.raises(TrustError, match="not a plain file"):
        trusted.status(project)

    (home / "trust.json").unlink()
    (home / "trust.json").mkdir()
    with pytest.raises(TrustError, match="not a plain file"):
        trusted.status(project)


@pytest.mark.attack("C5")
def test_a_missing_record_trusts_nothing(trusted: Trust, home: Path, project: Path) -> None:
    (home / "trust.json").unlink()

    assert not trusted.status(project).trusted
    with pytest.raises(TrustError, match="could act") as error:
        trusted.require(project)
    assert error.value.exit_code == 3


def test_the_record_is_its_owners_alone(trusted: Trust, home: Path) -> None:
    assert stat.S_IMODE((home / "trust.json").stat().st_mode) == 0o600
