"""Setting up: `init`, `doctor`, `trust`, `provider`, `bundle`, `tool`, `module lock`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

KEY = "planted-key-0123456789abcdef"


def test_init_finds_a_key_and_never_shows_it(amplifier: Command, home: Path) -> None:
    key = {"ANTHROPIC_API_KEY": KEY}

    done = amplifier("init", "--provider", "anthropic", "--no-call", env=key)

    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert "provider-anthropic" in (home / "settings.yaml").read_text("utf-8")
    assert KEY not in (home / "settings.yaml").read_text("utf-8")
    assert "anthropic" in amplifier("provider", "list", env=key).stdout


def test_init_stores_a_key_that_only_the_user_can_read(amplifier: Command, home: Path) -> None:
    options = ("--provider", "openai", "--model", "gpt-5", "--key-stdin", "--no-call")

    done = amplifier("init", *options, stdin=f"{KEY}\n")

    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert (home / "credentials.yaml").read_text("utf-8") == f"OPENAI_API_KEY: {KEY}\n"
    assert (home / "credentials.yaml").stat().st_mode & 0o777 == 0o600
    assert "default_model: gpt-5" in (home / "settings.yaml").read_text("utf-8")
    assert KEY[-4:] in amplifier("init", "--provider", "mock").stdout


def test_init_refuses_an_empty_key(amplifier: Command, home: Path) -> None:
    done = amplifier("init", "--provider", "openai", "--key-stdin", stdin="\n")

    assert done.returncode == 2
    assert not (home / "settings.yaml").exists()


def test_init_without_anybody_to_ask_names_the_choices(amplifier: Command, home: Path) -> None:
    done = amplifier("init")

    assert done.returncode == 2
    assert "amplifier init --provider mock" in done.stderr
    assert not (home / "settings.yaml").exists()


def test_init_keeps_what_else_the_settings_say(amplifier: Command, home: Path) -> None:
    home.mkdir()
    (home / "settings.yaml").write_text("# mine\nbundle: default\n", encoding="utf-8")

    amplifier("init", "--provider", "mock")

    text = (home / "settings.yaml").read_text("utf-8")
    assert "bundle: default" in text
    assert "provider-mock" in text
    assert (home / "settings.yaml.bak").read_text("utf-8").startswith("# mine")


def test_doctor_finds_what_is_wrong_with_the_fix(
    amplifier: Command, home: Path, project: Path
) -> None:
    healthy = amplifier("doctor", "--json")
    found = {each["what"]: each for each in json.loads(healthy.stdout)}
    assert healthy.returncode == 0, healthy.stdout
    assert found["provider"]["fix"] == "amplifier init"
    assert found["modules"]["level"] == "ok"

    home.mkdir(exist_ok=True)
    (home / "settings.yaml").write_text("providers: [", encoding="utf-8")
    (project / "amplifier.lock").write_text("{}", encoding="utf-8")
    amplifier("trust", "grant", "--yes")
    ill = amplifier("doctor")

    assert ill.returncode == 1
    assert "settings.yaml" in ill.stdout
    assert "fix: Restore it" in ill.stdout
    assert "Traceback" not in ill.stdout + ill.stderr


def test_doctor_compares_our_packages_with_their_pins(amplifier: Command, tmp_path: Path) -> None:
    info = tmp_path / "path" / "amplifier_module_tool_todo-0.0.1.dist-info"
    info.mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: amplifier-module-tool-todo\nVersion: 0.0.1\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")

    done = amplifier("doctor", "--json", env={"PYTHONPATH": str(info.parent)})

    findings = json.loads(done.stdout)
    (found,) = (each for each in findings if each["what"] == "amplifier-module-tool-todo")
    assert found["level"] == "error"
    assert found["told"].startswith("is 0.0.1; this command belongs to ")
    assert found["fix"].startswith("make -C ")
    assert done.returncode == 1


def test_doctor_lists_the_toolchains_of_commands(amplifier: Command, tmp_path: Path) -> None:
    shown = tmp_path / "sdk" / "bin"
    refused = tmp_path / "keys" / ".ssh"
    for folder in (shown, refused, shown.parent / "lib"):
        folder.mkdir(parents=True)

    path = f"{shown}:{refused}:/usr/bin:/bin"
    done = amplifier("doctor", "--json", env={"PATH": path})

    told = [each["told"] for each in json.loads(done.stdout) if each["what"] == "toolchain"]
    # The test's home folder may be written as `~`.
    assert any(re.fullmatch(r"commands can run what is in \S+/sdk", each) for each in told)
    assert any(re.match(r"commands cannot see \S+/keys/.ssh of PATH: ", each) for each in told)


def test_doctor_masks_keys(amplifier: Command) -> None:
    done = amplifier("doctor", env={"OPENAI_API_KEY": KEY})

    assert KEY not in done.stdout
    assert "OPENAI_API_KEY" in done.stdout


def test_a_provider_is_tried_and_lists_its_models(amplifier: Command) -> None:
    tried = amplifier("provider", "test", "mock")

    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.startswith("ok  mock answered")
    assert "mock-model" in amplifier("provider", "models", "mock").stdout
    absent = amplifier("provider", "test", "openai")
    assert absent.returncode == 2
    assert "next   amplifier init" in absent.stderr


def test_tools_are_listed_described_and_called(amplifier: Command, project: Path) -> None:
    (project / "a.txt").write_text("inside", encoding="utf-8")

    assert "read_file" in amplifier("tool", "list").stdout
    assert '"file_path"' in amplifier("tool", "show", "read_file").stdout
    assert "inside" in amplifier("tool", "invoke", "read_file", "file_path=a.txt").stdout
    failed = amplifier("tool", "invoke", "read_file", "--input", '{"file_path": "none"}')
    assert failed.returncode == 1
    for wrong in ("a.txt", "--input=[1]", "--input={"):
        told = amplifier("tool", "invoke", "read_file", wrong)
        assert told.returncode == 2
        assert "next   amplifier tool show read_file" in told.stderr
    ended = amplifier("tool", "invoke", "bash", "command=echo why >&2; exit 3")
    assert ended.returncode == 1
    assert '"stderr": "why\\n"' in ended.stdout
    assert "exit code 3" in ended.stdout
    assert amplifier("tool", "show", "nonsense").returncode == 2


def test_bundles_are_listed_shown_checked_and_chosen(amplifier: Command, tmp_path: Path) -> None:
    own = tmp_path / "own.md"
    text = "---\nbundle: {name: own}\nincludes: [{bundle: default}]\n---\nBe brief.\n"
    own.write_text(text, encoding="utf-8")

    assert amplifier("bundle", "validate", "default").returncode == 0
    assert amplifier("bundle", "add", "own", str(own)).returncode == 0
    assert amplifier("bundle", "use", "own").returncode == 0
    assert "own      active" in amplifier("bundle", "list").stdout
    assert "bundle:own/own.md" in amplifier("bundle", "show", "own").stdout
    assert json.loads(amplifier("bundle", "show", "own", "--plan").stdout)["tools"]
    assert amplifier("bundle", "validate", "nonsense").returncode == 2


@pytest.mark.parametrize("where", ["./none.yaml", "none", "/none/bundle.md", "file:///none"])
def test_a_bundle_is_not_added_from_a_path_that_does_not_exist(
    amplifier: Command, home: Path, where: str
) -> None:
    refused = amplifier("bundle", "add", "own", where)

    assert refused.returncode == 2
    what, why, following = refused.stderr.splitlines()
    assert what == f"error  There is no bundle at `{where}`."
    assert why.endswith("does not exist.")
    assert following.startswith("next   Name a file or folder that exists")
    assert not (home / "settings.yaml").exists()


@pytest.mark.parametrize(
    "where",
    ["git+https://example.com/org/none@main", "package:none", "default", "default:guards"],
)
def test_a_bundle_is_added_by_its_address_or_another_name(
    amplifier: Command, home: Path, where: str
) -> None:
    added = amplifier("bundle", "add", "own", where)

    assert added.returncode == 0, added.stderr
    assert where in (home / "settings.yaml").read_text("utf-8")


def test_a_bundle_is_added_by_its_path_without_the_ending(
    amplifier: Command, home: Path, project: Path
) -> None:
    (project / "team.yaml").write_text("includes: [default]\n", encoding="utf-8")

    assert amplifier("bundle", "add", "own", "team").returncode == 0
    assert str(project / "team") in (home / "settings.yaml").read_text("utf-8")


def test_a_module_that_is_not_what_the_lock_pins_is_refused_with_the_fix(
    amplifier: Command, project: Path, home: Path
) -> None:
    amplifier("module", "new", "tool-weather")
    home.mkdir(exist_ok=True)
    source = {"module": "tool-weather", "source": str(project / "tool-weather")}
    text = json.dumps({"modules": {"tools": [source]}})
    (home / "settings.yaml").write_text(text, encoding="utf-8")
    locked = amplifier("module", "lock")
    assert locked.returncode == 0, locked.stderr
    assert "weather" in amplifier("tool", "list").stdout

    tool = project / "tool-weather/src/amplifier_module_tool_weather/tool.py"
    tool.write_text(tool.read_text("utf-8").replace("Greets.", "Greets!"), encoding="utf-8")

    done = amplifier("tool", "list")
    assert "\nweather " not in done.stdout
    assert "amplifier module lock" in done.stderr
    assert amplifier("doctor").returncode == 1
