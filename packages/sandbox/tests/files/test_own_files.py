"""File tools write nothing that this process runs from, and read nothing it keeps its keys in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.own_files import OwnFiles
from amplifier_sandbox.files.rooted import Root


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with code of ours in `own` and our home in `state`."""
    made = tmp_path / "work"
    (made / "own").mkdir(parents=True)
    (made / "own" / "code.py").write_text("original", "utf-8")
    (made / "state").mkdir()
    (made / "state" / "keys").write_text("secret", "utf-8")
    monkeypatch.setattr(sys, "path", [str(made / "own"), *sys.path])
    monkeypatch.setenv("AMPLIFIER_HOME", str(made / "state"))
    return made


@pytest.fixture
def root(folder: Path) -> Root:
    return Root(folder, own=OwnFiles(folder))


@pytest.mark.attack("review H1")
@pytest.mark.parametrize("name", ["own/code.py", "own/new.py", "x/../own/code.py", "state/keys"])
def test_what_is_ours_is_neither_written_nor_removed(root: Root, folder: Path, name: str) -> None:
    (folder / "x").mkdir()
    changes = [
        lambda: root.write_atomic(name, b"evil"),
        lambda: root.unlink(name),
        lambda: root.mkdirs(f"{name}/deep"),
        lambda: root.rmdir("own"),
    ]

    for change in changes:
        with pytest.raises(RefusedError) as refused:
            change()
        assert refused.value.rule == "protected"

    assert (folder / "own" / "code.py").read_text("utf-8") == "original"
    root.write_atomic("x/free.py", b"fine")


@pytest.mark.attack("review H1")
def test_another_name_of_the_same_folder_is_no_way_around(
    root: Root, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where one name has several spellings: the same folder, found under another name.
    (folder / "other").mkdir()
    status = (folder / "own").lstat()
    lstat = Path.lstat

    def same(path: Path) -> os.stat_result:
        return status if path.name == "other" else lstat(path)

    monkeypatch.setattr(Path, "lstat", same)

    with pytest.raises(RefusedError, match="not written"):
        root.write_atomic("other/code.py", b"evil")


@pytest.mark.attack("review M9")
def test_what_is_hidden_is_not_read_by_any_name(root: Root, folder: Path) -> None:
    (folder / "link").symlink_to("state/keys")
    (folder / "way").symlink_to("state")
    os.link(folder / "state" / "keys", folder / "hard")
    (folder / "plain").write_text("plain", "utf-8")
    os.link(folder / "plain", folder / "plainer")
    reads = [
        *(lambda name=name: root.read(name, 99) for name in ("state/keys", "link", "way/keys")),
        lambda: root.read("hard", 99),
        lambda: root.list_dir("state", 9),
        lambda: root.list_dir("way", 9),
        lambda: root.stat("state/keys"),
    ]

    for read in reads:
        with pytest.raises(RefusedError, match="keys and sessions"):
            read()

    assert root.read("own/code.py", 99) == b"original"
    assert root.read("plainer", 99) == b"plain"


@pytest.mark.attack("review H1")
def test_a_working_folder_on_the_search_path_is_not_written_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])

    with pytest.raises(RefusedError, match="another folder"):
        Root(folder, own=OwnFiles(folder)).write_atomic("new", b"")
