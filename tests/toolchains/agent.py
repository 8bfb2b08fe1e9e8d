"""An agent with a scripted model that works in a project, and the user whom it asks.

It runs in a process of its own: the tests themselves cannot reach any network.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_core import AmplifierSession
from amplifier_sandbox.project_folder import project_root
from toolchains.layouts import Layout

Call = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""

_TESTS = Path(__file__).parents[1]


class Played(NamedTuple):
    """What each call returned, and what the user was asked."""

    results: list[dict[str, Any]]
    questions: list[str]


def make_repository(layout: Layout) -> Path:
    """Return the project's repository, made if it is missing, for a user who has a name."""
    root = project_root(layout.folder)
    (layout.home.folder / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n", "utf-8"
    )
    if not (root / ".git").exists():
        layout.home.run("git", "init", "-q", cwd=root)
    return root


def play(layout: Layout, *calls: Call) -> Played:
    """Let an agent make these calls; the user answers every question with `Allow always`."""
    grants = layout.home.folder.parent / "grants.json"
    done = subprocess.run(
        [sys.executable, "-m", "toolchains.agent", str(project_root(layout.folder)), str(grants)],
        input=json.dumps(calls),
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Played(**json.loads(done.stdout))


class User:
    """Answers every question with `Allow always`."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        self.questions.append(prompt)
        return "Allow always"


def _plan(calls: list[Call], grants: str) -> dict[str, Any]:
    """Return the plan of an agent that makes these calls; inside the sandbox nothing is asked."""
    steps = [{"tool_calls": [{"name": name, "arguments": given}]} for name, given in calls]
    tools = dict.fromkeys(name for name, _ in calls)
    guard = {
        "rules": [{"tool": name, "action": "allow"} for name in tools],
        "grants_file": grants,
    }
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"script": [*steps, "Done."]}}],
        "tools": [
            {"module": "tool-bash", "config": {"ask": False}},
            {"module": "tool-filesystem"},
        ],
        "hooks": [{"module": "hooks-approval", "config": guard, "required": True}],
    }


async def _run(workspace: str, grants: str, calls: list[Call]) -> Played:
    user = User()
    session = AmplifierSession(_plan(calls, grants), approval_system=user)
    session.coordinator.register_capability("session.working_dir", workspace)
    async with session:
        await session.execute("Work.")
        messages = await session.coordinator.get_mounted("context").get_messages()
    results = [_read(each["content"]) for each in messages if each["role"] == "tool"]
    return Played(results, user.questions)


def _read(content: str) -> dict[str, Any]:
    """Return the result of a command; the text of another tool is its `stdout`."""
    return json.loads(content) if content.startswith("{") else {"stdout": content}


if __name__ == "__main__":
    workspace, grants = sys.argv[1:]
    played = asyncio.run(_run(workspace, grants, json.load(sys.stdin)))
    json.dump(played._asdict(), sys.stdout)
