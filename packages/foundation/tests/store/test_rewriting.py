"""A session that is written anew in its place: all of it, or as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from amplifier_foundation.store import SessionHeldError, SessionStore

SECRET = "correct-horse-battery-staple-77"
LARGE = f"{'x' * 70_000} {SECRET}"


def blanked(value: Any) -> Any:
    """Return texts and data without the secret."""
    if isinstance(value, str):
        return value.replace(SECRET, "[BLANK]")
    if isinstance(value, list):
        return [blanked(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: blanked(each) for key, each in cast("dict[str, Any]", value).items()}
    return value


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """A store with one session, which has the secret everywhere."""
    store = SessionStore(tmp_path / "home")
    with store.create("one", project=tmp_path, metadata={"title": f"About {SECRET}"}) as writer:
        writer.append("prompt", {"text": f"remember {SECRET}", "turn": 1})
        writer.append("event", {"large": LARGE})
        writer.append("prompt", {"text": "thank you", "turn": 2})
        (writer.folder / "chat.log").write_text(f"saw {SECRET}\n", encoding="utf-8")
        (writer.folder / "log.torn").write_text(f'{{"half":"{SECRET}', encoding="utf-8")
        (writer.folder / "module").mkdir()
        (writer.folder / "module" / "table").write_bytes(b"\x00\x01" + SECRET.encode())
        (writer.folder / "module" / "clean.txt").write_text("nothing here", encoding="utf-8")
    return store


def holding(store: SessionStore) -> list[str]:
    """Return the files that have the secret."""
    files = (path for path in store.home.rglob("*") if path.is_file())
    return sorted(path.name for path in files if SECRET.encode() in path.read_bytes())


def test_every_place_is_changed_and_id_numbers_and_times_stay(store: SessionStore) -> None:
    before = list(store.read("one").records())
    touched = store.read("one").metadata["touched"]
    assert len(holding(store)) == 7

    done = store.rewrite("one", blanked)
    store.retention().apply()

    reader = store.read("one")
    after = list(reader.records())
    assert [each[:4] for each in after] == [each[:4] for each in before]
    assert after[0].data["text"] == "remember [BLANK]"
    assert after[1].data["large"].endswith(" [BLANK]")
    assert after[2] == before[2]
    assert reader.damage == []
    assert reader.metadata["title"] == "About [BLANK]"
    assert reader.metadata["touched"] == touched
    assert (done.records, done.files) == (3, ["chat.log", "log.torn", "table"])
    assert holding(store) == []
    assert sorted(path.name for path in reader.folder.iterdir()) == [
        "chat.log",
        "log.jsonl",
        "log.lock",
        "metadata.json",
        "module",
    ]
    assert store.list()[0].title == "About [BLANK]"
    assert store.index_problems() == []


def test_the_session_goes_on_under_a_higher_number_of_its_writer(store: SessionStore) -> None:
    store.rewrite("one", blanked)

    with store.open("one") as writer:
        assert writer.damage == []
        assert writer.append("prompt", {"text": "go on", "turn": 3}) == 4
    assert [each.seq for each in store.read("one").records()] == [1, 2, 3, 4]


def test_a_failure_on_the_way_leaves_everything_as_it_was(store: SessionStore) -> None:
    files = {
        path: path.read_bytes()
        for path in store.read("one").folder.rglob("*")
        if path.is_file() and path.name != "log.lock"
    }

    def failing(value: Any) -> Any:
        if value == {"text": "thank you", "turn": 2}:
            raise OSError(28, "No space left on device")
        return blanked(value)

    with pytest.raises(Exception, match="was not changed"):
        store.rewrite("one", failing)

    assert {path: path.read_bytes() for path in files} == files
    assert store.holder("one") is None


def test_what_a_killed_process_left_is_cleared_away(store: SessionStore) -> None:
    folder = store.read("one").folder
    for name in ("log.old", "log.new"):
        (folder / name).write_text(f"{SECRET} half a l", encoding="utf-8")

    store.rewrite("one", blanked)
    store.retention().apply()

    assert holding(store) == []
    assert len(list(store.read("one").records())) == 3


def test_a_session_that_is_open_is_left_alone(store: SessionStore) -> None:
    with store.open("one"), pytest.raises(SessionHeldError):
        store.rewrite("one", blanked)
    assert list(store.read("one").records())[0].data["text"] == f"remember {SECRET}"
