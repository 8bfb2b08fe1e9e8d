"""The product with what only Linux has hidden, as on macOS and as on Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parents[1]
PLATFORMS = ("darwin", "win32")

pytestmark = pytest.mark.slow


def masked(platform: str, *command: str) -> list[str]:
    """Return a command line that runs Python as on another platform."""
    return [sys.executable, str(FOLDER / "as_platform.py"), platform, *command]


def run(
    platform: str, *command: str, home: Path, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        masked(platform, *command),
        cwd=cwd,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AMPLIFIER_HOME": str(home / ".amplifier"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_module_can_be_imported(platform: str, tmp_path: Path) -> None:
    done = run(platform, str(FOLDER / "import_everything.py"), home=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_command_describes_itself(platform: str, tmp_path: Path, project: Path) -> None:
    done = run(platform, "-m", "amplifier_cli", "--help", home=tmp_path, cwd=project)

    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_doctor_finishes_every_check(platform: str, tmp_path: Path, project: Path) -> None:
    done = run(platform, "-m", "amplifier_cli", "doctor", "--json", home=tmp_path, cwd=project)

    findings = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    assert not [each for each in findings if "AttributeError" in each["told"]], findings
    assert not [each for each in findings if "ImportError" in each["told"]], findings


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_turn_without_tools_runs_and_is_stored(
    platform: str, tmp_path: Path, project: Path
) -> None:
    bundle = tmp_path / "plain.yaml"
    bundle.write_text(
        json.dumps(
            {
                "bundle": {"name": "plain"},
                "session": {
                    "orchestrator": {"module": "loop-basic"},
                    "context": {"module": "context-simple"},
                },
                "providers": [{"module": "provider-mock", "config": {"script": ["Hello."]}}],
            }
        ),
        encoding="utf-8",
    )
    arguments = ("run", "-q", "-b", str(bundle), "hi")

    done = run(platform, "-m", "amplifier_cli", *arguments, home=tmp_path, cwd=project)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Hello."
    assert list(tmp_path.glob(".amplifier/projects/*/sessions/*/log.jsonl"))


@pytest.mark.parametrize("platform", ["linux", *PLATFORMS])
def test_a_lock_keeps_other_processes_out_until_it_is_released(
    platform: str, tmp_path: Path
) -> None:
    lock = str(tmp_path / "lock")
    holder = subprocess.Popen(
        masked(platform, str(FOLDER / "hold_lock.py"), lock),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        during = run(platform, str(FOLDER / "try_lock.py"), lock, home=tmp_path)
    after = run(platform, str(FOLDER / "try_lock.py"), lock, home=tmp_path)

    assert (during.stdout, after.stdout) == ("False", "True"), during.stderr + after.stderr


def test_what_windows_lacks_is_refused_by_name(tmp_path: Path) -> None:
    done = run("win32", str(FOLDER / "refusals.py"), home=tmp_path / "nobody")

    told: dict[str, str] = json.loads(done.stdout)
    assert told["sandbox"].startswith("SandboxError: there is no sandbox for win32")
    assert told["network"] == "NetworkError: win32 has no network namespaces; Linux has"
    assert "Windows lacks; run in WSL" in told["files"]
    assert told["postgres"].startswith("RuntimeError: A private PostgreSQL is not started")
    assert told["processes"] == "OSError: the processes of Windows cannot be listed here"
    assert told["process end"].startswith("OSError: the end of a process cannot be watched")
    assert "is not in your user profile" in told["exposure"]


def test_suites_pass_without_what_only_linux_has(tmp_path: Path) -> None:
    """A sample: `make test-masked` runs the suites of more packages."""
    # The mask has imported the libraries before pytest could rewrite their asserts.
    options = ("-q", "--assert=plain", "-p", "no:cacheprovider", "--color=no")
    suites = ("packages/kit", "packages/agent")

    done = run("darwin", "-m", "pytest", *options, *suites, home=tmp_path, cwd=REPOSITORY)

    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
    assert " passed" in done.stdout
