"""The walk from part to part: the answers of the kernel, and no way out while files are swapped."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_sandbox.files import rooted
from amplifier_sandbox.files.component_walk import closing, walk_beneath
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Root, open_beneath

if sys.platform == "win32":
    raise pytest.skip.Exception("Windows opens no folders", allow_module_level=True)

LIMIT = 1_000
READ = os.O_RDONLY | os.O_NONBLOCK
FLAGS = {
    "file": READ,
    "folder": os.O_RDONLY | os.O_DIRECTORY,
    "place": getattr(os, "O_PATH", READ),
    "new": os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW,
}
# Few names, so that most of what is named exists.
NAMES = ("a", "b", "c")
PARTS = st.sampled_from([*NAMES, *NAMES, "..", "..", ".", ""])
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join)
TARGETS = st.one_of(PATHS, PATHS.map(lambda path: f"/{path}"), st.just("{root}/a"))
PLACES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
ENTRIES = st.one_of(st.just(None), st.just(b"text"), TARGETS)
TREES = st.lists(st.tuples(PLACES, ENTRIES), max_size=12)


def plant(root: Path, tree: list[tuple[str, bytes | str | None]]) -> None:
    """Make folders (None), files (bytes) and links (text); what cannot be made is left out."""
    for place, content in tree:
        path = root / place
        if os.path.realpath(path.parent) != str(path.parent):
            # A link is above it, which may lead anywhere on this machine.
            continue
        try:
            if content is None:
                path.mkdir()
            elif isinstance(content, bytes):
                with path.open("xb") as file:
                    file.write(content)
            else:
                path.symlink_to(content.format(root=root) or ".")
        except OSError:
            continue


def outcome(root: Path, name: str, kind: str, *, follow: bool) -> tuple[Any, ...]:
    """Return what opening a name leads to, in a form that can be compared."""
    with closing(os.open(root, os.O_RDONLY | os.O_DIRECTORY)) as folder:
        try:
            mode = 0o600 if kind == "new" else 0
            fd = open_beneath(folder, name, FLAGS[kind], follow=follow, mode=mode)
        except RefusedError as error:
            return "refused", error.rule
        except OSError as error:
            return "error", errno.errorcode[error.errno or 0]
        with closing(fd):
            if kind == "new":
                # The inode is a new one in each of the two trees.
                made = [str(path.relative_to(root)) for path in root.rglob("*")]
                return "made", sorted(made)
            status = os.fstat(fd)
            return "opened", status.st_dev, status.st_ino


@given(
    tree=TREES,
    name=PATHS,
    kind=st.sampled_from(sorted(FLAGS)),
    follow=st.booleans(),
)
@example(tree=[], name="a/", kind="new", follow=False)
@example(tree=[("b", "a")], name="/b/", kind="new", follow=True)
def test_every_name_has_the_answer_of_the_kernel(
    tmp_path_factory: pytest.TempPathFactory,
    tree: list[tuple[str, bytes | str | None]],
    name: str,
    kind: str,
    follow: bool,
) -> None:
    above = Path(os.path.realpath(tmp_path_factory.mktemp("above")))
    root = above / "root"
    root.mkdir()
    plant(above, [("a", b"outside"), ("b", None)])
    plant(root, tree)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rooted, "kernel_resolves_beneath", lambda: True)
        expected = outcome(root, name, kind, follow=follow)
        if expected[0] == "made":
            shutil.rmtree(root)
            root.mkdir()
            plant(root, tree)
        patch.setattr(rooted, "kernel_resolves_beneath", lambda: False)
        walked = outcome(root, name, kind, follow=follow)

    assert walked == expected
    assert sorted(each.name for each in above.iterdir()) == ["a", "b", "root"]


@pytest.mark.parametrize(("links", "expected"), [(40, "opened"), (41, "refused")])
def test_as_many_links_are_followed_as_the_kernel_follows(
    work: Path, links: int, expected: str
) -> None:
    (work / "0").write_bytes(b"text")
    for number in range(links):
        (work / str(number + 1)).symlink_to(str(number))

    assert outcome(work, str(links), "file", follow=True)[0] == expected


def test_no_descriptor_is_left_open(work: Path) -> None:
    plant(work, [("a", None), ("a/b", b"text"), ("c", "a/../a/b"), ("out", "../x"), ("b", "b")])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - their number

    for name in ("c", "a/b", "out", "b", "missing", "a/b/c", "../x", "a/.."):
        outcome(work, name, "file", follow=True)

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above


Swap = Callable[[Path, Path], None]


def _folder_to_link(work: Path, outside: Path) -> None:
    (work / "a").rename(work / "kept")
    (work / "a").symlink_to(outside)


def _inner_folder_to_link(work: Path, outside: Path) -> None:
    (work / "a" / "b").rename(work / "kept")
    (work / "a" / "b").symlink_to(outside)


def _folder_moved_out(work: Path, outside: Path) -> None:
    (work / "a" / "b").rename(outside / "b")


def _file_to_link(work: Path, outside: Path) -> None:
    (work / "a" / "name").unlink()
    (work / "a" / "name").symlink_to(outside / "name")


def _link_to_link(work: Path, outside: Path) -> None:
    (work / "link").unlink()
    (work / "link").symlink_to(outside)


SWAPS: tuple[Swap, ...] = (
    _folder_to_link,
    _inner_folder_to_link,
    _folder_moved_out,
    _file_to_link,
    _link_to_link,
)
ROUTES = ("a/name", "a/b/../name", "link/name", "link/b/../name", "a/b/../../a/b/../name")


@pytest.mark.attack("F3")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("swap", SWAPS)
def test_a_swap_before_any_step_of_a_walk_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: Swap, route: str
) -> None:
    found: Counter[bytes] = Counter()
    for step in range(30):
        base = tmp_path / str(step)
        work, outside = base / "work", base / "outside"
        for folder in (work / "a" / "b", outside / "b"):
            folder.mkdir(parents=True)
        (outside / "b").rmdir()
        (work / "a" / "name").write_bytes(b"mine")
        (work / "link").symlink_to("a")
        (outside / "name").write_bytes(b"secret")
        found[_read_with_swap(monkeypatch, work, route, step, lambda b=base: _apply(swap, b))] += 1

    assert found.keys() <= {b"mine", b"refused"}
    # The last steps are after the end of the walk.
    assert found[b"mine"] > 0


def _apply(swap: Swap, base: Path) -> None:
    swap(base / "work", base / "outside")


def _read_with_swap(
    monkeypatch: pytest.MonkeyPatch, work: Path, route: str, step: int, swap: Callable[[], None]
) -> bytes:
    """Read a file; before one step of the walk, files are swapped."""
    calls = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step + 1:
                swap()
            return real(*args, **named)

        return call

    with closing(os.open(work, os.O_RDONLY | os.O_DIRECTORY)) as folder, monkeypatch.context() as m:
        for name in ("open", "readlink"):
            m.setattr(os, name, counted(getattr(os, name)))
        try:
            fd = walk_beneath(folder, route, READ, follow=True)
        except OSError:
            return b"refused"
    with closing(fd):
        return os.read(fd, LIMIT)


SWAPPER = """
import os, sys
work, outside = sys.argv[1:]
os.chdir(work)
print("ready", flush=True)
while os.getppid() == int(os.environ["PARENT"]):
    # The folder becomes a link to the outside, and the folder below it moves out and back.
    os.rename("name", "kept")
    os.symlink(outside, "name")
    os.unlink("name")
    os.rename("kept", "name")
    os.rename("name/deep", f"{outside}/deep")
    os.rename(f"{outside}/deep", "name/deep")
"""


@contextmanager
def swapping(work: Path, outside: Path) -> Generator[None]:
    """Swap folders and links over and over in another process."""
    env = {"PARENT": str(os.getpid())}
    argv = [sys.executable, "-c", SWAPPER, str(work), str(outside)]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.attack("F3")
@pytest.mark.parametrize("route", ["name/file", "name/deep/../file", "link/deep/../file"])
def test_another_process_that_swaps_folders_neither_shows_nor_changes_the_outside(
    work: Path, tmp_path: Path, route: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    (work / "name" / "deep").mkdir(parents=True)
    (work / "name" / "file").write_bytes(b"mine")
    (work / "link").symlink_to("name")
    root = Root(work)
    seen: Counter[bytes] = Counter()

    until = time.monotonic() + 60
    with swapping(work, outside):
        while (seen.total() < 5_000 or len(seen) < 2) and time.monotonic() < until:
            try:
                seen[root.read(route, LIMIT)] += 1
            except (RefusedError, OSError):
                seen[b"refused"] += 1
            try:
                root.write_atomic("name/file", b"mine")
            except (RefusedError, OSError):
                seen[b"refused"] += 1

    assert seen.keys() == {b"mine", b"refused"}
    assert (outside / "file").read_bytes() == b"secret"
    assert {each.name for each in outside.iterdir()} <= {"file", "deep"}
