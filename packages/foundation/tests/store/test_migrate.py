"""Sessions of an older format move whole, counted, and leave the old file where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import amplifier_foundation.store.migrate as migrate_module
from amplifier_foundation.store import SessionStore
from amplifier_foundation.store.blobs import LARGE
from amplifier_foundation.store.lease import taking


def older(home: Path, name: str, messages: list[Any], *, file: str = "transcript.jsonl") -> Path:
    """Make a session as published apps write it."""
    folder = home / "projects" / "work" / "sessions" / name
    folder.mkdir(parents=True)
    metadata = {
        "session_id": name,
        "created": "2025-01-02T03:04:05Z",
        "turn_count": 2,
        "name": "Old",
    }
    (folder / "metadata.json").write_text(json.dumps({**metadata, "working_dir": "/srv/app"}))
    (folder / file).write_text("".join(json.dumps(each) + "\n" for each in messages))
    return folder


def message(number: int) -> dict[str, Any]:
    return {"role": "user" if number % 2 else "assistant", "content": f"message {number}"}


@pytest.mark.parametrize("file", ["transcript.jsonl", "log.jsonl"])
def test_every_message_moves_and_the_old_file_stays(
    store: SessionStore, home: Path, file: str
) -> None:
    messages = [message(number) for number in range(1_350)]
    messages[7]["content"] = [{"type": "text", "text": "x" * LARGE * 2}]
    messages[8]["$blob"] = "0" * 64
    folder = older(home, "s", messages, file=file)
    old = (folder / file).read_bytes()

    dry = store.migrate(dry_run=True)

    assert str(dry) == "1,350 of 1,350 can be moved"
    assert sorted(each.name for each in folder.iterdir()) == sorted(["metadata.json", file])
    assert (folder / file).read_bytes() == old

    assert str(store.migrate()) == "1,350 of 1,350 moved"

    kept = folder / ("log.v0.jsonl" if file == "log.jsonl" else file)
    assert kept.read_bytes() == old
    assert json.loads((folder / "metadata.v0.json").read_bytes())["name"] == "Old"
    reader = store.read("s")
    assert [record.data["message"] for record in reader.records()] == messages
    assert reader.damage == []
    (summary,) = store.list(Path("/srv/app"))
    assert (summary.title, summary.turns, summary.created_at) == ("Old", 2, "2025-01-02T03:04:05Z")
    assert store.migrate().sessions == []
    with store.open("s") as writer:
        assert writer.append("message", {"message": message(0)}) == 1_351


@pytest.mark.parametrize(
    "bad",
    ["{", "[]", '{"no": "role"}', '{"v":1}', '{"v":1,"seq":"x","at":"","kind":"k","data":{}}'],
)
def test_a_session_that_would_lose_a_record_stays_as_it_is(
    store: SessionStore, home: Path, bad: str
) -> None:
    older(home, "good", [message(1)])
    folder = older(home, "bad", [message(1), message(2)])
    with (folder / "transcript.jsonl").open("a") as file:
        file.write(bad + "\n")
    before = (folder / "transcript.jsonl").read_bytes()

    migration = store.migrate()

    assert str(migration) == "1 of 4 moved"
    (problem,) = [each for each in migration.sessions if each.problem]
    assert (problem.session_id, problem.moved) == ("bad", 0)
    assert "Line 3" in problem.problem
    assert not (folder / "log.jsonl").exists()
    assert (folder / "transcript.jsonl").read_bytes() == before


def test_a_session_that_is_open_does_not_move(store: SessionStore, home: Path) -> None:
    older(home, "s", [message(1)], file="log.jsonl")
    writer = store.open("s")

    (moved,) = store.migrate().sessions

    assert "is open in process" in moved.problem
    writer.close()


def test_a_session_of_this_version_is_left_alone(store: SessionStore, log: Path) -> None:
    before = log.read_bytes()

    assert store.migrate().sessions == []
    assert log.read_bytes() == before


def test_a_log_whose_version_is_not_a_number_is_left_and_the_others_move(
    store: SessionStore, home: Path
) -> None:
    older(home, "strange", [{"v": "one"}], file="log.jsonl")
    older(home, "good", [message(1)])
    assert [each.session_id for each in store.migrate().sessions] == ["good"]


def test_a_message_that_is_written_before_the_lease_is_taken_moves_too(
    store: SessionStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = older(home, "s", [message(1)])

    def late(*given: Any) -> Any:
        with (folder / "transcript.jsonl").open("a") as file:
            file.write(json.dumps(message(2)) + "\n")
        return taking(*given)

    monkeypatch.setattr(migrate_module, "taking", late)
    assert str(store.migrate()) == "2 of 2 moved"
    assert [record.data["message"] for record in store.read("s").records()] == [
        message(1),
        message(2),
    ]
