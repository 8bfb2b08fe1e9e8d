"""A process that is killed and a disk that fails: staged with strace and small disks, for real."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_foundation.store import SessionStore, StoreError

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

# What changes a disk, and at which of them to look: between two of these there is nothing new to be
# found after a crash. Nearly all that write at a position are the index's, which is derived.
CALLS = {
    "write": 1,
    "fsync": 1,
    "/^rename": 1,
    "/^mkdir": 1,
    "/^ftruncate": 1,
    "/^unlink": 1,
    "/^pwrite": 9,
}

# A session of twenty steps; each is acknowledged to another process as soon as it is appended.
SCRIPT = """
import socket, sys
from pathlib import Path
from amplifier_foundation.store import SessionStore
store, acknowledged = SessionStore(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
def steps(writer, first):
    for number in range(first, first + 10):
        text = f"{number}" + " large" * 11_000 * (number % 10 == 5)
        writer.append("prompt", {"text": text})
        acknowledged.send(b".")
        if number % 4 == 0:
            writer.sync()
            writer.update(title=f"turn {number}", turns=number)
with store.create("s", project=Path(sys.argv[1])) as writer:
    steps(writer, 0)
with store.open("s") as writer:
    steps(writer, 10)
"""

APPEND = """
import json, sys
from pathlib import Path
from amplifier_foundation.store import SessionStore
store, said = SessionStore(Path(sys.argv[1])), []
def attempt(work, *args):
    try:
        work(*args)
        said.append("saved")
    except Exception as error:
        said.append([type(error).__name__, str(error)])
writer = store.open("s")
for number in range(int(sys.argv[2])):
    attempt(writer.append, "prompt", {"text": f"{number} " + "x" * 1000})
    attempt(writer.sync)
print(json.dumps(said))
"""


def traced(inject: str, program: str, *args: Path | str) -> list[str]:
    """Return a command that runs a program while strace interferes with its system calls."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={inject}"]
    return [*strace, sys.executable, "-B", "-c", program, *map(str, args)]


def killed(home: Path, call: str, number: int) -> tuple[bool, int]:
    """Run the script, killed at one call; return whether it was, and what was acknowledged."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = traced(f"{call}:signal=SIGKILL:when={number}", SCRIPT, home, str(theirs.fileno()))
        ended = subprocess.run(
            command, pass_fds=[theirs.fileno()], timeout=60, capture_output=True, check=False
        )
        theirs.close()
        return ended.returncode != 0, len(b"".join(iter(lambda: ours.recv(4_096), b"")))


def numbers(store: SessionStore) -> list[int]:
    return [int(record.data["text"].split()[0]) for record in store.read("s").records()]


def resumes(home: Path, acknowledged: int, where: str) -> None:
    """Check that nothing acknowledged is lost and that the session continues."""
    store = SessionStore(home)
    listed = [each.session_id for each in store.list()]
    if not listed:
        assert acknowledged == 0, where
        store.create("s", project=home).close()
    there = numbers(store)
    assert there == list(range(len(there))), where
    assert acknowledged <= len(there) <= acknowledged + 1, where
    with store.open("s") as writer:
        assert writer.append("prompt", {"text": f"{len(there)}"}) == len(there) + 1, where
    reader = store.read("s")
    assert len(list(reader.records())) == len(there) + 1, where
    assert reader.damage == [], where
    assert [each.session_id for each in store.list()] == ["s"], where
    assert not list(reader.folder.glob(".*")), where


@needs_strace
@pytest.mark.attack("D1")
@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("write", 3),
        ("write", 9),
        ("fsync", 4),
        ("/^rename", 3),
        ("/^ftruncate", 2),
        ("/^pwrite", 9),
    ],
)
def test_a_session_killed_at_a_call_loses_nothing(home: Path, call: str, number: int) -> None:
    was_killed, acknowledged = killed(home, call, number)

    assert was_killed
    resumes(home, acknowledged, f"{call} {number}")


@needs_strace
@pytest.mark.slow
@pytest.mark.attack("D1")
@pytest.mark.parametrize(("call", "step"), CALLS.items())
def test_a_session_killed_at_every_call_loses_nothing(tmp_path: Path, call: str, step: int) -> None:
    for number in range(1, 1_000, step):
        home = tmp_path / str(number)
        was_killed, acknowledged = killed(home, call, number)
        resumes(home, acknowledged, f"{call} {number}")
        if not was_killed:
            assert acknowledged == 20
            return
    pytest.fail("it never came to its end")


@needs_strace
@pytest.mark.attack("D3")
def test_a_disk_that_cannot_sync_says_so_and_never_says_saved_again(
    store: SessionStore, home: Path, log: Path
) -> None:
    # The lock and the log are put onto the disk when the session is opened, then its folder.
    command = traced("fsync:error=EIO:when=4", APPEND, home, "2")

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    first, sync, *others = json.loads(ended.stdout)
    assert first == "saved"
    assert sync[0] == "StoreError"
    assert "did not save the session. Input/output error." in sync[1]
    assert [each[0] for each in others] == ["StoreError", "StoreError"]
    with store.open("s") as writer:
        assert writer.append("prompt", {"text": "again"}) == 5


@needs_strace
@pytest.mark.attack("D3")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_write_that_fails_keeps_the_log_sound(
    store: SessionStore, home: Path, log: Path, error: str
) -> None:
    # The first write is to the lock, the second is the line of the new writer.
    command = traced(f"write:error={error}:when=4", APPEND, home, "3")

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    said = json.loads(ended.stdout)
    kind = "StoreFullError" if error == "ENOSPC" else "StoreError"
    assert [each if each == "saved" else each[0] for each in said[::2]] == ["saved", kind, "saved"]
    reader = store.read("s")
    assert [each.seq for each in reader.records()] == [1, 2, 3, 4, 5]
    assert reader.damage == []


@needs_strace
@pytest.mark.attack("D3")
def test_metadata_that_cannot_be_put_in_place_stays_as_it_was(
    store: SessionStore, home: Path, log: Path
) -> None:
    update = """
import sys
from pathlib import Path
from amplifier_foundation.store import SessionStore
writer = SessionStore(Path(sys.argv[1])).open("s")
try:
    writer.update(title="new")
except Exception as error:
    print(error)
"""
    before = (log.parent / "metadata.json").read_bytes()

    command = traced("/^rename:error=EIO:when=1", update, home)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert "metadata was not saved. Input/output error." in ended.stdout
    assert (log.parent / "metadata.json").read_bytes() == before
    assert not list(log.parent.glob(".*"))


def on_small_disk(tmp_path: Path, options: str, program: str) -> str:
    """Run a program with a home on a disk of its own; skip the test where that is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "program.py").write_text(program)
    script = f"mount -t tmpfs -o {options} tmpfs {disk} && exec {sys.executable} -B"
    command = ["unshare", "-m", "sh", "-c", f"{script} {tmp_path / 'program.py'} {disk}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "Operation not permitted" in ended.stderr or "permission denied" in ended.stderr.lower():
        pytest.skip(f"a disk of its own needs rights that this user lacks: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


FULL = """
import json, os, sys
from pathlib import Path
from amplifier_foundation.store import SessionStore, StoreFullError
disk = Path(sys.argv[1])
store = SessionStore(disk / "home")
writer = store.create("s", project=disk)
(disk / "other").write_bytes(b"x" * 64_000)
saved, refused = 0, []
while len(refused) < 3:
    try:
        writer.append("prompt", {"text": f"{saved} " + "x" * 3_000})
        saved += 1
    except StoreFullError as error:
        refused.append(str(error))
try:
    writer.append("prompt", {"text": "large " * 20_000})
except StoreFullError as error:
    refused.append(str(error))
try:
    writer.update(title="no room")
except StoreFullError as error:
    refused.append(str(error))
reader = store.read("s")
there, damage = [each.seq for each in reader.records()], [each.kind for each in reader.damage]
listed = len(store.list())
(disk / "other").unlink()
writer.append("prompt", {"text": "room again"})
writer.close()
with store.open("s") as writer:
    again = writer.seq
print(json.dumps([saved, refused, len(there), damage, listed, again]))
"""

READ_ONLY = """
import json, os, subprocess, sys
from pathlib import Path
from amplifier_foundation.store import SessionStore
disk = Path(sys.argv[1])
store, said = SessionStore(disk / "home"), []
with store.create("s", project=disk) as writer:
    writer.append("prompt", {"text": "one"})
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
def attempt(work, *args, **options):
    try:
        work(*args, **options)
        said.append("done")
    except Exception as error:
        said.append([type(error).__name__, str(error)])
attempt(store.open, "s")
attempt(store.create, "t", project=disk)
attempt(store.delete, "s")
texts = [record.data["text"] for record in store.read("s").records()]
print(json.dumps([said, texts, [each.session_id for each in store.list()]]))
"""


@pytest.mark.attack("D3")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_full_disk_refuses_whole_records_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    said = on_small_disk(tmp_path, "size=256k", FULL)

    saved, refused, there, damage, listed, again = json.loads(said)
    assert saved > 20
    assert len(refused) == 5
    assert all("No space left on device" in each and "not saved" in each for each in refused)
    assert (there, damage) == (saved, [])
    assert listed == 1
    assert again == saved + 1


@pytest.mark.attack("D3")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_read_only_disk_is_read_and_says_that_it_cannot_be_written(tmp_path: Path) -> None:
    said, texts, listed = json.loads(on_small_disk(tmp_path, "size=1m", READ_ONLY))

    assert [each[0] for each in said] == ["StoreError"] * 3
    assert all("Read-only file system" in each[1] for each in said)
    assert (texts, listed) == (["one"], ["s"])


def test_a_session_that_could_not_be_made_leaves_nothing_open(
    store: SessionStore, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("it reads /proc")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(Path, "replace", full)
        with pytest.raises(StoreError, match="No space left"):
            store.create("s", project=project)

    held = {each.resolve() for each in Path("/proc/self/fd").iterdir() if each.exists()}
    assert not [each for each in held if each.is_relative_to(home)]
    store.open("s").close()
