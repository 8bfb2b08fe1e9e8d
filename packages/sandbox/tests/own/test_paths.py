"""What this process runs from is found, whichever way it was named."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import NoReturn

import pytest

from amplifier_sandbox.own.paths import OwnPaths, git_files, own_paths, path_and_links
from amplifier_sandbox.processes.own_code import _ours_with_names_elsewhere, shared_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, on a machine where everything of ours is elsewhere."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    made = tmp_path / "workspace"
    made.mkdir()
    return made


def test_a_folder_with_nothing_of_ours_has_nothing_to_protect(folder: Path) -> None:
    assert own_paths(folder) == OwnPaths()


class _Growing(dict[str, types.ModuleType]):
    """What `sys.modules` does while another thread imports."""

    def items(self) -> NoReturn:
        raise RuntimeError("dictionary changed size during iteration")


def test_another_thread_may_import_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "modules", _Growing(sys.modules))

    assert own_paths(folder) == OwnPaths()


@pytest.mark.attack("review H1")
def test_each_place_that_python_loads_from_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(folder / "venv"))
    monkeypatch.setattr(sys, "base_prefix", str(folder / "base"))
    monkeypatch.setattr(sys, "executable", str(folder / "tools" / "python"))
    monkeypatch.setattr(sys, "pycache_prefix", str(folder / "compiled"))
    monkeypatch.setattr(sys, "path", [str(folder / "src"), *sys.path])
    monkeypatch.setattr(sys, "path", [str(folder / "venv" / "lib" / "site-packages"), *sys.path])
    monkeypatch.setenv("LD_PRELOAD", f"{folder}/a.so {folder}/b.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/usr/lib:{folder}/libraries")
    finder = types.ModuleType("own_editable_finder")
    finder.__dict__["MAPPING"] = {"package": str(folder / "editable" / "package")}
    monkeypatch.setitem(sys.modules, "own_editable_finder", finder)
    hook = type("Hook", (), {"__module__": "own_editable_finder", "find_spec": None})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, hook])
    loaded = types.ModuleType("own_loaded")
    loaded.__file__ = str(folder / "scripts" / "agent.py")
    monkeypatch.setitem(sys.modules, "own_loaded", loaded)

    names = [str(path.relative_to(folder)) for path in own_paths(folder).read_only]

    assert sorted(names) == sorted(
        ["a.so", "b.so", "base", "compiled", "editable/package", "libraries"]
        + ["scripts/agent.py", "src", "tools/python", "venv"]
    )


@pytest.mark.attack("review H1")
def test_a_workspace_inside_of_a_prefix_is_not_taken_for_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(folder.parent))
    monkeypatch.setattr(sys, "base_prefix", str(folder))

    own = own_paths(folder)

    assert own.around is None
    assert folder / "bin" in own.read_only


@pytest.mark.attack("review H1")
@pytest.mark.parametrize("entry", [".", "..", ""])
def test_a_workspace_on_the_search_path_is_said_to_be_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path, entry])

    assert own_paths(folder).around in (folder, folder.parent)


@pytest.mark.attack("review M9")
def test_our_home_is_hidden_and_not_only_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMPLIFIER_HOME", str(folder / "state"))
    monkeypatch.setattr(sys, "path", [str(folder / "state" / "cache" / "module"), *sys.path])

    own = own_paths(folder)

    assert own.hidden == (folder / "state",)
    assert own.read_only == ()


@pytest.mark.attack("review H1")
def test_a_link_on_the_way_is_reported_where_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "real").mkdir()
    (folder / "deep").mkdir()
    (folder / "deep" / "link").symlink_to("../../real")
    monkeypatch.setattr(sys, "path", [str(folder / "deep" / "link" / "packages"), *sys.path])

    own = own_paths(folder)

    assert own.links == (folder / "deep" / "link",)


def test_the_real_path_is_the_systems_and_every_link_is_passed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "one").symlink_to("a")
    (tmp_path / "a" / "two").symlink_to(tmp_path / "one" / "b")
    (tmp_path / "loop").symlink_to("loop")
    base = Path(os.path.realpath(tmp_path))

    real, links = path_and_links(str(tmp_path / "one" / "two" / "missing"))

    assert real == base / "a" / "b" / "missing"
    assert links[-3:] == [base / "one", base / "a" / "two", base / "one"]
    assert path_and_links(str(tmp_path / "loop"))[0] == base / "loop"


@pytest.mark.attack("review H1")
def test_what_a_repository_reads_and_runs_is_found_with_what_it_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".git").mkdir()
    config = '[core]\n\thooksPath = ".husky/_"\n[include]\n path=../settings/git ; mine\n'
    (folder / ".git" / "config").write_text(config, "utf-8")
    (folder / "settings").mkdir()
    more = f'[includeIf "gitdir:x"] path = {folder}/more\n[include]\npath = /etc/other\n'
    (folder / "settings" / "git").write_text(more, "utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "global"))

    found = {str(file.path.relative_to(folder)): file.without_effect for file in git_files(folder)}

    assert found == {
        ".git/config": b"",
        ".git/config.worktree": b"",
        ".git/commondir": b".\n",
        ".git/hooks": None,
        ".git/info": None,
        ".git/modules": None,
        ".husky/_": None,
        "settings/git": b"",
        "more": b"",
        "global": b"",
    }


def test_the_file_that_leads_to_a_repository_is_kept_itself(folder: Path) -> None:
    (folder / ".git").write_text("gitdir: ../elsewhere\n", "utf-8")

    assert [file.path for file in git_files(folder)] == [folder / ".git"]


@pytest.mark.attack("review H1")
def test_links_of_an_installer_are_found_with_the_environment_they_are_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = folder.parent / "own", folder / "env" / "site-packages"
    for name in ("m-1.dist-info/METADATA", "m.py", "alone.py"):
        file = own / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", "utf-8")
    (other / "deep").mkdir(parents=True)
    os.link(own / "m-1.dist-info" / "METADATA", other / "deep" / "METADATA")
    os.link(own / "m.py", folder / "m.py")
    os.link(own / "alone.py", own / "again.py")
    (folder / "alone.py").write_text("", "utf-8")
    os.link(folder / "alone.py", folder / "again.py")
    monkeypatch.setattr(sys, "path", [str(own)])
    _ours_with_names_elsewhere.cache_clear()
    try:
        found = shared_files(folder)
    finally:
        _ours_with_names_elsewhere.cache_clear()

    assert found == (other, folder / "m.py")
