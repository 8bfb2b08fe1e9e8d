"""No folder from which the user's home folder can be read is taken for a project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace
from amplifier_sandbox.project_folder import project_root, why_not_a_project

if sys.platform != "win32":
    import pwd


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home folder, with Amplifier's own folder in it."""
    folder = tmp_path / "users" / "bob"
    (folder / ".amplifier").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return folder


def test_a_folder_in_the_home_folder_can_be_a_project(home: Path) -> None:
    assert why_not_a_project(home / "code" / "app") is None


def test_the_home_folder_and_all_above_it_are_no_projects(home: Path) -> None:
    assert why_not_a_project(home) == f"`{home}` is your home folder"
    for folder in home.parents[:-1]:
        assert why_not_a_project(folder) == f"`{folder}` contains your home folder"
    assert why_not_a_project(Path("/")) == "`/` is the root of the file system"


def test_other_names_of_the_home_folder_are_no_projects(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(home.parent)

    for folder in (link, link / "bob", home / "code" / "..", Path(f"//{home}")):
        assert why_not_a_project(folder) is not None


def test_a_home_folder_that_is_itself_a_link_is_found(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(home)
    monkeypatch.setenv("HOME", str(link))

    assert why_not_a_project(home) == f"`{home}` is your home folder"


def test_the_home_folder_of_the_user_database_counts_whatever_home_says(home: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no user database of this kind")
    own = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    if own == Path("/") or not own.is_dir():
        pytest.skip("this user has no home folder")

    assert why_not_a_project(own) == f"`{own}` is your home folder"


def test_a_user_without_a_home_folder_works_everywhere_but_at_the_root(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/")

    assert why_not_a_project(home / "code") is None
    assert why_not_a_project(Path("/")) is not None


@pytest.mark.parametrize("name", [".", "kept", "kept/projects"])
def test_the_folder_of_keys_is_in_no_project_and_contains_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    app = tmp_path / "app"
    app.mkdir()
    monkeypatch.setenv("AMPLIFIER_HOME", str(app / "kept"))

    assert why_not_a_project(app / name) is not None
    assert why_not_a_project(app / "src") is None


def test_files_of_a_folder_that_is_no_project_are_refused_by_every_name(home: Path) -> None:
    (home / ".netrc").write_text("password", "utf-8")
    workspace = Workspace(Root(home))

    for name in (".netrc", str(home / ".netrc"), ".", "./x/../.netrc"):
        with pytest.raises(RefusedError, match="not a project") as refused:
            workspace.locate(name)
        assert refused.value.rule == "no_project"
        with pytest.raises(RefusedError, match="not a project"):
            workspace.locate_for_writing(name)


def test_a_folder_that_was_allowed_stays_open_in_a_home_folder(home: Path) -> None:
    (home / "notes").mkdir()
    workspace = Workspace(Root(home), Root(home / "notes", writable=False))

    assert workspace.locate(str(home / "notes" / "a.txt")).name == "a.txt"
    with pytest.raises(RefusedError):
        workspace.locate(str(home / "notes.txt"))


@pytest.mark.parametrize("mark", [".git", ".amplifier"])
def test_the_project_of_a_folder_is_the_nearest_one_with_a_mark(home: Path, mark: str) -> None:
    project = home / "code" / "app"
    inner = project / "vendor" / "library"
    below = inner / "src"
    below.mkdir(parents=True)
    (project / mark).mkdir()

    assert project_root(project) == project_root(below) == project
    # A worktree and a submodule have a file in the place of the folder.
    (inner / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    assert project_root(below) == inner


def test_without_a_mark_a_folder_is_its_own_project(home: Path) -> None:
    folder = home / "code" / "app"
    folder.mkdir(parents=True)

    assert project_root(folder) == folder


def test_no_folder_above_the_home_folder_is_taken_for_a_project(home: Path) -> None:
    # The home folder has an `.amplifier`: the user's own. Some users have it in git, too.
    for above in (home, home.parent):
        (above / ".git").mkdir()
    folder = home / "notes"
    folder.mkdir()

    assert project_root(folder) == folder
    assert project_root(home) == home


def test_a_mark_of_another_user_is_passed_by(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no owners of files")
    shared = tmp_path / "shared"
    (shared / ".git").mkdir(parents=True)
    mine = shared / "mine"
    mine.mkdir()

    assert project_root(mine) == shared
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert project_root(mine) == mine
