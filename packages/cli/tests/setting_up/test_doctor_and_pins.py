"""`amplifier doctor` in a project whose lock pins modules by their path."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Each starts the command several times.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

REPOSITORY = Path(__file__).parents[4]


def write_bundle(path: Path, **more: Any) -> None:
    """Write a bundle that adds something to the default one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"bundle": {"name": path.stem}, "includes": ["default"], **more}
    path.write_text(json.dumps(content), encoding="utf-8")


def looked(amplifier: Command) -> dict[str, list[dict[str, str]]]:
    """Return what `doctor` found by what it is about; it prints nothing beside it."""
    done = amplifier("doctor", "--json")
    assert done.stderr == ""
    found: dict[str, list[dict[str, str]]] = {}
    for each in json.loads(done.stdout):
        found.setdefault(each["what"], []).append(each)
    return found


@pytest.fixture
def weather(amplifier: Command, tmp_path: Path) -> dict[str, str]:
    """The entry of a new tool outside the project."""
    amplifier("module", "new", "tool-weather", cwd=tmp_path)
    return {"module": "tool-weather", "source": str(tmp_path / "tool-weather")}


def change(weather: dict[str, str]) -> None:
    """Change the code of the tool."""
    (code,) = Path(weather["source"]).rglob("amplifier_module_tool_weather/__init__.py")
    code.write_text(code.read_text("utf-8") + "\nCHANGED = True\n", encoding="utf-8")


def test_a_lock_of_a_bundle_that_is_not_active_is_one_finding_without_a_traceback(
    amplifier: Command, home: Path, tmp_path: Path, weather: dict[str, str]
) -> None:
    loop = tmp_path / "loops"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "tests")
    shutil.copytree(REPOSITORY / "modules" / "loops", loop, ignore=ignored)
    session = {"orchestrator": {"module": "loop-streaming", "source": str(loop)}}
    write_bundle(home / "bundles" / "own.yaml", session=session, tools=[weather])
    assert amplifier("module", "lock", "-b", "own").returncode == 0

    found = looked(amplifier)

    (guards,) = found["guards"]
    assert guards["level"] == "error"
    told = "no session of `default` starts: `loop-streaming` is not what amplifier.lock pins."
    assert guards["told"].startswith(told)
    assert "\n" not in guards["told"]
    assert guards["fix"] == "amplifier module lock"
    assert [each["level"] for each in found["lock"]] == ["ok"]
    assert amplifier("module", "lock").returncode == 0
    again = looked(amplifier)
    assert again["guards"][0]["level"] == "ok"
    assert [each["level"] for each in again["lock"]] == ["ok"]


def test_a_loop_that_does_not_start_is_one_finding_without_a_traceback(
    amplifier: Command, home: Path, tmp_path: Path
) -> None:
    package = tmp_path / "loop-broken" / "amplifier_module_loop_broken"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import no_such_library\n", encoding="utf-8")
    entry = {"module": "loop-broken", "source": str(package.parent)}
    write_bundle(home / "bundles" / "own.yaml", session={"orchestrator": entry})
    (home / "settings.yaml").write_text("bundle: own\n", encoding="utf-8")

    (guards,) = looked(amplifier)["guards"]

    assert guards["level"] == "error"
    assert guards["told"].startswith("no session of `own` starts: ")
    assert "no_such_library" in guards["told"]
    assert guards["fix"] == "amplifier bundle validate own"


@pytest.mark.parametrize("active", [True, False])
def test_a_module_that_is_pinned_by_a_path_elsewhere_is_compared(
    amplifier: Command, home: Path, weather: dict[str, str], active: bool
) -> None:
    write_bundle(home / "bundles" / "own.yaml", tools=[weather])
    if active:
        (home / "settings.yaml").write_text("bundle: own\n", encoding="utf-8")
    assert amplifier("module", "lock", "-b", "own").returncode == 0

    (fine,) = looked(amplifier)["lock"]
    change(weather)
    (drifted,) = looked(amplifier)["lock"]

    assert fine["level"] == "ok"
    assert fine["told"].endswith("none has changed")
    assert drifted["level"] == "error"
    assert drifted["told"].startswith("`tool-weather` is not what amplifier.lock pins. Its content")
    command = "amplifier module lock" if active else "amplifier module lock -b own"
    assert drifted["fix"] == command
    assert amplifier(*command.split()[1:]).returncode == 0
    assert looked(amplifier)["lock"][0]["level"] == "ok"


def test_a_module_of_a_fetched_bundle_is_compared(
    amplifier: Command, home: Path, tmp_path: Path, weather: dict[str, str]
) -> None:
    published = tmp_path / "published"
    shutil.copytree(weather["source"], published / "modules" / "tool-weather")
    tool = {"module": "tool-weather", "source": "./modules/tool-weather"}
    content = {"bundle": {"name": "published"}, "tools": [tool]}
    (published / "bundle.yaml").write_text(json.dumps(content), encoding="utf-8")
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "."),
        ("-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "--quiet", "-mx"),
    ):
        subprocess.run(["git", *command], cwd=published, check=True)
    includes = ["default", f"git+file://{published}@main"]
    write_bundle(home / "bundles" / "own.yaml", includes=includes)
    assert amplifier("module", "lock", "-b", "own").returncode == 0

    (lock,) = looked(amplifier)["lock"]

    assert lock["level"] == "ok", lock


def test_a_pinned_module_whose_path_nobody_names_is_said_to_be_not_compared(
    amplifier: Command, home: Path, weather: dict[str, str]
) -> None:
    own = home / "bundles" / "own.yaml"
    write_bundle(own, tools=[weather])
    assert amplifier("module", "lock", "-b", "own").returncode == 0
    own.unlink()

    unknown, rest = looked(amplifier)["lock"]

    assert unknown["level"] == "info"
    assert unknown["told"].endswith("says where it is: tool-weather")
    assert rest["level"] == "ok"
    assert "none of the others has changed" in rest["told"]
