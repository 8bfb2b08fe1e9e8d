"""Mounting: folders, configuration, and what a session is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.testing import MockCoordinator
from amplifier_module_files.tool_filesystem import mount

READS = """
import asyncio, json, sys
from amplifier_core.testing import MockCoordinator
from amplifier_module_files.tool_filesystem import mount

async def main():
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", sys.argv[1])
    await mount(coordinator)
    read = coordinator.get("tools", "read_file").execute
    results = [await read({"file_path": name}) for name in sys.argv[2:]]
    print(json.dumps([each.success for each in results]))

asyncio.run(main())
"""


def names(folder: Path) -> list[str]:
    """Return what is in a folder; nothing when there is none."""
    return [each.name for each in folder.iterdir()] if folder.exists() else []


@pytest.fixture
def session(work: Path) -> Any:
    """A session to mount into."""
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(work))
    return coordinator


async def test_other_folders_are_open_as_the_configuration_says(
    session: Any, tmp_path: Path
) -> None:
    for name in ("reading", "writing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("text", encoding="utf-8")
    allowed = [str(tmp_path / "reading"), {"path": str(tmp_path / "writing"), "write": True}]
    await mount(session, {"allowed_paths": allowed})
    tools = session.get("tools")

    written: list[bool] = []
    for name in ("reading", "writing"):
        path = str(tmp_path / name / "a.txt")
        assert (await tools["read_file"].execute({"file_path": path})).success
        result = await tools["write_file"].execute({"file_path": path, "content": "new"})
        written.append(result.success)

    assert written == [False, True]
    assert (tmp_path / "reading/a.txt").read_text(encoding="utf-8") == "text"


async def test_the_app_says_where_to_work_else_the_configuration_else_the_process(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "other").mkdir(parents=True)
    monkeypatch.chdir(here)
    listed: list[str] = []
    for coordinator, config in (
        (session, {"working_dir": "other"}),
        (MockCoordinator(), {"working_dir": "other"}),
        (MockCoordinator(), {}),
    ):
        await mount(coordinator, config)
        output = (await coordinator.get_mounted("tools")["list_directory"].execute({})).output
        listed.append(output.partition(":")[0])

    assert listed == [f"[{tmp_path / 'work'}", f"[{here / 'other'}", f"[{here}"]


@pytest.mark.parametrize("folder", ["inside", "{work}/inside"])
async def test_checkpoints_inside_the_workspace_stop_the_mount(
    session: Any, work: Path, folder: str
) -> None:
    with pytest.raises(ValueError, match="must be outside of the workspace"):
        await mount(session, {"checkpoint_dir": folder.format(work=work)})


async def test_checkpoints_lie_at_home_by_project_and_session(
    session: Any, home: Path, work: Path
) -> None:
    await mount(session)
    assert names(home) == []

    await session.get("tools", "write_file").execute({"file_path": "a", "content": "x"})

    (project,) = names(home / ".amplifier/checkpoints")
    assert project.startswith("work-")
    assert names(home / ".amplifier/checkpoints" / project) == ["test-session"]
    assert names(work) == ["a"]


async def test_a_home_that_is_the_workspace_is_neither_read_nor_written(home: Path) -> None:
    (home / "code").mkdir(parents=True)
    (home / ".netrc").write_text("password", "utf-8")
    session = MockCoordinator()
    session.register_capability("session.working_dir", str(home))
    await mount(session)
    tools = session.get("tools")

    for result in (
        await tools["read_file"].execute({"file_path": ".netrc"}),
        await tools["list_directory"].execute({}),
        await tools["write_file"].execute({"file_path": "a", "content": "x"}),
    ):
        assert result.error is not None
        assert result.error["rule"] == "no_project"
    assert sorted(names(home)) == [".netrc", "code"]


async def test_a_home_that_is_allowed_keeps_its_checkpoints_out_of_reach(
    session: Any, home: Path
) -> None:
    (home / "code").mkdir(parents=True)
    await mount(session, {"allowed_paths": [{"path": str(home), "write": True}]})
    write = session.get("tools", "write_file")

    assert (await write.execute({"file_path": str(home / "a"), "content": "x"})).success
    (record,) = (home / ".amplifier/checkpoints").rglob("000000")
    result = await write.execute({"file_path": str(record), "content": "forged"})
    assert result.error["rule"] == "protected"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"root": "/"}, "root"),
        ({"allowed_paths": [{"path": "/", "wriet": True}]}, "wriet"),
        ({"max_file_bytes": 0}, "max_file_bytes"),
    ],
)
async def test_a_wrong_configuration_stops_the_mount_and_is_named(
    session: Any, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError, match=named):
        await mount(session, config)


async def test_a_folder_that_is_not_there_stops_the_mount(session: Any) -> None:
    with pytest.raises(FileNotFoundError):
        await mount(session, {"allowed_paths": ["missing"]})


async def test_cleanup_stops_listening(session: Any) -> None:
    cleanup: Callable[[], None] = await mount(session)
    assert session.hooks.list_handlers("prompt:submit") == {"prompt:submit": ["tool-filesystem"]}

    cleanup()

    assert not any(session.hooks.list_handlers("prompt:submit").values())
    assert not any(session.hooks.list_handlers("execution:start").values())


async def test_the_names_of_its_events_are_contributed(session: Any) -> None:
    await mount(session)

    assert ["files:undone"] in await session.collect_contributions("observability.events")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_kernel_without_the_call_follows_the_same_links(work: Path, secret: Path) -> None:
    (work / "a.txt").write_text("text", encoding="utf-8")
    (work / "inside").symlink_to("a.txt")
    (work / "out").symlink_to(secret)
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=openat2:error=ENOSYS"]
    command += [sys.executable, "-c", READS, str(work), "a.txt", "inside", "out"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert json.loads(ended.stdout or ended.stderr) == [True, True, False]
