"""In each layout, an agent runs the project's tests and commits, as the user's own shell does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_bash import mount
from amplifier_sandbox.project_folder import project_root
from toolchains.layouts import LAYOUTS, Layout
from toolchains.user_home import SECRET, SYSTEM, UserHome

_OF_MANAGERS = (
    "CARGO_HOME",
    "CONDA_PREFIX",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
)


@pytest.fixture(params=LAYOUTS)
def layout(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Layout:
    """A project, and this process as if its user had started it."""
    built = LAYOUTS[request.param](UserHome(tmp_path / "user"), tmp_path / "user" / "project")
    for name in _OF_MANAGERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", SYSTEM)
    for name, value in built.home.environment.items():
        monkeypatch.setenv(name, value)
    return built


async def test_the_tests_of_the_project_pass_in_the_sandbox(layout: Layout) -> None:
    """Before the sandbox followed PATH, 1 of the 12 passed."""
    assert layout.sign in layout.home.run(
        "/bin/sh", "-c", layout.test_command, cwd=layout.workspace
    )
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(project_root(layout.folder)))
    cleanup = await mount(coordinator)
    bash = coordinator.get_mounted("tools")["bash"]

    # Twice: what the first run leaves in the home must not get into the way of the second.
    for _ in range(2):
        result = await bash.execute({"command": layout.test_command})

        assert result.success, result.output
        assert layout.sign in result.output["stdout"]
    spying = await bash.execute({"command": f"grep -rs {SECRET} {layout.home.folder} ~ /tmp"})
    await cleanup()

    assert spying.output["exit_code"] in (1, 2)
    assert SECRET not in spying.output["stdout"]


class User:
    """Answers every question with `Allow always`."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        self.questions.append(prompt)
        return "Allow always"


def _agent(grants: Path, *calls: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of an agent that makes these calls; inside the sandbox nothing is asked."""
    steps = [{"tool_calls": [{"name": "bash", "arguments": call}]} for call in calls]
    rules = [{"tool": "bash", "action": "allow"}]
    guard = {"rules": rules, "grants_file": str(grants)}
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"script": [*steps, "Done."]}}],
        "tools": [{"module": "tool-bash", "config": {"ask": False}}],
        "hooks": [{"module": "hooks-approval", "config": guard, "required": True}],
    }


async def test_an_edit_is_tested_and_committed_after_one_question(
    layout: Layout, tmp_path: Path
) -> None:
    user = User()
    root = project_root(layout.folder)
    (layout.home.folder / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n", "utf-8"
    )
    if not (root / ".git").exists():
        layout.home.run("git", "init", "-q", cwd=root)
    commit = "echo {0} >> notes && git add notes && git commit -qm {0}"
    opened = {"write": [".git"], "reason": "to commit"}
    plan = _agent(
        tmp_path / "grants.json",
        {"command": layout.test_command},
        {"command": commit.format("refused")},
        {"command": commit.format("one"), **opened},
        {"command": commit.format("two"), **opened},
    )
    session = AmplifierSession(plan, approval_system=user)
    session.coordinator.register_capability("session.working_dir", str(root))

    async with session:
        await session.execute("Work.")
        messages = await session.coordinator.get_mounted("context").get_messages()

    results = [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
    assert layout.sign in results[0]["stdout"]
    assert "To commit, repeat it with write" in results[1]["trouble"]
    assert len(user.questions) == 1, user.questions
    assert f"it needs writing to {root}/.git" in user.questions[0]
    log = layout.home.run("git", "log", "--format=%an %s", cwd=root)
    assert log.splitlines() == ["Ann two", "Ann one"], results
