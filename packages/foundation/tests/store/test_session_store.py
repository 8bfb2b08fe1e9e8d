"""What every user of the store relies on: what was appended is there, in order, and only once."""

from __future__ import annotations

import json
import os
import re
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from amplifier_foundation.short_ids import short_id
from amplifier_foundation.store import (
    AmbiguousSessionError,
    SessionExistsError,
    SessionFullError,
    SessionNotFoundError,
    SessionStore,
    StoreError,
)
from amplifier_foundation.store.blobs import LARGE


def test_what_was_appended_is_read_in_order(store: SessionStore, project: Path) -> None:
    with store.create("s", project=project) as writer:
        assert [writer.append("prompt", {"text": text}) for text in ("one", "zwei", "三")] == [
            1,
            2,
            3,
        ]

    records = list(store.read("s").records())

    assert [(each.seq, each.kind, each.data["text"]) for each in records] == [
        (1, "prompt", "one"),
        (2, "prompt", "zwei"),
        (3, "prompt", "三"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", each.at) for each in records)
    assert [each.seq for each in store.read("s").records(after=2)] == [3]


def test_a_line_says_its_version_its_number_and_its_writer(log: Path) -> None:
    lease, first, *_ = [json.loads(line) for line in log.read_text().splitlines()]

    assert list(first) == ["v", "seq", "at", "fence", "kind", "data", "crc"]
    assert (first["v"], first["seq"], first["fence"]) == (1, 1, 1)
    assert (lease["kind"], lease["data"]["pid"]) == ("lease", os.getpid())


def test_an_opened_session_goes_on_where_it_ended(store: SessionStore, log: Path) -> None:
    with store.open("s") as writer:
        assert writer.append("prompt", {"text": "four"}) == 4

    assert [each.data["text"] for each in store.read("s").records()][2:] == ["three", "four"]


def test_everything_is_the_owners_alone(store: SessionStore, home: Path, project: Path) -> None:
    with store.create("s", project=project) as writer:
        writer.append("prompt", {"text": "x" * (LARGE + 1)})

    for path in home.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_large_string_is_stored_once_and_read_back(
    store: SessionStore, home: Path, project: Path
) -> None:
    large = "größer " * LARGE
    for name in ("a", "b"):
        with store.create(name, project=project) as writer:
            writer.append("tool.result", {"result": [{"text": large}, "x" * LARGE]})

    blobs = [path for path in (home / "blobs").rglob("*") if len(path.name) == 64]

    assert len(blobs) == 1
    assert blobs[0].parent.name == blobs[0].name[:2]
    assert blobs[0].read_text(encoding="utf-8") == large
    for name in ("a", "b"):
        (record,) = store.read(name).records()
        assert record.data == {"result": [{"text": large}, "x" * LARGE]}


@pytest.mark.attack("K1")
def test_what_only_looks_like_a_reference_reads_nobodys_blob(
    store: SessionStore, home: Path, project: Path
) -> None:
    with store.create("a", project=project) as writer:
        writer.append("tool.result", {"text": "secret" * LARGE})
    (digest,) = [path.name for path in (home / "blobs").rglob("*") if len(path.name) == 64]
    forged = {"$blob": digest, "chars": 6 * LARGE, "inside": {"$plain": {"$blob": digest}}}

    with store.create("b", project=project) as writer:
        writer.append("tool.result", {"result": forged})

    (record,) = store.read("b").records()
    assert record.data == {"result": forged}


def test_a_rotten_blob_is_reported_and_stored_anew(
    store: SessionStore, home: Path, project: Path
) -> None:
    large = "x" * (LARGE + 1)
    writer = store.create("s", project=project)
    writer.append("prompt", {"text": large})
    (blob,) = [path for path in (home / "blobs").rglob("*") if len(path.name) == 64]
    blob.write_bytes(blob.read_bytes()[:-1] + b"y")

    reader = store.read("s")
    (record,) = reader.records()
    assert record.data["text"] == {"$blob": blob.name, "chars": LARGE + 1}
    assert [each.kind for each in reader.damage] == ["blob"]

    writer.append("prompt", {"text": large})
    writer.close()
    assert [each.data["text"] for each in reader.records()] == [large, large]
    assert reader.damage == []


class Usage(BaseModel):
    tokens: int
    note: str


def test_models_money_and_half_characters_are_recorded(store: SessionStore, project: Path) -> None:
    data: dict[str, Any] = {
        "usage": Usage(tokens=3, note="n"),
        "cost": Decimal("0.10"),
        "half": "\ud83d",
    }
    with store.create("s", project=project) as writer:
        writer.append("event", data)

    reader = store.read("s")
    (record,) = reader.records()
    assert record.data == {"usage": {"tokens": 3, "note": "n"}, "cost": "0.10", "half": "\ud83d"}
    assert reader.damage == []


def test_what_json_cannot_hold_is_refused_and_the_next_record_is_fine(
    store: SessionStore, project: Path
) -> None:
    with store.create("s", project=project) as writer:
        with pytest.raises(ValueError, match="no JSON for object"):
            writer.append("event", {"it": object()})
        with pytest.raises(ValueError, match="the store's own"):
            writer.append("lease", {})
        assert writer.append("event", {}) == 1


def test_nothing_passes_the_scrubber(store: SessionStore, home: Path, project: Path) -> None:
    def scrub(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("hunter2", "***"))

    with store.create("s", project=project, scrub=scrub) as writer:
        writer.append("prompt", {"text": "the password is hunter2"})
        writer.append("event", {"usage": Usage(tokens=1, note="hunter2")})
        writer.append("event", {"text": "hunter2" * LARGE})

    everything = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert b"***" in everything


def test_a_full_session_refuses_visibly_and_stays_readable(home: Path, project: Path) -> None:
    store = SessionStore(home, max_session_bytes=20_000)
    with store.create("s", project=project) as writer:
        while writer.bytes < 19_500:
            writer.append("event", {"text": "x" * 100})
        kept = writer.seq
        with pytest.raises(SessionFullError, match="limit of 20,000 bytes"):
            writer.append("event", {"text": "x" * 500})
        with pytest.raises(SessionFullError):
            writer.append("event", {"text": "x" * (LARGE + 1)})
    assert (writer.folder / "log.jsonl").stat().st_size <= 20_000

    reader = store.read("s")
    assert len(list(reader.records())) == kept > 50
    assert reader.damage == []
    with store.open("s") as again, pytest.raises(SessionFullError):
        again.append("event", {"text": "x" * 1_000})


def test_large_strings_count_towards_the_limit(home: Path, project: Path) -> None:
    store = SessionStore(home, max_session_bytes=3 * LARGE)
    with store.create("s", project=project) as writer:
        writer.append("event", {"text": "x" * (LARGE + 1)})
    with store.open("s") as writer:
        writer.append("event", {"text": "y" * (LARGE + 1)})
        with pytest.raises(SessionFullError):
            writer.append("event", {"text": "z" * (LARGE + 1)})


def test_metadata_is_replaced_whole_and_listed(store: SessionStore, project: Path) -> None:
    with store.create("s", project=project, metadata={"bundle": "default"}) as writer:
        writer.append("prompt", {"text": "hello"})
        writer.update(title="Hello", turns=1, cost_usd="0.01", status="running")

    (summary,) = store.list()

    assert summary.session_id == "s"
    assert summary.project == str(project)
    assert (summary.title, summary.turns, summary.cost_usd) == ("Hello", 1, "0.01")
    assert summary.bytes == (writer.folder / "log.jsonl").stat().st_size
    assert store.read("s").metadata["bundle"] == "default"


def test_a_session_is_found_by_id_by_prefix_and_as_the_last(
    store: SessionStore, project: Path, tmp_path: Path
) -> None:
    for name, where in (("abc-1", project), ("abc-2", project), ("xyz", tmp_path / "other")):
        store.create(name, project=where).close()

    assert store.find("abc-1") == "abc-1"
    assert store.find("x") == "xyz"
    assert store.find("last") == "xyz"
    assert store.find("last", project) == "abc-2"
    assert [each.session_id for each in store.list()] == ["xyz", "abc-2", "abc-1"]
    assert [each.session_id for each in store.list(project, limit=1)] == ["abc-2"]
    with pytest.raises(AmbiguousSessionError, match="`abc-2`, `abc-1`"):
        store.find("abc")
    for text in ("x%", "y", ""):
        with pytest.raises(SessionNotFoundError):
            store.find(text)


def test_the_last_of_a_project_failed_to_open_only_when_all_did(
    store: SessionStore, project: Path, tmp_path: Path
) -> None:
    opened = {"status": "completed", "turns": 1}
    store.create("elsewhere", project=tmp_path / "other", metadata=opened).close()
    store.create("refused", project=project, metadata={"status": "failed"}).close()
    assert store.find("last", project) == "refused"
    assert store.find("last") == "elsewhere"

    store.create("opened", project=project, metadata=opened).close()
    store.create("again", project=project, metadata={"status": "failed", "turns": 0}).close()
    assert store.find("last", project) == "opened"
    assert store.find("last") == "opened"


def test_an_id_is_taken_once_in_all_projects(
    store: SessionStore, project: Path, tmp_path: Path
) -> None:
    store.create("a/b", project=project).close()

    for session_id, where in (("a/b", project), ("a/b", tmp_path), ("a_b", project)):
        with pytest.raises(SessionExistsError):
            store.create(session_id, project=where)
    with pytest.raises(SessionNotFoundError):
        store.open("a_b")
    store.open("a/b").close()


def test_a_deleted_session_is_gone(store: SessionStore, log: Path) -> None:
    store.delete("s")

    assert store.list() == []
    assert list(log.parent.parent.iterdir()) == []
    for ask in (store.read, store.open, store.delete):
        with pytest.raises(SessionNotFoundError):
            ask("s")


def test_a_fork_has_the_records_up_to_its_point_and_its_own_after(
    store: SessionStore, log: Path
) -> None:
    with store.open("s") as writer:
        writer.append("prompt", {"text": "x" * (LARGE + 1)})
        writer.update(title="Long", pinned=True)
    original = log.read_bytes()

    with store.copy("s", "fork", upto=2, metadata={"status": "new"}) as fork:
        assert fork.append("prompt", {"text": "other"}) == 3
    store.copy("s", "whole").close()

    reader = store.read("fork")
    assert [each.data["text"] for each in reader.records()] == ["one", "two", "other"]
    assert [each.at for each in reader.records()][:2] == [
        each.at for each in store.read("s").records()
    ][:2]
    assert reader.damage == []
    facts = {"title": "Long", "status": "new", "forked_from": "s", "forked_at": 2}
    assert facts.items() <= reader.metadata.items()
    assert "pinned" not in reader.metadata
    assert [len(each.data["text"]) for each in store.read("whole").records()] == [
        3,
        3,
        5,
        LARGE + 1,
    ]
    assert log.read_bytes() == original


def test_a_closed_writer_writes_nothing(store: SessionStore, project: Path) -> None:
    writer = store.create("s", project=project)
    writer.close()
    writer.close()

    with pytest.raises(StoreError, match="is closed"):
        writer.append("event", {})


def test_a_child_is_shown_and_found_by_its_own_part(store: SessionStore, project: Path) -> None:
    root = "5478aaaa-7640-4729-9cc7-ab49582fdff3"
    short = {
        root: "5478aaaa",
        f"{root}-8e4e3212": "8e4e3212",
        f"{root}-8e4e3212-77aa0011": "77aa0011",
        "0000000000000000-5478cccb2a4120bf_explorer": "5478cccb",
        "0000000000000000-db28ee52d4a04cf0_explorer": "db28ee52",
    }
    for name in short:
        store.create(name, project=project).close()

    assert {each: short_id(each) for each in short} == short
    assert {store.find(shown): shown for shown in short.values()} == short
    assert store.find(root[:20]) == root
    assert store.find(f"{root}-8e") == f"{root}-8e4e3212"
    with pytest.raises(AmbiguousSessionError):
        store.find("5478")
    with pytest.raises(SessionNotFoundError):
        store.find("00000000")


def test_a_child_is_neither_listed_unasked_nor_the_last_one(
    store: SessionStore, project: Path
) -> None:
    with store.create("root", project=project):
        pass
    with store.create("root-child", project=project) as writer:
        writer.update(parent_id="root")

    assert [each.session_id for each in store.page(project, children=False).sessions] == ["root"]
    assert [each.session_id for each in store.page(project).sessions] == ["root-child", "root"]
    assert store.find("last", project) == "root"
