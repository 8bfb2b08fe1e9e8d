"""Which installations a PATH leads to, by the layouts that installers make."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_sandbox.processes.bubblewrap import SYSTEM_PATH
from amplifier_sandbox.processes.private_home import prepared_home
from amplifier_sandbox.processes.sandbox import Sandbox, clean_environment
from amplifier_sandbox.processes.toolchains import Toolchains, find_toolchains

SCRIPT = "#!/bin/sh\necho ran\n"

Find = Callable[..., Toolchains]


def program(path: Path, text: str = SCRIPT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("AMPLIFIER_HOME", str(folder / ".amplifier"))
    for name in os.environ.keys() & {"PYENV_ROOT", "RUSTUP_HOME", "VIRTUAL_ENV", "JAVA_HOME"}:
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def find(workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    def find_with(*path: str | Path, **variables: str | Path) -> Toolchains:
        monkeypatch.setenv("PATH", ":".join([*map(str, path), SYSTEM_PATH]))
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        return find_toolchains([workspace])

    return find_with


# The entry of PATH, a file that has to be there too, and what is shown.
PREFIXES = {
    "pyenv's shims": (".pyenv/shims", ".pyenv/versions/3.12/bin/python", ".pyenv"),
    "a version of pyenv": (".pyenv/versions/3.12/bin", ".pyenv/version", ".pyenv"),
    "nvm": (".nvm/versions/node/v20/bin", ".nvm/versions/node/v20/lib/x", ".nvm"),
    "volta": (".volta/bin", ".volta/tools/image/node/20/bin/node", ".volta"),
    "asdf": (".asdf/shims", ".asdf/installs/node/20/bin/node", ".asdf"),
    "mise": (".local/share/mise/shims", ".local/share/mise/installs/x", ".local/share/mise"),
    "sdkman": (".sdkman/candidates/java/17/bin", ".sdkman/candidates/java/17/lib/x", ".sdkman"),
    "conda": ("miniconda3/bin", "miniconda3/conda-meta/history", "miniconda3"),
    "an environment": ("env/app/bin", "env/app/pyvenv.cfg", "env/app"),
    "go": ("sdk/go1.22/bin", "sdk/go1.22/VERSION", "sdk/go1.22"),
    "go's programs": ("go/bin", "go/pkg/mod/x", "go/bin"),
    "cargo": (".cargo/bin", ".cargo/registry/x", ".cargo/bin"),
    "the user's programs": ("bin", "lib/notes.txt", "bin"),
    "local programs": (".local/bin", ".local/lib/x", ".local/bin"),
    "settings": (".config/tool/bin", ".config/tool/lib/x", ".config/tool/bin"),
    "a repository": ("work/app/bin", "work/app/.git/config", "work/app/bin"),
    "another folder": ("work/app/bin", "work/app/notes.txt", "work/app/bin"),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_the_installation_of_an_entry_is_shown(find: Find, home: Path, name: str) -> None:
    entry, beside, shown = PREFIXES[name]
    program(home / entry / "tool")
    program(home / beside)

    found = find(home / entry)

    assert found.shown == (home / shown,)
    assert found.path.split(":")[0] == str(home / entry)
    assert found.left_out == ()


def test_a_manager_on_path_shows_what_it_manages(find: Find, home: Path) -> None:
    program(home / ".cargo" / "bin" / "rustup")
    program(home / ".rustup" / "settings.toml")

    found = find(home / ".cargo" / "bin")

    assert found.shown == (home / ".cargo" / "bin", home / ".rustup")
    assert dict(found.environment) == {"RUSTUP_HOME": str(home / ".rustup")}


def test_a_variable_says_where_a_manager_is(find: Find, home: Path) -> None:
    program(home / "tools" / "py" / "shims" / "python")

    found = find(home / "tools" / "py" / "shims", PYENV_ROOT=home / "tools" / "py")

    assert found.shown == (home / "tools" / "py",)


def test_a_link_shows_the_installation_of_its_target(find: Find, home: Path) -> None:
    target = program(home / ".local" / "share" / "pipx" / "venvs" / "tool" / "bin" / "tool")
    program(target.parents[1] / "pyvenv.cfg", "")
    alone = program(home / "scripts" / "alone.sh")
    package = program(home / ".local" / "lib" / "node_modules" / "cli" / "cli.js")
    programs = home / ".local" / "bin"
    programs.mkdir()
    for path in (target, alone, package):
        (programs / path.stem).symlink_to(path)

    found = find(programs)

    assert set(found.shown) == {programs, target.parents[1], alone, package.parents[1]}


def test_the_links_on_the_way_lead_there_inside(
    find: Find, home: Path, run: Any, bubblewrap: Sandbox
) -> None:
    program(home / "versions" / "20" / "bin" / "node")
    program(home / "versions" / "20" / "lib" / "x")
    (home / "current").symlink_to("versions/20")

    found = find(home / "current" / "bin")
    done = run(bubblewrap, "node", env=clean_environment((), found), toolchains=found)

    assert (done.stdout, done.stderr) == ("ran\n", "")


def test_the_base_of_an_environment_is_shown_only_if_it_is_python(
    find: Find, home: Path, workspace: Path
) -> None:
    python = program(home / "builds" / "3.12" / "bin" / "python3.12")
    program(workspace / ".venv" / "pyvenv.cfg", f"home = {python.parent}\n")
    (workspace / ".venv" / "bin").mkdir()
    (workspace / ".venv" / "bin" / "python").symlink_to(python)
    assert find().shown == ()
    program(home / "builds" / "3.12" / "lib" / "python3.12" / "os.py")
    (workspace / ".venv" / "pyvenv.cfg").write_text("", "utf-8")

    assert find().shown == (home / "builds" / "3.12",)


def test_what_others_can_write_is_left_out(find: Find, home: Path) -> None:
    program(home / "shared" / "bin" / "tool").parent.chmod(0o777)

    found = find(home / "shared" / "bin")

    assert found.shown == ()
    assert [entry for entry, _ in found.left_out] == [str(home / "shared" / "bin")]
    assert str(home) not in found.path


def test_a_result_is_kept_until_something_changes(find: Find, home: Path) -> None:
    programs = program(home / "bin" / "tool").parent

    first = find(programs)
    assert find(programs) is first
    (programs / "other").symlink_to(program(home / "else" / "other"))
    os.utime(programs, (1, 1))

    assert home / "else" / "other" in find(programs).shown


def test_settings_of_an_installation_appear_empty(
    find: Find, home: Path, run: Any, bubblewrap: Sandbox, landlock: Sandbox
) -> None:
    root = home / ".nvm"
    version = root / "versions" / "node" / "v20"
    program(version / "bin" / "node")
    program(version / "etc" / "npmrc", "//registry/:_authToken=secret")
    program(root / ".git" / "config", "url = https://secret@host")
    found = find(version / "bin")

    assert set(found.hidden) == {root / ".git", version / "etc" / "npmrc"}
    for sandbox in (bubblewrap, landlock):
        env = clean_environment((), found)
        protected = (".git",) if sandbox is bubblewrap else ()
        script = f"node; cat {version}/etc/npmrc {root}/.git/config"
        done = run(sandbox, script, env=env, toolchains=found, protected=protected)
        assert done.stdout == "ran\n", done.stderr


def test_under_landlock_home_is_kept_as_well(
    workspace: Path, home: Path, run: Any, landlock: Sandbox
) -> None:
    own = prepared_home(home / ".amplifier" / "homes" / "project")

    run(landlock, "echo kept > ~/entry; echo x > $TMPDIR/y", protected=(), home=own)

    assert [path.name for path in own.iterdir()] == ["entry"]
