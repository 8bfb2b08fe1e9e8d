"""Files of a prompt: read with their type and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier import File


@pytest.mark.parametrize(
    ("name", "media_type"), [("a.pdf", "application/pdf"), ("b.txt", "text/plain")]
)
def test_the_name_of_a_file_says_what_it_is(tmp_path: Path, name: str, media_type: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"data")

    assert File.read(path) == File(b"data", media_type, name)
    assert File.read(str(path), "text/csv").media_type == "text/csv"


def test_a_name_that_says_nothing_needs_a_media_type(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b"data")

    with pytest.raises(ValueError, match="`notes` is not known: give its `media_type`"):
        File.read(path)
    assert File.read(path, "text/plain").name == "notes"
