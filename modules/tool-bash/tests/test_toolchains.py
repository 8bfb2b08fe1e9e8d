"""Commands find the programs that the user's PATH leads to, or a hint why they do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

SCRIPT = "#!/bin/sh\necho ran\n"


def program(path: Path, text: str = SCRIPT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def user(mounted: Any, tmp_path: Path) -> Path:
    """The user's home folder, after the fixture that names it."""
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


def put_on_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    monkeypatch.setenv("PATH", ":".join([*map(str, folders), os.environ["PATH"]]))


async def test_the_order_of_path_is_kept(
    mounted: Any, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = program(user / "first" / "bin" / "tool", "#!/bin/sh\necho first\n")
    second = program(user / "second" / "bin" / "tool", "#!/bin/sh\necho second\n")
    put_on_path(monkeypatch, first.parent, second.parent)
    tool = await mounted()

    result = await tool.execute({"command": "tool; echo $PATH"})

    assert result.output["stdout"] == f"first\n{os.environ['PATH']}\n"


async def test_what_is_shown_cannot_be_changed(
    mounted: Any, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_file = program(user / "apps" / "bin" / "tool")
    put_on_path(monkeypatch, tool_file.parent)
    tool = await mounted()

    result = await tool.execute({"command": f"echo evil > {tool_file}; touch {user}/planted"})

    assert "Read-only file system" in result.output["stderr"]
    assert tool_file.read_text("utf-8") == SCRIPT
    assert not (user / "planted").exists()


async def test_a_project_can_have_no_toolchains(
    mounted: Any, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, program(user / "bin" / "tool").parent)
    tool = await mounted(toolchains=False)

    result = await tool.execute({"command": "tool"})

    assert result.output["exit_code"] == 127
    assert f"`tool` is in `{user}/bin`, which is not visible" in result.output["trouble"]


async def test_a_program_that_is_not_shown_is_explained_with_the_settings(
    mounted: Any, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = program(user / "shared" / "tool").parent
    folder.chmod(0o777)
    put_on_path(monkeypatch, folder)
    tool = await mounted()

    result = await tool.execute({"command": "tool 2>&1"})

    (_, hint) = result.output["trouble"].splitlines()
    assert "can be written by other users" in hint
    assert "`read_only_paths`" in hint
    assert "`pass_env`" in hint
    given = await (await mounted(read_only_paths=[str(folder)])).execute({"command": "tool"})
    assert given.output["stdout"] == "ran\n"


@pytest.mark.parametrize("text", ["#!{path}\n", None])
async def test_an_interpreter_that_is_not_shown_is_named(
    mounted: Any, user: Path, workspace: Path, text: str | None
) -> None:
    missing = program(user / "else" / "where")
    if text is None:
        (workspace / "start").symlink_to(missing)
    else:
        program(workspace / "start", text.format(path=missing))
    tool = await mounted()

    result = await tool.execute({"command": "./start"})

    assert f"`{missing}` is not visible in the sandbox" in result.output["trouble"]


async def test_a_program_that_nobody_has_gets_no_hint(mounted: Any) -> None:
    tool = await mounted()

    result = await tool.execute({"command": "no-such-program-at-all"})

    assert result.output["trouble"] == "The command ended with exit code 127."


@pytest.mark.attack("S11")
async def test_a_hint_does_not_tell_what_exists_outside(
    mounted: Any, user: Path, workspace: Path
) -> None:
    program(user / "there", "#!/secret/interpreter\n")
    tool = await mounted()

    hints = [
        (await tool.execute({"command": f"{user}/{name}"})).output["trouble"].replace(name, "x")
        for name in ("there", "absent")
    ]
    upwards = await tool.execute({"command": "../user/there"})

    assert hints[0] == hints[1]
    assert "secret" not in upwards.output["trouble"]
