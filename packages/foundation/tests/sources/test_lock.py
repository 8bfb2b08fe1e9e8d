"""The lock: readable, the same everywhere, and never half written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amplifier_foundation.sources import DriftError, Lock, Pin
from amplifier_foundation.sources.content import content_hash
from amplifier_foundation.sources.errors import LockFileError

SHA = "a" * 64
COMMIT = "b" * 40


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "amplifier.lock")
    pin = Pin("git+https://h/o/r@main", SHA, COMMIT, accepted=("something in x.py:1: exec",))
    lock.pin("tool-x", pin)
    lock.bundles["git+https://h/o/b@main"] = Pin("git+https://h/o/b@main", SHA, COMMIT)
    lock.write()

    again = Lock.read(lock.path)

    assert again.modules == {"tool-x": pin}
    assert again.bundles == lock.bundles
    assert [path.name for path in tmp_path.iterdir()] == ["amplifier.lock"]


def test_a_lock_is_written_in_one_order_whatever_was_pinned_first(tmp_path: Path) -> None:
    texts: list[str] = []
    for order in (("tool-a", "tool-b"), ("tool-b", "tool-a")):
        lock = Lock(tmp_path / "amplifier.lock")
        for module_id in order:
            lock.pin(module_id, Pin(f"package:{module_id}", SHA, version="1"))
        lock.write()
        texts.append(lock.path.read_text(encoding="utf-8"))

    assert texts[0] == texts[1]
    assert texts[0].count("\n") > 10


def test_a_lock_that_is_not_there_pins_nothing(tmp_path: Path) -> None:
    assert Lock.read(tmp_path / "amplifier.lock").modules == {}


def test_a_module_from_elsewhere_or_with_other_content_is_drift(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "amplifier.lock")
    lock.pin("tool-x", Pin("package:x", SHA))

    lock.check("tool-x", source="package:x", sha256=SHA)
    with pytest.raises(DriftError, match="package:y"):
        lock.check("tool-x", source="package:y", sha256=SHA)
    with pytest.raises(DriftError) as drift:
        lock.check("tool-x", source="package:x", sha256="c" * 64)

    assert drift.value.fix == "amplifier module lock"
    assert (drift.value.expected, drift.value.found) == (SHA, "c" * 64)


def test_paths_of_this_machine_are_not_written(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "project" / "amplifier.lock")

    assert lock.portable(tmp_path / "project" / "modules" / "x") == "./modules/x"
    assert lock.portable(tmp_path / "elsewhere") == "path"


@pytest.mark.attack("U1")
@pytest.mark.parametrize(
    "entry",
    [
        {"source": "git+https://h/o/r@main", "sha256": "../../evil"},
        {"source": "git+https://h/o/r@main", "sha256": SHA, "commit": "main"},
        {"source": "git+https://h/o/r@main", "sha256": SHA, "commit": COMMIT[:12]},
        {"source": "git+https://h/o/r@main"},
        {"sha256": SHA},
        {"source": "x", "sha256": SHA, "accept": True},
        {"source": "x", "sha256": SHA, "accepted": [1]},
        "tool-x",
    ],
)
def test_an_entry_that_does_not_pin_makes_the_lock_unreadable(
    tmp_path: Path, entry: object
) -> None:
    path = tmp_path / "amplifier.lock"
    content = {"version": 1, "bundles": {}, "modules": {"tool-x": entry}}
    path.write_text(json.dumps(content), encoding="utf-8")

    with pytest.raises(LockFileError, match="amplifier module lock"):
        Lock.read(path)


@pytest.mark.parametrize("text", ["<<<<<<< HEAD", "[]", '{"version": 2}', "{}"])
def test_a_file_that_is_no_lock_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "amplifier.lock"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(LockFileError):
        Lock.read(path)


def test_the_hash_tells_names_and_bytes_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.py").write_text("x", encoding="utf-8")
    first = content_hash(tmp_path)

    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("x", encoding="utf-8")
    (tmp_path / "b" / "x.py").chmod(0o755)
    (tmp_path / "empty").mkdir()
    same = content_hash(tmp_path)
    (tmp_path / "b" / "x.py").rename(tmp_path / "b" / "y.py")
    renamed = content_hash(tmp_path)
    (tmp_path / "b" / "y.py").write_text("y", encoding="utf-8")

    assert first == same
    assert len({first, renamed, content_hash(tmp_path)}) == 3
