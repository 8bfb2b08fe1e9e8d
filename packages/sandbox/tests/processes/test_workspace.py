"""Protected paths stay as they are, absent ones absent, and nothing is left of protecting them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.workspace import Placeholder

HOLD = """
import sys
from pathlib import Path
from amplifier_sandbox.processes.workspace import Placeholder
held = Placeholder(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
held.release()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.attack("C4")
@pytest.mark.parametrize(
    "script",
    [
        "mkdir .git",
        "touch .git",
        "ln -s /tmp .git",
        "mv made .git",
        "rmdir .git",
        "mv .git elsewhere",
        "mkdir .git/hooks",
    ],
)
def test_a_protected_path_that_is_absent_cannot_be_made(
    bubblewrap: Sandbox, run: Any, workspace: Path, script: str
) -> None:
    done = run(bubblewrap, f"mkdir made; {script}")

    assert done.returncode != 0
    assert names(workspace) == ["made"]


@pytest.mark.attack("C4")
def test_a_folder_above_a_protected_path_cannot_be_moved_away(
    bubblewrap: Sandbox, run: Any, workspace: Path
) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n", "utf-8")

    done = run(
        bubblewrap,
        "mv .git other && mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; "
        "echo x > .git/config; echo x > .git/index",
        protected=[".git/hooks", ".git/config"],
    )

    assert "busy" in done.stderr
    assert names(workspace / ".git" / "hooks") == []
    assert (workspace / ".git" / "config").read_text("utf-8") == "[core]\n"
    assert (workspace / ".git" / "index").read_text("utf-8") == "x\n"


def test_a_file_in_place_of_a_folder_is_protected_itself(
    bubblewrap: Sandbox, run: Any, workspace: Path
) -> None:
    (workspace / ".git").write_text("gitdir: elsewhere\n", "utf-8")

    done = run(bubblewrap, "echo x > .git; rm .git", protected=[".git/hooks"])

    assert done.returncode != 0
    assert (workspace / ".git").read_text("utf-8") == "gitdir: elsewhere\n"


@pytest.mark.attack("C4")
def test_a_link_cannot_be_protected_and_so_nothing_runs(
    bubblewrap: Sandbox, run: Any, workspace: Path
) -> None:
    (workspace / ".git").symlink_to("/etc")

    with pytest.raises(SandboxError, match="symbolic link"):
        run(bubblewrap, "true")
    assert names(workspace) == [".git"]


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../x", "", "a\0b"])
def test_a_protected_path_lies_in_the_workspace(bubblewrap: Sandbox, run: Any, path: str) -> None:
    with pytest.raises(SandboxError, match="within the workspace"):
        run(bubblewrap, "true", protected=[path])


def test_the_last_share_takes_the_placeholder_away(tmp_path: Path) -> None:
    path = tmp_path / "held"
    first, second = Placeholder(path), Placeholder(path)

    first.release()
    assert path.is_dir()
    second.release()
    second.release()

    assert not path.exists()


def test_a_placeholder_that_another_process_shares_stays(tmp_path: Path) -> None:
    path = tmp_path / "held"
    mine = Placeholder(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        mine.release()
        assert path.is_dir()
        other.communicate(timeout=120)


def test_a_placeholder_that_was_filled_stays(tmp_path: Path) -> None:
    path = tmp_path / "held"
    held = Placeholder(path)
    (path / "work").touch()

    held.release()

    assert names(path) == ["work"]


def test_an_empty_folder_of_somebody_else_stays(
    bubblewrap: Sandbox, run: Any, workspace: Path
) -> None:
    (workspace / ".amplifier").mkdir()

    assert run(bubblewrap, "true").returncode == 0
    assert names(workspace) == [".amplifier"]


def test_a_failed_preparation_leaves_nothing(bubblewrap: Sandbox, workspace: Path) -> None:
    (workspace / "link").symlink_to("/etc")

    with ExitStack() as stack, pytest.raises(SandboxError):
        stack.enter_context(
            bubblewrap.command(["/bin/true"], workspace=workspace, protected=[".git", "link"])
        )

    assert names(workspace) == ["link"]
