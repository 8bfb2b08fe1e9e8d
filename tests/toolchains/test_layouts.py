"""In each layout, an agent runs the project's tests and commits, as the user's own shell does."""

from __future__ import annotations

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_bash import mount
from amplifier_sandbox.project_folder import project_root
from toolchains.agent import make_repository, play
from toolchains.layouts import Layout
from toolchains.user_home import SECRET


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


def test_an_edit_is_tested_and_committed_after_one_question(layout: Layout) -> None:
    root = make_repository(layout)
    commit = "echo {0} >> notes && git add notes && git commit -qm {0}"
    opened = {"write": [".git"], "reason": "to commit"}

    results, questions = play(
        layout,
        ("bash", {"command": layout.test_command}),
        ("bash", {"command": commit.format("refused")}),
        ("bash", {"command": commit.format("one"), **opened}),
        ("bash", {"command": commit.format("two"), **opened}),
    )

    assert layout.sign in results[0]["stdout"]
    assert "To commit, repeat it with write" in results[1]["trouble"]
    assert len(questions) == 1, questions
    assert f"it needs writing to {root}/.git" in questions[0]
    log = layout.home.run("git", "log", "--format=%an %s", cwd=root)
    assert log.splitlines() == ["Ann two", "Ann one"], results
