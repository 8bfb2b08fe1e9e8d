"""The levels of protection: each found by trying it, none taken for more than it is."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_sandbox.platforms.users import is_administrator
from amplifier_sandbox.processes import sandbox as sandbox_file
from amplifier_sandbox.processes.bubblewrap import find_bubblewrap
from amplifier_sandbox.processes.control_groups import ControlGroups
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.program import Program
from amplifier_sandbox.processes.program import run as run_program
from amplifier_sandbox.processes.sandbox import Sandbox

SAY_LEVEL = (
    "from amplifier_sandbox.processes.sandbox import Sandbox as S; s=S.detect(); print(s.level, s)"
)
LANDLOCK_ESCAPES = {
    "write to the system": "echo x > /etc/planted",
    "read the passwords": "cat /etc/shadow",
    "read a home": "ls ~root",
    "see processes": "ls /proc",
    "another environment": "cat /proc/$PPID/environ",
    "change a mode": "chmod 777 /etc/passwd",
    "change an open file's mode": "python3 -c 'import os; "
    'os.fchmod(os.open("/etc/passwd", 0), 511)\'',
    "change an owner": "chown 1 /etc/passwd",
    "signal outside": "kill -CONT $OUTSIDE",
    "user namespace": "unshare -Ur true",
    "mount": "mount -t tmpfs none .",
    "socket": "python3 -c 'import socket; socket.socket()'",
    "device": "mknod disk b 8 0",
}


def sleeping(seconds: int) -> list[Path]:
    """Return the processes that sleep for just so long."""
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"sleep\0{seconds}".encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.attack("S9")
def test_a_bubblewrap_that_others_may_replace_is_not_trusted(tmp_path: Path) -> None:
    planted = tmp_path / "bwrap"
    shutil.copy("/usr/bin/bwrap", planted)
    planted.chmod(0o777)

    assert find_bubblewrap([str(tmp_path)]) is None
    assert find_bubblewrap([str(tmp_path), "/usr/bin"]) == "/usr/bin/bwrap"


@pytest.mark.attack("S9")
def test_without_user_namespaces_the_level_is_lower_and_says_why(
    bubblewrap: Sandbox, run: Any
) -> None:
    python, sources = Path(sys.executable), Path(sandbox_file.__file__).parents[2]
    visible = [python.parents[1], python.resolve().parents[1], sources]

    done = run(bubblewrap, f"PYTHONPATH={sources} {python} -c '{SAY_LEVEL}'", read_only=visible)

    assert done.stdout.startswith("landlock "), done.stderr
    assert "bubblewrap does not work here: " in done.stdout


@pytest.mark.attack("S9")
def test_where_nothing_works_nothing_is_started(workspace: Path) -> None:
    nothing = Sandbox("none", reasons=("bubblewrap is not installed", "there is no Landlock"))

    with pytest.raises(SandboxError, match="not installed; there is no Landlock"):
        nothing.command(["/bin/true"], workspace=workspace)


def test_a_path_that_does_not_exist_is_said_so(bubblewrap: Sandbox, workspace: Path) -> None:
    with pytest.raises(SandboxError, match="no such folder"):
        bubblewrap.command(["/bin/true"], workspace=workspace, read_only=["/no such folder"])


@pytest.mark.attack("S9")
def test_a_bubblewrap_that_fails_is_not_taken_for_one_that_works(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no luck >&2; exit 1\n", "utf-8")
    (tmp_path / "bwrap").chmod(0o755)

    found = Sandbox.detect(folders=[str(tmp_path)])

    assert found.level == "landlock"
    assert found.reasons == ("bubblewrap does not work here: no luck",)


def test_each_level_describes_itself(bubblewrap: Sandbox, landlock: Sandbox) -> None:
    assert "bubblewrap" in bubblewrap.describe()[0]
    assert landlock.describe()[-1] == "Bubblewrap is not installed in any folder."
    assert "no sandbox" in Sandbox("none").describe()[0]
    assert any("each process only" in line for line in Sandbox("none").describe())


@pytest.mark.attack("S8")
@pytest.mark.parametrize("name", LANDLOCK_ESCAPES)
def test_landlock_blocks(landlock: Sandbox, run: Any, name: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "OUTSIDE": str(os.getpid())}

    done = run(landlock, LANDLOCK_ESCAPES[name], protected=(), env=env)

    assert done.returncode != 0
    assert "denied" in done.stderr or "not permitted" in done.stderr


def test_landlock_leaves_the_workspace_usable_and_no_home_behind(
    landlock: Sandbox, run: Any
) -> None:
    done = run(landlock, "echo x > a; cat a; touch ~/b; echo $HOME; cat <(echo y)", protected=())

    written, home, substituted = done.stdout.split()
    assert (written, substituted, done.stderr) == ("x", "y", "")
    assert not Path(home).exists()


def test_an_exit_code_and_a_signal_come_through(
    bubblewrap: Sandbox, landlock: Sandbox, run: Any
) -> None:
    for sandbox in (bubblewrap, landlock):
        assert run(sandbox, "exit 7", protected=()).returncode == 7
        assert run(sandbox, "kill -TERM $$", protected=()).returncode == 128 + signal.SIGTERM


def test_a_program_that_does_not_exist_is_said_so(landlock: Sandbox, workspace: Path) -> None:
    with landlock.command(["/no/such/program"], workspace=workspace, protected=()) as launch:
        done = subprocess.run(
            launch.argv,
            check=False,
            capture_output=True,
            env=launch.env,
            pass_fds=launch.pass_fds,
            timeout=10,
        )

    if landlock.groups.counts_processes:
        assert done.returncode == 126
        assert b"the program was not started" in done.stderr
    else:
        # The shell that limits the processes looks for the program.
        assert done.returncode == 127
        assert b"/no/such/program: not found" in done.stderr


@pytest.mark.attack("S6")
@pytest.mark.parametrize("level", ["bubblewrap", "landlock", "none"])
async def test_everything_dies_with_its_program(
    level: str, workspace: Path, request: pytest.FixtureRequest
) -> None:
    sandbox = Sandbox.waived() if level == "none" else request.getfixturevalue(level)
    script = "(setsid sleep 987654 &) ; (setsid setsid sleep 987654 &); sleep 987654"
    argv = ["/bin/bash", "-c", script]
    with sandbox.command(argv, workspace=workspace, protected=()) as launch:
        program = Program(launch, lambda stream, data: None)
        try:
            assert await wait_for(lambda: len(sleeping(987654)) == 3, timeout=120)
        finally:
            started = time.monotonic()
            await program.end()

    assert time.monotonic() - started < 2
    assert await wait_for(lambda: not sleeping(987654), timeout=120)


@pytest.mark.attack("S6")
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_everything_dies_with_the_process_that_started_it(
    level: str, workspace: Path, request: pytest.FixtureRequest
) -> None:
    sandbox: Sandbox = request.getfixturevalue(level)
    argv = ["/bin/bash", "-c", "(setsid sleep 876543 &); sleep 876543"]
    starter = (
        "import subprocess, sys; subprocess.Popen(sys.argv[2:], pass_fds=eval(sys.argv[1])).wait()"
    )
    with sandbox.command(argv, workspace=workspace, protected=()) as launch:
        parent = subprocess.Popen(  # noqa: ASYNC220 - it is going to die
            [sys.executable, "-c", starter, repr(launch.pass_fds), *launch.argv],
            env=launch.env,
            pass_fds=launch.pass_fds,
            cwd=launch.cwd,
        )
        try:
            assert await wait_for(lambda: len(sleeping(876543)) == 2, timeout=120)
        finally:
            parent.kill()
            parent.wait()
        assert await wait_for(lambda: not sleeping(876543), timeout=120)


@pytest.mark.attack("S5")
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_without_control_groups_each_process_has_its_limit(
    level: str, run: Any, request: pytest.FixtureRequest
) -> None:
    found: Sandbox = request.getfixturevalue(level)
    plain = Sandbox(found.level, ControlGroups(), program=found.program)
    limits = Limits(memory_bytes=200 * 1024**2, processes=64, cpu_seconds=5)

    done = run(
        plain,
        "ulimit -v; ulimit -u; ulimit -t; /usr/bin/python3 -c 'x = bytearray(300 * 1024**2)'",
        protected=(),
        limits=limits,
    )

    assert done.stdout.split() == [str(200 * 1024), "64", "5"]
    assert "MemoryError" in done.stderr


@pytest.mark.attack("S5")
async def test_memory_is_counted_for_all_processes_together(
    bubblewrap: Sandbox, workspace: Path
) -> None:
    assert bubblewrap.groups.counts_memory, "these tests need a memory control group"
    hog = "for i in 1 2 3 4; do /usr/bin/python3 -c 'x = bytearray(40 * 1024**2)'& done; wait"
    argv = ["/bin/bash", "-c", f"{hog}; tail /dev/zero"]
    limits = Limits(memory_bytes=64 * 1024**2)
    with bubblewrap.command(argv, workspace=workspace, limits=limits) as launch:
        outcome = await run_program(launch, lambda stream, data: None, seconds=10, most_bytes=10**6)

    assert outcome.memory_kills >= 1


@pytest.fixture
def grouped(bubblewrap: Sandbox) -> Sandbox:
    """A sandbox with control groups; an ordinary user has them only where they were delegated."""
    if not is_administrator() and not bubblewrap.groups.parents:
        pytest.skip("this user has no control groups")
    return bubblewrap


async def test_groups_are_gone_when_their_program_is(grouped: Sandbox, workspace: Path) -> None:
    argv = ["/bin/bash", "-c", "(setsid sleep 300 &)"]
    with grouped.command(argv, workspace=workspace) as launch:
        await run_program(launch, lambda stream, data: None, seconds=10, most_bytes=10**6)

    left = [
        folder
        for parent in grouped.groups.parents
        for folder in parent.glob(f"amplifier-{os.getpid()}-*")
    ]
    assert grouped.groups.parents
    assert left == []


def test_what_a_dead_process_left_is_swept_up(grouped: Sandbox) -> None:
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    leftover = grouped.groups.parents[0] / f"amplifier-{gone.pid}-1"
    leftover.mkdir()

    ControlGroups.detect()

    assert not leftover.exists()


async def test_a_second_cancellation_leaves_nothing_either(
    bubblewrap: Sandbox, workspace: Path
) -> None:
    argv = ["/bin/bash", "-c", "echo $PPID; touch started; sleep 765432"]
    with bubblewrap.command(argv, workspace=workspace) as launch:
        running = asyncio.create_task(
            run_program(launch, lambda stream, data: None, seconds=60, most_bytes=10**6)
        )
        assert await wait_for((workspace / "started").exists, timeout=120)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=120)

    assert running.cancelled()
    assert await wait_for(lambda: not sleeping(765432), timeout=120)
