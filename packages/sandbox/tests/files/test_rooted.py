"""A root: what it opens, what it refuses, and how it writes."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Root

if sys.platform == "win32":
    raise pytest.skip.Exception("Windows opens no folders", allow_module_level=True)

LIMIT = 1_000


def refusal(root: Root, name: str) -> str:
    """Return the rule by which reading `name` is refused."""
    with pytest.raises(RefusedError) as refused:
        root.read(name, LIMIT)
    return refused.value.rule


def test_a_file_is_read_whole(root: Root, work: Path) -> None:
    (work / "sub").mkdir()
    (work / "a.txt").write_bytes(b"text")

    assert root.read("a.txt", LIMIT) == b"text"
    assert root.read("./sub//../a.txt", limit=4) == b"text"
    assert root.stat("a.txt").st_size == 4


@pytest.mark.attack("F1")
@pytest.mark.parametrize("target", ["{secret}", "../secret.txt", "/etc/passwd", "sub/../../x"])
def test_a_link_to_the_outside_is_refused(
    root: Root, work: Path, secret: Path, target: str
) -> None:
    (work / "sub").mkdir()
    (work / "link").symlink_to(target.format(secret=secret))

    assert refusal(root, "link") == "outside"
    with pytest.raises(RefusedError, match="symbolic link"):
        root.write_atomic("link", b"mine")
    with pytest.raises(RefusedError, match="symbolic link"):
        root.unlink("link")
    assert secret.read_bytes() == b"secret"
    assert (work / "link").is_symlink()


@pytest.mark.attack("F1")
def test_a_linked_folder_outside_is_neither_read_nor_written(
    root: Root, work: Path, secret: Path
) -> None:
    (work / "out").symlink_to(secret.parent)

    assert refusal(root, "out/secret.txt") == "outside"
    for write in (
        lambda: root.write_atomic("out/new.txt", b"x"),
        lambda: root.mkdirs("out/new"),
        lambda: root.unlink("out/secret.txt"),
        lambda: root.list_dir("out", LIMIT),
    ):
        with pytest.raises(RefusedError):
            write()
    assert sorted(each.name for each in secret.parent.iterdir()) == ["secret.txt", "work"]


def test_a_link_that_stays_inside_is_read_and_not_written_through(root: Root, work: Path) -> None:
    (work / "real.txt").write_bytes(b"text")
    (work / "link.txt").symlink_to("real.txt")

    assert root.read("link.txt", LIMIT) == b"text"
    with pytest.raises(RefusedError) as refused:
        root.write_atomic("link.txt", b"new")
    assert refused.value.rule == "link"
    assert (work / "real.txt").read_bytes() == b"text"


@pytest.mark.attack("F2")
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../secret.txt", "outside"),
        ("sub/../../secret.txt", "outside"),
        ("./a/../../x", "outside"),
        ("/etc/passwd", "outside"),
        ("//etc/passwd", "outside"),
        ("a\0b", "name"),
        ("\ud800", "name"),
    ],
)
def test_a_name_that_leads_out_is_refused(root: Root, work: Path, name: str, rule: str) -> None:
    (work / "sub").mkdir()
    (work / "a").mkdir()

    assert refusal(root, name) == rule
    with pytest.raises(RefusedError):
        root.write_atomic(name, b"x")


@pytest.mark.attack("F2")
@pytest.mark.parametrize("name", ["x" * 5_000, "\udcff\udcfe", "a/" * 3_000])
def test_an_odd_name_is_an_ordinary_error(root: Root, name: str) -> None:
    with pytest.raises((OSError, RefusedError)):
        root.read(name, LIMIT)


@pytest.mark.attack("F2")
def test_a_twin_with_the_same_beginning_is_outside(root: Root, work: Path) -> None:
    twin = work.with_name("work-evil")

    assert root.name_of(PurePosixPath(twin / "a")) is None
    assert root.name_of(PurePosixPath(work / "a")) == "a"


@pytest.mark.attack("F4")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "sparse", "proc"])
def test_what_is_no_plain_small_file_is_refused_at_once(root: Root, work: Path, kind: str) -> None:
    path, began = work / kind, time.monotonic()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(10_000_000_000)
    else:
        path.symlink_to("/proc/self/root/etc/passwd")
    expected = {"pipe": "kind", "folder": "kind", "sparse": "size"}.get(kind, "outside")

    assert refusal(root, kind) == expected
    assert time.monotonic() - began < 2


@pytest.mark.attack("F4")
@pytest.mark.parametrize("name", ["self/root/etc/passwd", "self/fd/0", "self/cwd", "self/exe"])
def test_the_links_of_the_process_folder_are_not_followed(name: str) -> None:
    assert refusal(Root(Path("/proc")), name) in ("link", "outside")


@pytest.mark.attack("F4")
def test_a_file_that_lies_about_its_size_is_bounded() -> None:
    with pytest.raises(RefusedError, match="limit is 10"):
        Root(Path("/proc")).read("version", 10)


@pytest.mark.attack("F4")
def test_a_write_does_not_reach_the_other_name_of_a_file(
    root: Root, work: Path, secret: Path
) -> None:
    (work / "twin").hardlink_to(secret)

    root.write_atomic("twin", b"mine")

    assert (work / "twin").read_bytes() == b"mine"
    assert secret.read_bytes() == b"secret"


@contextmanager
def racing(swap: Callable[[], None]) -> Generator[None]:
    """Swap files over and over in another thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            swap()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.attack("F3")
def test_a_race_of_file_and_link_leaks_nothing(root: Root, work: Path, secret: Path) -> None:
    (work / "name").write_bytes(b"mine")
    seen: Counter[bytes] = Counter()

    def swap() -> None:
        (work / "next").write_bytes(b"mine")
        (work / "next").replace(work / "name")
        (work / "next").symlink_to(secret)
        (work / "next").replace(work / "name")

    until = time.monotonic() + 30
    with racing(swap):
        while (seen.total() < 10_000 or len(seen) < 2) and time.monotonic() < until:
            try:
                seen[root.read("name", LIMIT)] += 1
            except RefusedError:
                seen[b"refused"] += 1

    assert seen.keys() == {b"mine", b"refused"}
    assert seen.total() >= 10_000


@pytest.mark.attack("F3")
def test_a_race_of_folder_and_link_writes_nothing_outside(
    root: Root, work: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (work / "real").mkdir()
    (work / "link").symlink_to(outside)
    seen: Counter[str] = Counter()

    def swap() -> None:
        for source in ("real", "link"):
            (work / source).rename(work / "name")
            (work / "name").rename(work / source)

    until = time.monotonic() + 30
    with racing(swap):
        while (seen.total() < 10_000 or len(seen) < 3) and time.monotonic() < until:
            try:
                root.write_atomic("name/file", b"mine")
                seen["written"] += 1
            except RefusedError:
                seen["refused"] += 1
            except FileNotFoundError:
                seen["between"] += 1

    assert seen.keys() == {"written", "refused", "between"}
    assert list(outside.iterdir()) == []


@pytest.mark.attack("F5")
def test_a_write_keeps_the_mode_and_leaves_nothing_beside(root: Root, work: Path) -> None:
    path = work / "run.sh"
    path.write_bytes(b"old")
    path.chmod(0o751)

    root.write_atomic("run.sh", b"new")

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert [each.name for each in work.iterdir()] == ["run.sh"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
def test_a_write_keeps_the_owner(root: Root, work: Path) -> None:
    (work / "a.txt").write_bytes(b"old")
    os.chown(work / "a.txt", 1234, 5678)

    root.write_atomic("a.txt", b"new")

    status = (work / "a.txt").stat()
    assert (status.st_uid, status.st_gid) == (1234, 5678)


@pytest.mark.attack("F5")
def test_a_write_is_refused_when_the_file_is_not_what_it_was(root: Root, work: Path) -> None:
    path = work / "a.txt"
    path.write_bytes(b"person")

    for replaces in (b"old", b"person, longer", None):
        with pytest.raises(RefusedError, match="in this moment"):
            root.write_atomic("a.txt", b"new", replaces=replaces)
    with pytest.raises(RefusedError, match="in this moment"):
        root.unlink("a.txt", replaces=b"old")
    with pytest.raises(RefusedError, match="in this moment"):
        root.write_atomic("gone.txt", b"new", replaces=b"old")

    assert path.read_bytes() == b"person"
    assert [each.name for each in work.iterdir()] == ["a.txt"]


def test_a_file_marked_read_only_is_not_replaced(root: Root, work: Path) -> None:
    (work / "a.txt").write_bytes(b"old")
    (work / "a.txt").chmod(0o444)

    with pytest.raises(RefusedError) as refused:
        root.write_atomic("a.txt", b"new")

    assert refused.value.rule == "read_only"
    assert (work / "a.txt").read_bytes() == b"old"


def test_a_root_for_reading_changes_nothing(work: Path) -> None:
    (work / "a.txt").write_bytes(b"old")
    root = Root(work, writable=False)

    for write in (
        lambda: root.write_atomic("a.txt", b"x"),
        lambda: root.unlink("a.txt"),
        lambda: root.mkdirs("sub"),
        lambda: root.rmdir("sub"),
    ):
        with pytest.raises(RefusedError) as refused:
            write()
        assert refused.value.rule == "read_only"
    assert root.read("a.txt", LIMIT) == b"old"


def test_folders_are_made_and_listed(root: Root, work: Path) -> None:
    root.mkdirs("a/b/c")
    root.mkdirs("a/b/c")
    root.write_atomic("a/b/two", b"2")
    root.write_atomic("a/b/one", b"1", replaces=None)

    entries, count = root.list_dir("a/b", 2)

    assert ([entry.name for entry in entries], count) == (["c", "one"], 3)
    assert (work / "a/b/c").is_dir()


@pytest.mark.parametrize("name", ["", ".", "..", "sub/..", "/"])
def test_a_folder_is_not_written_as_a_file(root: Root, name: str) -> None:
    with pytest.raises(RefusedError):
        root.write_atomic(name, b"x")


def test_a_root_is_found_under_both_of_its_names(work: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(work)
    root = Root(tmp_path / "alias")

    assert root.name_of(PurePosixPath(tmp_path / "alias" / "a")) == "a"
    assert root.name_of(PurePosixPath(work / "a")) == "a"


def test_the_folder_is_closed_when_nobody_holds_it(work: Path) -> None:
    root = Root(work)
    fd = root._fd
    assert os.path.samestat(os.fstat(fd), work.stat())

    del root

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.mark.attack("review M4")
def test_what_lends_its_owner_does_not_when_it_is_written(tmp_path: Path) -> None:
    root = Root(tmp_path)
    (tmp_path / "helper").write_bytes(b"old")
    (tmp_path / "helper").chmod(0o6755)

    root.write_atomic("helper", b"new")
    root.write_atomic("made", b"new", mode=0o4755)

    assert (tmp_path / "helper").stat().st_mode & 0o7777 == 0o755
    assert not (tmp_path / "made").stat().st_mode & 0o6000
