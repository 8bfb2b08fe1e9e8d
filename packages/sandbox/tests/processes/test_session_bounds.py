"""All commands of a session have one limit together, with control groups and without."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from amplifier_sandbox.platforms.users import is_administrator
from amplifier_sandbox.processes.control_groups import ControlGroup, ControlGroups
from amplifier_sandbox.processes.disk_use import DiskLimits, DiskUse, Space, use_of
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.program import Outcome, run
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.session_bounds import SessionBounds, counting_of

MIB = 1024**2
LIMITS = Limits(memory_bytes=128 * MIB, processes=64, temporary_bytes=8 * MIB)
HOG = "/usr/bin/python3 -c 'import sys; x = bytearray({size} * 1024**2); print(len(x)); {then}'"
WAIT = "sys.stdout.flush(); sys.stdin.close(); import time; time.sleep(60)"


@pytest.fixture
def plain(bubblewrap: Sandbox) -> Sandbox:
    """A machine without control groups."""
    return replace(bubblewrap, groups=ControlGroups())


def bounds_in(
    sandbox: Sandbox, disk: DiskLimits | None = None, at_a_time: int = 8
) -> SessionBounds:
    return SessionBounds(sandbox, LIMITS, disk or DiskLimits(), at_a_time)


async def execute(
    bounds: SessionBounds, workspace: Path, script: str, wait_seconds: float = 5
) -> tuple[Outcome, str]:
    """Run a script as a command of the session; return how it ended and what it wrote."""
    wrote = bytearray()
    async with bounds.admit(LIMITS, workspace, wait_seconds) as admission:
        argv = ["/bin/bash", "-c", script]
        with admission.sandbox.command(
            argv, workspace=workspace, limits=admission.limits
        ) as launch:
            outcome = await run(
                launch,
                lambda stream, data: wrote.extend(data),
                seconds=20,
                most_bytes=10**6,
                watch=admission.watch,
            )
    return outcome, wrote.decode()


@pytest.mark.attack("review M1")
async def test_commands_that_fit_alone_do_not_fit_together_in_a_control_group(
    bubblewrap: Sandbox, workspace: Path
) -> None:
    if counting_of(bubblewrap) == "shares":
        pytest.skip("this user has no control groups")
    bounds = bounds_in(bubblewrap)
    hog = HOG.format(size=70, then="import time; time.sleep(1)")

    alone, _ = await execute(bounds, workspace, hog)
    together = await asyncio.gather(*(execute(bounds, workspace, hog) for _ in range(3)))

    assert alone.exit_code == 0
    assert sum(outcome.memory_kills for outcome, _ in together) >= 1


@pytest.mark.attack("review M1")
async def test_commands_share_a_group_with_the_limits_which_is_gone_with_the_last_of_them(
    bubblewrap: Sandbox, workspace: Path
) -> None:
    if counting_of(bubblewrap) == "shares":
        pytest.skip("this user has no control groups")
    bounds = bounds_in(bubblewrap)
    async with bounds.admit(LIMITS, workspace, 5) as first:
        folders = first.sandbox.groups.parents
        limits = [
            path.read_text("ascii").strip()
            for folder in folders
            for name in ("memory.max", "memory.limit_in_bytes", "pids.max")
            if (path := folder / name).exists()
        ]
        async with bounds.admit(LIMITS, workspace, 5) as second:
            assert second.sandbox.groups.parents == folders
        assert all(folder.exists() for folder in folders)

    assert all(folder.name.startswith(f"amplifier-{os.getpid()}-") for folder in folders)
    assert not any(folder.exists() for folder in folders)
    assert {str(LIMITS.memory_bytes), str(LIMITS.processes)} <= set(limits)


def test_a_group_of_the_second_version_counts_what_is_inside_of_it(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("", "ascii")
    (tmp_path / "memory.use_hierarchy").write_text("0\n", "ascii")

    ControlGroup((tmp_path,)).count_below()

    assert (tmp_path / "cgroup.subtree_control").read_text("ascii") == "+pids"
    assert (tmp_path / "memory.use_hierarchy").read_text("ascii") == "1"


@pytest.mark.attack("review M1")
async def test_without_control_groups_each_command_has_a_share_and_few_run(
    plain: Sandbox, workspace: Path
) -> None:
    bounds = bounds_in(plain)

    async with bounds.admit(LIMITS, workspace, 5) as first, bounds.admit(LIMITS, workspace, 5):
        with pytest.raises(SandboxError, match="2 other commands"):
            await execute(bounds, workspace, "true", wait_seconds=0.01)
        shares = first.limits
    outcome, _ = await execute(bounds, workspace, "true")

    assert bounds.counting == "shares"
    assert (shares.memory_bytes, shares.processes) == (64 * MIB, 32)
    assert shares.temporary_bytes == 4 * MIB
    assert outcome.exit_code == 0


@pytest.mark.attack("review M1")
async def test_without_control_groups_three_readers_of_an_endless_file_stay_within_the_limit(
    plain: Sandbox, workspace: Path
) -> None:
    bounds = bounds_in(plain)

    ended = await asyncio.gather(
        *(execute(bounds, workspace, "tail -n 1 /dev/zero") for _ in range(3))
    )

    assert [outcome.exit_code for outcome, _ in ended] == [1, 1, 1]
    assert all("memory exhausted" in wrote for _, wrote in ended)


@pytest.mark.attack("review M1")
async def test_without_control_groups_the_processes_of_a_command_are_added_up(
    plain: Sandbox, workspace: Path
) -> None:
    hogs = "; ".join(f"{HOG.format(size=40, then=WAIT)} &" for _ in range(4))
    memory, _ = await execute(bounds_in(plain), workspace, f"{hogs.replace('&;', '&')} wait")
    roomy = SessionBounds(plain, replace(LIMITS, memory_bytes=8 * 1024**3), DiskLimits(), 8)
    many, _ = await execute(roomy, workspace, "for i in $(seq 80); do sleep 60 & done; wait")

    assert memory.ending == "stopped"
    assert f"{128 * MIB:,} bytes of memory" in memory.reason
    # An ordinary user is refused more processes by the kernel before they are added up.
    if is_administrator():
        assert "more than 64 processes" in many.reason


def test_the_use_of_a_program_is_that_of_all_below_it() -> None:
    memory, count = use_of([os.getpid()])

    assert count >= 1
    assert memory > MIB
    assert use_of([]) == (0, 0)


class Disk:
    """File systems whose figures a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.space = Space(used=0, free=10**9, free_files=10**6, reserve=10**8, reserve_files=10**4)

        def measure(use: DiskUse) -> Space:
            return self.space

        monkeypatch.setattr(DiskUse, "_measure", measure)

    def grow(self, size: int) -> None:
        """Have something take space."""
        self.space = replace(self.space, used=self.space.used + size, free=self.space.free - size)


@pytest.mark.attack("review L6")
def test_what_commands_add_is_added_up_and_what_is_removed_is_taken_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk(monkeypatch)
    use = DiskUse([], DiskLimits(added_bytes=10**7, free_bytes=0))
    first = use.begin()
    disk.grow(6 * 10**6)
    assert use.objection(first) is None
    use.end()
    disk.grow(5 * 10**8)  # Another program, while no command runs.
    second = use.begin()
    assert not second.is_used_up
    disk.grow(5 * 10**6)

    assert "max_disk_bytes" in (use.objection(second) or "")
    use.end()

    third = use.begin()
    assert third.is_used_up
    assert use.objection(third) is None
    disk.grow(-6 * 10**6)
    use.end()
    assert not use.begin().is_used_up


@pytest.mark.attack("review L6")
def test_a_command_is_stopped_before_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    use = DiskUse([], DiskLimits(added_bytes=10**12, free_bytes=10**8))
    allowance = use.begin()
    disk.grow(9 * 10**8 + 1)

    assert "keep_free_bytes" in (use.objection(allowance) or "")

    disk.space = replace(disk.space, free=10**9, free_files=10**4 - 1)
    assert "more files only" in (use.objection(allowance) or "")


def test_a_small_disk_keeps_a_twentieth_free(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("the space of a disk is not measured on Windows")
    whole = os.statvfs(tmp_path)
    size = whole.f_blocks * whole.f_frsize

    assert Space.of([tmp_path, tmp_path], DiskLimits(free_bytes=size)).reserve == size // 20
    assert Space.of([tmp_path], DiskLimits(free_bytes=4096)).reserve == 4096


@pytest.mark.attack("review L6")
async def test_a_command_that_adds_too_much_is_stopped_and_the_next_one_can_only_delete(
    bubblewrap: Sandbox, workspace: Path
) -> None:
    bounds = bounds_in(bubblewrap, DiskLimits(added_bytes=64 * MIB, free_bytes=0))
    # It exceeds the limit even if another program deletes files on this disk meanwhile.
    fill = "for n in {1..150}; do fallocate -l 40M full.$n; sleep 0.1; done"

    stopped, _ = await execute(bounds, workspace, fill)
    wrote, _ = await execute(bounds, workspace, "echo more > more")
    deleted, _ = await execute(bounds, workspace, "rm full.*")
    again, _ = await execute(bounds, workspace, "echo more > more")

    assert stopped.ending == "stopped"
    assert "max_disk_bytes" in stopped.reason
    assert wrote.exit_code != 0
    assert deleted.exit_code == 0
    assert again.exit_code == 0
