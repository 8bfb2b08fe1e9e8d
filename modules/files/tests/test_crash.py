"""A process that is killed, or a kernel that lacks a call: staged with strace, for real."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplifier_module_files.checkpoints import Checkpoints
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

# What changes a disk; between two of these there is nothing new to be found after a crash.
CALLS = ("write", "fsync", "/^rename", "/^link", "/^unlink", "/^mkdir", "/^fchmod", "openat2")

WRITE = """
import sys
from pathlib import Path
from amplifier_sandbox.files.rooted import Root
Root(Path(sys.argv[1])).write_atomic("a", b"new" * 100_000)
"""

CREATE = """
import sys
from pathlib import Path
from amplifier_sandbox.files.rooted import Root
Root(Path(sys.argv[1])).write_atomic(sys.argv[2], b"new", replaces=None)
"""

CHANGE = """
import sys
from pathlib import Path
from amplifier_module_files.checkpoints import Checkpoints
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace
workspace = Workspace(Root(Path(sys.argv[1])))
checkpoints = Checkpoints(Path(sys.argv[2]), workspace, limit=1_000_000, keep=10)
checkpoints.change(workspace.locate("a"), b"old" * 100_000, b"new" * 100_000)
checkpoints.change(workspace.locate("deep/b"), None, b"made")
"""

PROBES = """
import json, sys
from pathlib import Path
from amplifier_sandbox.files.rooted import kernel_resolves_beneath
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Root
root = Root(Path(sys.argv[1]))
def outcome(name):
    try:
        root.stat(name)
        return root.read(name, 100).decode()
    except RefusedError as error:
        return error.rule
    except OSError as error:
        return type(error).__name__
root.mkdirs("made/deep")
root.write_atomic("made/deep/file", b"made")
found = {name: outcome(name) for name in sys.argv[2:]}
print(json.dumps([kernel_resolves_beneath(), found, root.stat("").st_size > 0]))
"""

OLD, NEW = b"old" * 100_000, b"new" * 100_000


def run(inject: str, program: str, *args: Path | str) -> subprocess.CompletedProcess[str]:
    """Run a program while strace interferes with its system calls."""
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={inject}"]
    command += [sys.executable, "-B", "-c", program, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def killed_everywhere(program: str, prepare: Callable[[], tuple[Path, ...]]) -> Iterator[str]:
    """Run the program again and again, killed at one call later each time; yield after each."""
    for call in CALLS:
        for number in range(1, 100):
            ended = run(f"{call}:signal=SIGKILL:when={number}", program, *prepare())
            yield f"{call} {number}"
            if ended.returncode == 0:
                break
        else:
            pytest.fail("it never came to its end")


@pytest.mark.attack("F5")
def test_a_write_killed_at_any_call_leaves_the_old_or_the_new(work: Path) -> None:
    found: list[bytes] = []

    def prepare() -> tuple[Path, ...]:
        (work / "a").write_bytes(OLD)
        return (work,)

    for _ in killed_everywhere(WRITE, prepare):
        found.append((work / "a").read_bytes())

    # One run for each kind of call comes to its end; some were killed before, some after.
    assert set(found) == {OLD, NEW}
    assert found.count(OLD) >= 5


@pytest.mark.slow
@pytest.mark.attack("F5")
def test_a_change_killed_at_any_call_can_be_undone(work: Path, tmp_path: Path) -> None:
    store, runs = tmp_path / "store", 0

    def prepare() -> tuple[Path, ...]:
        shutil.rmtree(work)
        shutil.rmtree(store, ignore_errors=True)
        work.mkdir()
        (work / "a").write_bytes(OLD)
        return work, store

    for where in killed_everywhere(CHANGE, prepare):
        runs += 1
        assert (work / "a").read_bytes() in (OLD, NEW), where
        checkpoints = Checkpoints(store, Workspace(Root(work)), limit=1_000_000, keep=10)
        for each in checkpoints.list():
            checkpoints.undo(each.turn)
        assert (work / "a").read_bytes() == OLD, where
        assert not (work / "deep/b").exists(), where
    assert runs > 50


@pytest.mark.attack("F5")
@pytest.mark.parametrize("call", ["write", "fsync", "/^rename"])
def test_a_disk_that_fails_leaves_the_old_and_nothing_beside(work: Path, call: str) -> None:
    (work / "a").write_bytes(OLD)

    ended = run(f"{call}:error=EIO:when=1", WRITE, work)

    assert "Input/output error" in ended.stderr
    assert (work / "a").read_bytes() == OLD
    assert [each.name for each in work.iterdir()] == ["a"]


def test_a_file_system_without_hard_links_gets_new_files_and_keeps_old_ones(work: Path) -> None:
    (work / "there").write_bytes(OLD)

    made = run("/^link:error=EPERM", CREATE, work, "new")
    refused = run("/^link:error=EPERM", CREATE, work, "there")

    assert (made.returncode, refused.returncode) == (0, 1)
    assert (work / "new").read_bytes() == b"new"
    assert (work / "there").read_bytes() == OLD
    assert sorted(each.name for each in work.iterdir()) == ["new", "there"]


@pytest.mark.attack("F1")
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_a_kernel_without_the_call_follows_the_same_links_and_none_outside(
    work: Path, secret: Path, error: str
) -> None:
    (work / "a").write_bytes(b"text")
    (work / "sub").mkdir()
    (work / "inside").symlink_to("a")
    (work / "out").symlink_to(secret)
    (work / "folder").symlink_to(secret.parent)
    expected = {
        "a": "text",
        "sub/../a": "text",
        "made/deep/file": "made",
        "inside": "text",
        "out": "outside",
        "folder/secret.txt": "outside",
        "../secret.txt": "outside",
        "sub/../../secret.txt": "outside",
        "/etc/passwd": "outside",
        "a/b": "NotADirectoryError",
        "none": "FileNotFoundError",
        "sub": "kind",
    }

    ended = run(f"openat2:error={error}", PROBES, work, *expected)

    assert json.loads(ended.stdout or ended.stderr) == [False, expected, True]
