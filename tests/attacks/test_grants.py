"""A grant is used for something else: real tools, and a user who said yes to the first call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession

Call = dict[str, Any]


class OneYes:
    """Gives the first question the lasting answer for the session, and denies all others."""

    def __init__(self) -> None:
        self.options: list[list[str]] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        self.options.append(options)
        return options[1] if len(self.options) == 1 else "Deny"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with some folders, and a home that is not the user's."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "amplifier"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / "src" / "app").mkdir(parents=True)
    (folder / "src" / "application").mkdir()
    (folder / "src" / "app" / "link").symlink_to("../application")
    (folder / ".git").mkdir()
    (tmp_path / "outside").mkdir()
    return folder


async def _run(work: Path, *calls: Call) -> OneYes:
    """Let a model make these calls, one after the other."""
    ann = OneYes()
    script = [*({"tool_calls": [each]} for each in calls), "Done."]
    grants = {"grants_file": str(work.parent / "grants.json"), "batch_seconds": 0}
    plan = {
        "session": {
            "orchestrator": {"module": "loop-basic", "config": {"stuck_after": 0}},
            "context": "context-simple",
        },
        "providers": [{"module": "provider-mock", "config": {"script": script}}],
        "tools": [
            {"module": "tool-bash", "config": {"working_dir": str(work), "ask": False}},
            {"module": "tool-filesystem"},
        ],
        "hooks": [{"module": "hooks-approval", "config": grants, "required": True}],
    }
    session = AmplifierSession(plan, session_id="root", approval_system=ann)
    session.coordinator.register_capability("session.working_dir", str(work))
    async with session:
        await session.execute("go")
    return ann


def _bash(command: str, **more: Any) -> Call:
    return {"name": "bash", "arguments": {"command": command, **more}}


def _write(path: str, tool: str = "write_file") -> Call:
    return {"name": tool, "arguments": {"file_path": path, "content": "text"}}


async def test_a_yes_covers_other_arguments_of_the_program(work: Path) -> None:
    ann = await _run(work, _bash("touch one"), _bash("touch two 'three four'"))

    assert ann.options == [
        [
            "Allow once",
            "Allow `touch` with any arguments, this session",
            "Allow `touch` with any arguments, this project",
            "Deny",
        ]
    ]
    assert (work / "three four").exists()


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "line",
    [
        "touch x; touch owned",
        "touch x && touch owned",
        "touch x & touch owned",
        "touch x\ntouch owned",
        "touch x | tee owned",
        "touch x > owned",
        "touch $(touch owned)",
        "touch `touch owned`",
        "touch ${X:-owned}",
        "PATH=. touch owned",
        "./touch owned",
        "/usr/bin/touch owned",
        "command touch owned",
        "env touch owned",
        "nice touch owned",
        "bash -c 'touch owned'",
        "truncate -s 0 owned",
    ],
)
async def test_a_yes_to_a_program_lets_nothing_else_through(work: Path, line: str) -> None:
    ann = await _run(work, _bash("touch first"), _bash(line))

    assert (work / "first").exists()
    assert len(ann.options) == 2
    assert not (work / "owned").exists()


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "more",
    [
        {"network": ["example.org"], "reason": "so"},
        {"background": True, "reason": "so"},
        {"outside_sandbox": True, "reason": "so"},
        {"write": ["../outside"], "reason": "so"},
    ],
)
async def test_a_yes_to_a_program_opens_nothing(work: Path, more: dict[str, Any]) -> None:
    ann = await _run(work, _bash("touch first"), _bash("touch owned", **more))

    assert len(ann.options) == 2
    assert not (work / "owned").exists()


async def test_a_yes_covers_other_edits_in_the_folder(work: Path) -> None:
    ann = await _run(
        work,
        _write("src/app/a.py"),
        _write("src/app/b.py"),
        _write("src/app/deep/er/c.py"),
        {
            "name": "edit_file",
            "arguments": {"file_path": "src/app/a.py", "old_string": "text", "new_string": "new"},
        },
    )

    assert ann.options == [
        [
            "Allow once",
            "Allow edits in `src/app/`, this session",
            "Allow edits in `src/app/`, this project",
            "Deny",
        ]
    ]
    assert (work / "src/app/a.py").read_text("utf-8") == "new"
    assert (work / "src/app/deep/er/c.py").exists()


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "path",
    [
        "src/owned.py",
        "owned.py",
        "src/application/owned.py",
        "src/app/../owned.py",
        "src/app/deep/../../application/owned.py",
        "src/app/link/owned.py",
        "src/app/../../.git/owned",
        "../outside/owned.py",
        "ABOVE/outside/owned.py",
    ],
)
async def test_a_yes_to_a_folder_covers_no_other(work: Path, path: str) -> None:
    path = path.replace("ABOVE", str(work.parent))

    ann = await _run(work, _write("src/app/a.py"), _write(path), _bash("touch owned"))

    assert (work / "src/app/a.py").exists()
    assert "Allow `touch` with any arguments, this session" in ann.options[-1]
    assert not list(work.parent.rglob("owned*"))
