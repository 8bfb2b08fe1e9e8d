"""In each layout, an agent installs a dependency after one question, uses it and commits."""

from __future__ import annotations

from typing import Any

import pytest

from toolchains.agent import make_repository, play
from toolchains.indexes import Indexes, set_indexes
from toolchains.installs import FROM_REGISTRY, INSTALLS, Install
from toolchains.layouts import LAYOUTS, Layout
from toolchains.registry import Registry

# One from the index of this machine and one from a registry of the test; `make test-all` runs the
# others.
_FAST = ("venv", "cargo")
_PARAMS = [
    pytest.param(name, name, marks=() if name in _FAST else pytest.mark.slow, id=name)
    for name in LAYOUTS
]


def _edit(install: Install) -> tuple[str, dict[str, Any]]:
    if not install.old:
        return "write_file", {"file_path": install.file, "content": install.new}
    given = {"file_path": install.file, "old_string": install.old, "new_string": install.new}
    return "edit_file", given


@pytest.mark.parametrize(("layout", "name"), _PARAMS, indirect=["layout"])
def test_a_dependency_is_installed_after_one_question_used_and_committed(
    layout: Layout, name: str, registry: Registry, indexes: Indexes
) -> None:
    root = make_repository(layout)
    set_indexes(layout.home, indexes)
    install = INSTALLS[name](layout, registry)
    opened: dict[str, Any] = {"network": ["packages"], "reason": "to install"}
    if install.write:
        opened["write"] = list(install.write)
    commit = f"git add {install.file} && git commit -qm installed"

    results, questions = play(
        layout,
        ("bash", {"command": layout.test_command, "timeout_seconds": 600}),
        ("bash", {"command": install.command}),
        ("bash", {"command": install.command, **opened}),
        _edit(install),
        ("bash", {"command": install.use, "timeout_seconds": 600}),
        ("bash", {"command": commit, "write": [".git"], "reason": "to commit"}),
        ("bash", {"command": "true", **opened}),
    )

    tested, refused, installed, _, used, committed, again = results
    assert layout.sign in tested["stdout"]
    assert 'repeat it with network: ["packages"] and a reason' in refused["trouble"], refused
    assert installed["exit_code"] == 0, installed
    assert install.sign in used["stdout"], used
    assert committed["exit_code"] == 0, committed
    assert again["exit_code"] == 0, again
    # One about the installation and one about the commit; none about the same installation again.
    assert len(questions) == 2, questions
    assert "it needs network to the package registries" in questions[0]
    if name in FROM_REGISTRY:
        assert f"{registry.place}={registry.host}" in questions[0]
        assert registry.requested
    assert "password" not in questions[0]
    assert f"it needs writing to {root}/.git" in questions[1]
    log = layout.home.run("git", "show", "--format=%an %s", "--name-only", cwd=root)
    assert log.split("\n") == ["Ann installed", "", install.file, ""]
