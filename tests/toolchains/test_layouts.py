"""In each layout, the tool `bash` runs the project's tests as the user's own shell does."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    cleanup()

    assert spying.output["exit_code"] in (1, 2)
    assert SECRET not in spying.output["stdout"]
