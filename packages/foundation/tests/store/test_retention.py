"""What is deleted and what never is: a plan first, then sessions, then blobs that nobody needs."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.store import SessionStore
from amplifier_foundation.store.blobs import LARGE
from amplifier_foundation.store.lease import Lease


def make(
    store: SessionStore, session_id: str, project: Path, *, days: float = 0, **fields: Any
) -> Path:
    """Make a session that was last used so many days ago."""
    with store.create(session_id, project=project) as writer:
        writer.append("prompt", {"text": fields.pop("text", "x" * 1_000)})
        writer.update(**fields)
    used = datetime.now(UTC) - timedelta(days=days)
    facts = {"updated_at": used.isoformat(), "touched": int(used.timestamp() * 1e6)}
    path = writer.folder / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **facts}))
    return writer.folder


def ids(store: SessionStore) -> list[str]:
    return [each.session_id for each in store.list()]


def blobs(home: Path) -> list[str]:
    return [path.name for path in (home / "blobs").rglob("*") if len(path.name) == 64]


def test_a_plan_deletes_nothing_until_it_is_applied(store: SessionStore, project: Path) -> None:
    for name, days in (("new", 1), ("old", 40), ("older", 50)):
        make(store, name, project, days=days)

    plan = store.retention(max_age_days=30)

    assert [each.session_id for each in plan.sessions] == ["old", "older"]
    assert "not used for 30 days" in plan.sessions[0].why
    assert plan.bytes > 2_000
    assert ids(store) == ["new", "old", "older"]

    deleted = plan.apply()

    assert deleted.sessions == ["old", "older"]
    assert deleted.bytes == plan.bytes
    assert ids(store) == ["new"]


def test_the_newest_the_pinned_and_the_held_stay(store: SessionStore, project: Path) -> None:
    for name, days in (("newest", 40), ("pinned", 41), ("held", 42), ("old", 43)):
        make(store, name, project, days=days, pinned=name == "pinned")
    holding = store.open("held")

    plan = store.retention(max_age_days=30, max_bytes=0, keep=1)

    assert [each.session_id for each in plan.sessions] == ["old"]
    assert {(each.session_id, each.why.split()[2]) for each in plan.kept} == {
        ("pinned", "pinned."),
        ("held", "open"),
    }
    plan.apply()
    holding.close()
    assert set(ids(store)) == {"newest", "pinned", "held"}


def test_a_session_that_was_used_after_the_plan_stays(store: SessionStore, project: Path) -> None:
    for name in ("opened", "used", "pinned", "unused"):
        make(store, name, project, days=40)
    plan = store.retention(max_age_days=30)
    with store.open("used") as writer:
        writer.append("prompt", {"text": "again"})
    with store.open("pinned") as writer:
        writer.update(pinned=True)
    opened = store.open("opened")

    deleted = plan.apply()

    assert deleted.sessions == ["unused"]
    assert sorted(each.session_id for each in deleted.kept) == ["opened", "pinned", "used"]
    opened.close()


def test_the_oldest_go_until_the_rest_fits_with_its_blobs(
    store: SessionStore, home: Path, project: Path
) -> None:
    for days, name in enumerate(("d", "c", "b", "a")):
        make(
            store,
            name,
            project,
            days=days,
            text="shared " * LARGE if name in "ad" else name * LARGE * 2,
        )

    # `a` shares its blob with `d`, which stays: deleting it frees next to nothing.
    plan = store.retention(max_bytes=7 * LARGE + 2 * LARGE + 10_000)
    assert [each.session_id for each in plan.sessions] == ["a", "b"]
    swept = plan.apply().blobs

    assert (swept.blobs, swept.bytes, swept.unsure) == (1, 2 * LARGE, [])
    assert ids(store) == ["d", "c"]
    assert len(blobs(home)) == 2
    for name in ("d", "c"):
        reader = store.read(name)
        assert len(list(reader.records())) == 1
        assert reader.damage == []


def test_no_blob_is_swept_while_a_log_is_damaged(
    store: SessionStore, home: Path, project: Path
) -> None:
    make(store, "old", project, days=40, text="x" * LARGE * 2)
    log = make(store, "damaged", project) / "log.jsonl"
    sound = log.read_bytes()
    log.write_bytes(sound.replace(b"xxx", b"xyx", 1))

    swept = store.retention(max_age_days=30).apply().blobs

    assert (swept.blobs, swept.unsure) == (0, ["damaged"])
    assert len(blobs(home)) == 1
    log.write_bytes(sound)
    assert store.retention().apply().blobs.blobs == 1
    assert blobs(home) == []


def test_a_blob_is_not_swept_between_its_writing_and_its_record(
    store: SessionStore, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The string is there already, unreferenced, when a writer stores it again."""
    large = "x" * LARGE * 2
    make(store, "old", project, text=large)
    store.delete("old")
    writer = store.create("new", project=project)
    require, sweeping = Lease.require, list[threading.Thread]()

    def meanwhile(lease: Lease) -> None:
        if not sweeping:
            sweeping.append(threading.Thread(target=store.retention().apply))
            sweeping[0].start()
            # It waits for the record to be written; without that it would be done long since.
            sweeping[0].join(0.2)
        require(lease)

    monkeypatch.setattr(Lease, "require", meanwhile)
    writer.append("prompt", {"text": large})
    sweeping[0].join(5)
    monkeypatch.undo()
    writer.close()

    assert len(blobs(home)) == 1
    (record,) = store.read("new").records()
    assert record.data["text"] == large


def test_what_a_crash_left_is_cleared(store: SessionStore, home: Path, project: Path) -> None:
    folder = make(store, "s", project, text="x" * LARGE * 2)
    other = make(store, "t", project, days=40)
    half = home / "blobs" / blobs(home)[0][:2] / ".unfinished-x.1.1"
    half.write_bytes(b"half")
    left = folder.with_name(".deleted-x")
    left.mkdir()
    (left / "log.jsonl").write_bytes(b"")

    store.retention(max_age_days=30).apply()

    assert not half.exists()
    assert not left.exists()
    assert not other.exists()
    assert len(blobs(home)) == 1


def test_metadata_of_any_types_keeps_no_rule_from_being_applied(
    store: SessionStore, project: Path
) -> None:
    for number, wrong in enumerate(("yesterday", None, [1], 2.5)):
        path = make(store, f"s{number}", project, days=40 + number) / "metadata.json"
        facts = json.loads(path.read_bytes())
        path.write_text(json.dumps({**facts, "touched": wrong, "session_id": [f"s{number}"]}))
    make(store, "new", project)

    assert len(store.retention(max_age_days=30).sessions) == 4
    assert len(store.retention(max_bytes=1).sessions) == 5
