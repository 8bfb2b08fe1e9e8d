"""`amplifier run` with a bundle of its own, from a folder not trusted, or with a drifted module."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def write_bundle(path: Path, answer: str, **more: Any) -> None:
    """Write a bundle whose model gives one answer."""
    provider = {"module": "provider-mock", "config": {"script": [answer]}}
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"includes": ["default"], "providers": [provider], **more}
    path.write_text(json.dumps(content), encoding="utf-8")


def commit_all(folder: Path) -> None:
    """Make a folder a repository whose branch `main` has everything in it."""
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "."),
        ("-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "--quiet", "-mx"),
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)


@pytest.mark.attack("U1")
def test_a_pinned_module_whose_bytes_have_changed_is_refused(
    amplifier: Command, home: Path, project: Path
) -> None:
    amplifier("module", "new", "tool-weather")
    tool = {"module": "tool-weather", "source": str(project / "tool-weather")}
    write_bundle(home / "bundles" / "own.yaml", "Hello.", tools=[tool])
    assert amplifier("module", "lock", "-b", "own").returncode == 0
    assert amplifier("run", "-b", "own", "hello").stdout == "Hello.\n"
    (code,) = (project / "tool-weather").rglob("amplifier_module_tool_weather/__init__.py")
    code.write_text(code.read_text("utf-8") + "\nCHANGED = True\n", encoding="utf-8")

    for command in (("run", "-b", "own", "hello"), ("tool", "list", "-b", "own")):
        refused = amplifier(*command)

        assert refused.returncode == 3, command
        assert refused.stdout == ""
        assert "Traceback" not in refused.stderr
        assert "error  `tool-weather` is not what amplifier.lock pins." in refused.stderr
        assert "next   amplifier module lock -b own" in refused.stderr
    assert len(json.loads(amplifier("session", "list", "--json").stdout)) == 1


def test_a_bundle_of_a_folder_that_is_not_trusted_says_so(
    amplifier: Command, project: Path
) -> None:
    write_bundle(project / ".amplifier" / "bundles" / "team.yaml", "From the team.")

    refused = amplifier("run", "-b", "team", "hello")

    assert refused.returncode == 3
    assert "There is no bundle" not in refused.stderr
    assert "which is not trusted" in refused.stderr
    assert "next   amplifier trust grant" in refused.stderr
    assert amplifier("trust", "grant", "--yes").returncode == 0
    assert amplifier("run", "-b", "team", "hello").stdout == "From the team.\n"


def test_a_bundle_that_settings_not_trusted_may_name_says_so(
    amplifier: Command, project: Path
) -> None:
    (project / ".amplifier").mkdir()
    added = {"bundle": {"added": {"team": "./team.yaml"}}}
    (project / ".amplifier" / "settings.yaml").write_text(json.dumps(added), encoding="utf-8")

    refused = amplifier("run", "-b", "team", "hello")

    assert refused.returncode == 2
    assert "not trusted, may have it (amplifier trust grant)" in refused.stderr


def test_a_bundle_whose_include_is_missing_runs_with_one_warning_and_a_record(
    amplifier: Command, home: Path
) -> None:
    nowhere = f"git+file://{home}/nowhere@main"
    write_bundle(home / "bundles" / "own.yaml", "Hello.", includes=["default", nowhere])
    refused = amplifier("run", "-b", "own", "hello")
    assert refused.returncode == 3
    assert "next   amplifier module lock -b own" in refused.stderr
    assert amplifier("module", "lock", "-b", "own").returncode == 0

    run = amplifier("run", "-b", "own", "hello")

    assert run.stdout == "Hello.\n", run.stderr
    assert run.stderr.count(f"The include `{nowhere}` of `bundle:own/own.yaml` is missing:") == 1
    shown = amplifier("session", "show", "last", "--json").stdout
    assert "bundle:incomplete" in shown, shown


def test_a_module_without_its_libraries_says_so_and_the_command_it_names_reads_them(
    amplifier: Command, home: Path, tmp_path: Path
) -> None:
    amplifier("module", "new", "tool-weather", cwd=tmp_path)
    folder = tmp_path / "tool-weather"
    project = folder / "pyproject.toml"
    text = project.read_text("utf-8")
    project.write_text(
        text.replace("dependencies = [", 'dependencies = ["no-such-library>=1", ', 1), "utf-8"
    )
    tool = {"module": "tool-weather", "source": str(folder)}
    write_bundle(home / "bundles" / "own.yaml", "Hello.", tools=[tool])

    run = amplifier("run", "-b", "own", "hello")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    install = amplifier("module", "install", "tool-weather", "-b", "own", env=offline)

    assert run.stdout == "Hello.\n"
    assert "requires `no-such-library`" in run.stderr
    assert "amplifier module install tool-weather -b own" in run.stderr
    assert install.stdout == "tool-weather: no-such-library>=1\n"
    assert install.returncode == 1
    assert "error  The libraries were not installed." in install.stderr
    assert "no-such-library" in install.stderr
    assert amplifier("module", "install", "tool-none", "-b", "own").returncode == 2
    assert amplifier("bundle", "install").stderr.startswith("Nothing to install")


def test_a_module_that_cannot_be_had_leaves_the_others_pinned_and_the_exit_code_says_so(
    amplifier: Command, home: Path, project: Path
) -> None:
    tool = {"module": "tool-weather", "source": f"git+file://{home}/nowhere@main"}
    write_bundle(home / "bundles" / "own.yaml", "Hello.", tools=[tool])

    locked = amplifier("module", "lock", "-b", "own")

    assert locked.returncode == 1
    (line,) = [each for each in locked.stderr.splitlines() if "is not pinned." in each]
    assert line.startswith("tool-weather is not pinned. git could not fetch")
    pinned = json.loads((project / "amplifier.lock").read_text("utf-8"))["modules"]
    assert "tool-bash" in pinned
    assert "tool-weather" not in pinned
    assert amplifier("run", "-b", "own", "hello").stdout == "Hello.\n"


@pytest.mark.parametrize(
    ("line", "has_hints"), [("", False), ("import os\n\nos.system('true')\n", True)]
)
def test_what_hints_are_is_said_only_when_there_are_hints(
    amplifier: Command, home: Path, tmp_path: Path, line: str, has_hints: bool
) -> None:
    amplifier("module", "new", "tool-weather", cwd=tmp_path)
    folder = tmp_path / "tool-weather"
    (code,) = folder.rglob("amplifier_module_tool_weather/__init__.py")
    code.write_text(code.read_text("utf-8") + line, encoding="utf-8")
    commit_all(folder)
    tool = {"module": "tool-weather", "source": f"git+file://{folder}@main"}
    write_bundle(home / "bundles" / "own.yaml", "Hello.", tools=[tool])

    locked = amplifier("module", "lock", "-b", "own")

    assert locked.returncode == 0, locked.stderr
    assert ("hint: tool-weather: " in locked.stderr) is has_hints
    assert ("Hints are about accidents" in locked.stderr) is has_hints


@pytest.mark.parametrize("reference", ["none", "./none.yaml"])
def test_an_unknown_bundle_is_not_said_to_be_named_in_a_file(
    amplifier: Command, reference: str
) -> None:
    told = amplifier("run", "-b", reference, "hello").stderr

    assert f"There is no bundle `{reference}`." in told


def test_a_session_goes_on_with_its_own_bundle_unless_another_is_named(
    amplifier: Command, home: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own" / "poet.yaml"
    write_bundle(own, "A verse.")
    write_bundle(home / "bundles" / "other.yaml", "Prose.")
    amplifier("run", "-b", "../own/poet.yaml", "hello")

    assert amplifier("run", "--resume", "last", "again").stdout == "A verse.\n"
    assert amplifier("run", "--resume", "last", "-b", "other", "again").stdout == "Prose.\n"
    copy = amplifier("session", "fork", "last").stdout.strip()
    elsewhere = amplifier("run", "--resume", copy, "again", cwd=home)
    assert elsewhere.stdout == "A verse.\n", elsewhere.stderr


@pytest.mark.attack("C4")
def test_a_bundle_of_another_folder_does_not_escape_its_trust(
    amplifier: Command, project: Path, tmp_path: Path
) -> None:
    write_bundle(project / "team.yaml", "From the team.")
    assert amplifier("trust", "grant", "--file", "team.yaml", "--yes").returncode == 0
    first = json.loads(amplifier("run", "--json", "-b", "./team.yaml", "hello").stdout)

    refused = amplifier("run", "--resume", first["session_id"], "again", cwd=tmp_path)

    assert refused.returncode == 2
    assert f"next   cd {project}" in refused.stderr
    again = amplifier("run", "--resume", first["session_id"], "again")
    assert again.stdout == "From the team.\n", again.stderr


def test_the_tools_that_stay_without_tools_are_named(amplifier: Command) -> None:
    assert "except those of the memory" in amplifier("run", "--help").stdout


def test_a_module_that_is_not_pinned_does_not_keep_others_from_their_libraries(
    amplifier: Command, home: Path
) -> None:
    tool = {"module": "tool-nowhere", "source": f"git+file://{home}/nowhere@main"}
    write_bundle(home / "bundles" / "own.yaml", "Hello.", tools=[tool])

    whole = amplifier("bundle", "install", "own")
    named = amplifier("module", "install", "tool-nowhere", "-b", "own")

    assert whole.returncode == 0, whole.stderr
    assert "tool-nowhere" in whole.stderr
    assert "Nothing to install" in whole.stderr
    assert named.returncode == 3
    assert "next   amplifier module lock -b own" in named.stderr

    assert amplifier("module", "lock", "-b", "own").returncode == 1
    locked = amplifier("module", "install", "tool-nowhere", "-b", "own")
    assert "There is no `tool-nowhere`. It could not be had when it was locked" in locked.stderr


@pytest.mark.parametrize(("more", "told"), [([], True), (["default:guards"], False)])
def test_a_session_of_a_fetched_bundle_says_which_guards_it_lacks(
    amplifier: Command, home: Path, tmp_path: Path, more: list[str], told: bool
) -> None:
    published = tmp_path / "published"
    published.mkdir()
    (published / "bundle.yaml").write_text(json.dumps({"bundle": {"name": "published"}}), "utf-8")
    commit_all(published)
    provider = {"module": "provider-mock", "config": {"script": ["Hello."]}}
    includes = [f"git+file://{published}@main", *more]
    content = {"bundle": {"name": "own"}, "includes": includes, "providers": [provider]}
    (home / "bundles").mkdir(parents=True)
    (home / "bundles" / "own.yaml").write_text(json.dumps(content), encoding="utf-8")
    assert amplifier("module", "lock", "-b", "own").returncode == 0

    run = amplifier("run", "-b", "own", "hello")

    assert run.stdout == "Hello.\n", run.stderr
    assert ("The guards of Amplifier are not in this session" in run.stderr) is told
