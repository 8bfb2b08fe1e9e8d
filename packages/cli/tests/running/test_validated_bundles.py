"""`amplifier bundle validate`: a bundle is good when all of its modules mount, as in a run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# Each starts the command, and that a process of its own.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MOUNT = "async def mount(coordinator, config=None):\n    return None\n"


def write_module(folder: Path, code: str) -> dict[str, str]:
    """Write a module with some code before its mount, and return its entry."""
    package = folder / f"amplifier_module_{folder.name.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"{code}\n\n\n{MOUNT}", encoding="utf-8")
    return {"module": folder.name, "source": str(folder)}


def write_bundle(home: Path, *hooks: dict[str, str]) -> None:
    """Write a bundle with nothing but a loop, a memory and these hooks."""
    path = home / "bundles" / "own.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")


def test_the_default_bundle_is_good(amplifier: Command) -> None:
    validated = amplifier("bundle", "validate")

    assert validated.stdout == "default: good\n", validated.stdout
    assert validated.returncode == 0


def test_a_module_that_does_not_import_makes_a_bundle_unusable_and_the_others_are_tried(
    amplifier: Command, home: Path, tmp_path: Path
) -> None:
    write_bundle(
        home,
        write_module(tmp_path / "hooks-broken", "import no_such_library"),
        write_module(tmp_path / "hooks-raising", "raise ValueError('no\\nway')"),
        write_module(tmp_path / "hooks-good", ""),
        {"module": "hooks-nowhere"},
    )

    validated = amplifier("bundle", "validate", "own")

    assert validated.returncode == 1
    lines = validated.stdout.splitlines()
    assert lines[0] == "  error  hooks-nowhere is neither installed nor has it a source"
    assert lines[1].startswith("  error  hooks-broken does not mount: ")
    assert "no_such_library" in lines[1]
    assert lines[2].startswith("  error  hooks-raising does not mount: ")
    assert lines[3].startswith("own: cannot be used (")
    assert len(lines) == 4
    assert "Traceback" not in validated.stderr


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time\ntime.sleep(600)", "hooks-bad does not mount: It did not mount within 20"),
        ("import os\nos._exit(0)", "hooks-bad does not mount: The process that mounted it ended"),
    ],
)
def test_a_module_that_hangs_or_ends_the_process_is_named(
    amplifier: Command, home: Path, tmp_path: Path, code: str, why: str
) -> None:
    write_bundle(home, write_module(tmp_path / "hooks-bad", code))

    validated = amplifier("bundle", "validate", "own", "--timeout", "20")

    assert validated.returncode == 1
    assert why in validated.stdout, validated.stdout


def test_the_other_modules_are_tried_when_the_loop_and_the_memory_do_not_mount(
    amplifier: Command, home: Path, tmp_path: Path
) -> None:
    parts = {
        "orchestrator": write_module(tmp_path / "loop-bad", "import no_such_loop"),
        "context": write_module(tmp_path / "context-bad", "import no_such_memory"),
    }
    hook = write_module(tmp_path / "hooks-bad", "import no_such_library")
    write_bundle(home)
    text = json.dumps({"session": parts, "hooks": [hook]})
    (home / "bundles" / "own.yaml").write_text(text, encoding="utf-8")

    validated = amplifier("bundle", "validate", "own")

    assert validated.returncode == 1
    for missing in ("no_such_loop", "no_such_memory", "no_such_library"):
        assert missing in validated.stdout
