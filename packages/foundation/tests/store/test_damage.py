"""What a damaged log still gives, and that the damage is told and kept."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.store import SessionStore
from amplifier_foundation.store.log_file import (
    GIANT,
    MOST_DAMAGE,
    MOST_IDLE_LINES,
    Damage,
    DamageList,
    TooDamagedError,
    encode_line,
)
from amplifier_journal.records import SCHEMA

pytestmark = pytest.mark.attack("D4")


def lines(log: Path) -> list[bytes]:
    """Return the lines of a log; the first says who wrote it."""
    return log.read_bytes().splitlines(keepends=True)


def texts(store: SessionStore) -> list[str]:
    """Return the texts that can be read."""
    return found(store)[0]


def found(store: SessionStore) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the texts that can be read, and the line and kind of each damage."""
    reader = store.read("s")
    read = [record.data["text"] for record in reader.records()]
    return read, [(each.line, each.kind) for each in reader.damage]


def test_a_sound_log_has_no_damage(store: SessionStore, log: Path) -> None:
    assert found(store) == (["one", "two", "three"], [])


def test_half_a_line_is_set_aside_and_the_next_record_follows(
    store: SessionStore, log: Path
) -> None:
    whole = log.read_bytes()
    torn = whole[:-20]
    log.write_bytes(torn)
    assert found(store) == (["one", "two"], [(4, "torn")])
    assert log.read_bytes() == torn

    with store.open("s") as writer:
        assert [each.kind for each in writer.damage] == ["torn"]
        assert writer.append("prompt", {"text": "again"}) == 3

    assert found(store) == (["one", "two", "again"], [])
    kept = (log.parent / "log.torn").read_bytes()
    assert kept.endswith(torn[-10:] + b"\n")
    assert whole.startswith(b"".join(lines(log)[:3]) + kept[:-1])


@pytest.mark.parametrize(
    ("old", "new"), [(b"two", b"twn"), (b'"seq":2', b'"seq":9'), (b'"fence":1', b'"fence":9')]
)
def test_a_changed_record_is_left_out_and_hides_none_that_follows(
    store: SessionStore, log: Path, old: bytes, new: bytes
) -> None:
    head, one, two, three = lines(log)
    log.write_bytes(head + one + two.replace(old, new) + three)

    assert found(store) == (["one", "three"], [(3, "checksum")])


def test_of_every_single_flipped_bit_nothing_wrong_is_read(store: SessionStore, log: Path) -> None:
    whole = log.read_bytes()
    start = whole.index(b"\n") + 1
    for position in range(start, len(whole) - 1):
        for bit in (0, 5):
            flipped = bytes([whole[position] ^ 1 << bit])
            log.write_bytes(whole[:position] + flipped + whole[position + 1 :])
            read, damage = found(store)
            # A flip can turn a line's end into a letter, so that two lines are lost.
            assert read == [each for each in ("one", "two", "three") if each in read], position
            assert len(read) == 3 or (len(read) >= 1 and damage), position


def test_a_line_that_is_there_twice_counts_once(store: SessionStore, log: Path) -> None:
    head, one, two, three = lines(log)
    log.write_bytes(head + one + one + two + three + two)

    assert found(store) == (["one", "two", "three"], [(3, "duplicate"), (6, "duplicate")])


def test_a_line_that_is_missing_is_told(store: SessionStore, log: Path) -> None:
    head, one, _, three = lines(log)
    log.write_bytes(head + one + three)

    assert found(store) == (["one", "three"], [(3, "gap")])


def test_windows_line_ends_are_read_and_told_once(store: SessionStore, log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n"))
    assert found(store) == (["one", "two", "three"], [(1, "crlf")])

    with store.open("s") as writer:
        writer.append("prompt", {"text": "four"})

    assert found(store) == (["one", "two", "three", "four"], [(1, "crlf")])


def test_a_giant_line_is_passed_over(store: SessionStore, log: Path) -> None:
    head, one, two, three = lines(log)
    with log.open("wb") as file:
        file.write(head + one)
        file.seek(GIANT + 10, 1)
        file.write(b"\n" + two + three)

    assert found(store) == (["one", "two", "three"], [(3, "giant")])


def test_a_giant_line_without_an_end_is_torn(store: SessionStore, log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(len(log.read_bytes()) + GIANT + 10)

    assert found(store) == (["one", "two", "three"], [(5, "torn")])


def test_a_record_of_a_newer_version_is_told_and_its_number_not_used_again(
    store: SessionStore, log: Path
) -> None:
    newer: dict[str, Any] = {
        "v": SCHEMA + 1,
        "seq": 4,
        "at": "",
        "fence": 1,
        "kind": {"new": "kind"},
        "data": [],
    }
    with log.open("ab") as file:
        file.write(json.dumps(newer).encode() + b"\n")
    assert found(store) == (["one", "two", "three"], [(5, "newer")])

    with store.open("s") as writer:
        assert writer.append("prompt", {"text": "five"}) == 5

    assert found(store) == (["one", "two", "three", "five"], [(5, "newer")])


def test_what_a_process_without_the_session_wrote_does_not_count(
    store: SessionStore, log: Path
) -> None:
    with store.open("s") as writer:
        writer.append("prompt", {"text": "four"})
        with log.open("ab") as late:
            late.write(encode_line(5, "", 1, "prompt", '{"text":"late"}'))
        writer.append("prompt", {"text": "five"})

    assert found(store) == (["one", "two", "three", "four", "five"], [(7, "fenced")])


@pytest.mark.parametrize(
    "junk", [b"\x00" * 50, b"[1,2]", b"null", b"{", b'{"v":1}', b"[" * 100_000]
)
def test_what_is_no_record_is_passed_over_and_stays_in_the_file(
    store: SessionStore, log: Path, junk: bytes
) -> None:
    head, one, two, three = lines(log)
    log.write_bytes(head + one + junk + b"\n" + two + three)

    assert found(store) == (["one", "two", "three"], [(3, "unreadable")])
    with store.open("s") as writer:
        writer.append("prompt", {"text": "four"})
    assert texts(store) == ["one", "two", "three", "four"]
    assert junk in log.read_bytes()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"title":"x"}', b"\xff\xfe"])
def test_metadata_that_cannot_be_read_comes_from_the_log_and_is_kept(
    store: SessionStore, log: Path, project: Path, content: bytes
) -> None:
    metadata = log.parent / "metadata.json"
    metadata.write_bytes(content)

    reader = store.read("s")
    assert reader.metadata["project"] == str(project)
    assert [each.session_id for each in store.list(project)] == ["s"]
    assert (list(reader.records())[-1].seq, [each.kind for each in reader.damage]) == (
        3,
        ["metadata"],
    )

    store.open("s").close()
    assert store.read("s").damage == []
    assert (log.parent / "metadata.damaged").read_bytes() == content


def test_a_session_of_which_only_records_are_left_is_found_by_its_folder(
    store: SessionStore, log: Path
) -> None:
    log.write_bytes(b"".join(lines(log)[1:]))
    (log.parent / "metadata.json").unlink()

    assert [each.session_id for each in store.list()] == ["s"]
    assert texts(store) == ["one", "two", "three"]


def test_a_session_without_a_log_says_so(store: SessionStore, log: Path) -> None:
    log.unlink()

    assert found(store) == ([], [(0, "unreadable")])


@given(data=st.data(), contents=st.lists(st.text(max_size=40), max_size=6))
def test_a_log_torn_at_any_byte_yields_exactly_its_whole_lines(
    data: st.DataObject, contents: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(Path(folder))
        with store.create("s", project=Path(folder)) as writer:
            for text in contents:
                writer.append("prompt", {"text": text})
        log = writer.folder / "log.jsonl"
        whole = log.read_bytes()
        torn = whole[: data.draw(st.integers(0, len(whole)))]
        log.write_bytes(torn)
        expected = contents[: max(0, torn.count(b"\n") - 1)]

        assert texts(store) == expected

        with store.open("s") as writer:
            assert writer.append("prompt", {"text": "next"}) == len(expected) + 1
        reader = store.read("s")
        assert [each.data["text"] for each in reader.records()] == [*expected, "next"]
        assert reader.damage == []
        rest = torn.rpartition(b"\n")[2]
        aside = log.parent / "log.torn"
        assert (aside.read_bytes() if aside.exists() else b"") == (rest + b"\n" if rest else b"")


def test_a_log_torn_at_each_byte_yields_exactly_its_whole_lines(
    store: SessionStore, log: Path
) -> None:
    whole = log.read_bytes()
    for size in range(len(whole) + 1):
        log.write_bytes(whole[:size])
        expected = ["one", "two", "three"][: max(0, whole[:size].count(b"\n") - 1)]
        assert texts(store) == expected, size


@pytest.mark.attack("review untried")
@pytest.mark.parametrize("junk", [b"x\n", b"\n", b"{}\n"])
def test_of_a_log_full_of_junk_the_beginning_is_read_and_the_damage_stays_short(
    store: SessionStore, log: Path, junk: bytes
) -> None:
    with log.open("ab") as file:
        file.write(junk * (MOST_IDLE_LINES + 10))

    reader = store.read("s")
    read = [record.data["text"] for record in reader.records()]

    assert read == ["one", "two", "three"]
    assert len(reader.damage) <= MOST_DAMAGE + 1
    assert "The rest is not read." in reader.damage[-1].detail
    with pytest.raises(TooDamagedError, match="amplifier session fork s$"):
        store.open("s")
    with pytest.raises(TooDamagedError, match="amplifier session fork s$"):
        store.rewrite("s", lambda value: value)


def test_a_long_list_of_damage_counts_what_it_leaves_out() -> None:
    found = DamageList()

    for line in range(1, 201):
        found.append(Damage(line, "unreadable", "no record."))

    assert len(found) == MOST_DAMAGE + 1
    assert found[-1] == Damage(200, "unreadable", f"no record. {199 - MOST_DAMAGE} more before it.")
