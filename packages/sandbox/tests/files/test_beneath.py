"""Creating a file beneath a folder, on kernels that hold a name there and on those that do not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_sandbox.files.component_walk import FOLDER, closing
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import create_beneath

PARTS = st.sampled_from(["a", "b", "A", "..", ".", "", "link", "out", "\u00e9", "x" * 300])


@pytest.fixture
def folder(work: Path) -> Iterator[int]:
    """A folder, with a link out of it and one to a folder in it."""
    (work / "out").symlink_to(work.parent)
    (work / "inside").mkdir()
    (work / "link").symlink_to("inside")
    with closing(os.open(work, FOLDER)) as fd:
        yield fd


def test_a_file_is_created_with_the_folders_above_it(work: Path, folder: int) -> None:
    with os.fdopen(create_beneath(folder, "new/deep/file", 0o640), "wb") as file:
        file.write(b"content")
    os.close(create_beneath(folder, "new/other"))

    assert (work / "new" / "deep" / "file").read_bytes() == b"content"
    assert stat.S_IMODE((work / "new" / "deep" / "file").stat().st_mode) & 0o137 == 0
    assert (work / "new" / "other").is_file()


@pytest.mark.attack("review H2")
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../planted", "outside"),
        ("a/../../planted", "outside"),
        ("/tmp/planted", "outside"),
        ("out/planted", "link"),
        ("out/new/planted", "link"),
        ("link/planted", "link"),
    ],
)
def test_no_file_is_created_elsewhere_or_through_a_link(
    work: Path, folder: int, name: str, rule: str
) -> None:
    before = sorted(work.parent.rglob("*"))

    with pytest.raises(RefusedError) as refused:
        create_beneath(folder, name)

    assert refused.value.rule == rule
    assert sorted(set(work.parent.rglob("*")) - set(before)) in ([], [work / "a"])


@pytest.mark.parametrize("name", ["there", "hanging", "out"])
def test_what_is_there_is_not_replaced(work: Path, folder: int, name: str) -> None:
    (work / "there").write_bytes(b"old")
    (work / "hanging").symlink_to(work.parent / "nowhere")

    with pytest.raises((FileExistsError, RefusedError)):
        create_beneath(folder, name)

    assert (work / "there").read_bytes() == b"old"
    assert not (work.parent / "nowhere").exists()


@given(parts=st.lists(PARTS, min_size=1, max_size=6))
def test_whatever_its_name_a_file_is_created_beneath_the_folder_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    above = tmp_path_factory.mktemp("above")
    work = above / "work"
    work.mkdir()
    (work / "out").symlink_to(above)
    (work / "link").symlink_to("b")
    with closing(os.open(work, FOLDER)) as fd, suppress(RefusedError, OSError):
        os.close(create_beneath(fd, "/".join(parts)))

    assert [path.name for path in above.iterdir()] == ["work"]
