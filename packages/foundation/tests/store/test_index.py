"""The list of sessions says what the folders say, whatever happens to its file."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from amplifier_foundation.store import SessionStore
from amplifier_foundation.store.errors import SessionNotFoundError

REPOSITORY = Path(__file__).parents[4]


def ids(store: SessionStore) -> list[str]:
    return [each.session_id for each in store.list()]


@pytest.fixture
def three(store: SessionStore, project: Path) -> list[Path]:
    """The folders of three sessions."""
    folders: list[Path] = []
    for name in ("a", "b", "c"):
        with store.create(name, project=project) as writer:
            folders.append(writer.folder)
    assert ids(store) == ["c", "b", "a"]
    return folders


@pytest.mark.parametrize("content", [None, b"", b"no database" * 500])
def test_an_index_that_is_missing_or_broken_is_made_again(
    home: Path, three: list[Path], content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    index = home / "index.sqlite"
    index.unlink()
    if content is not None:
        index.write_bytes(content)
    told: list[tuple[int, int]] = []

    store = SessionStore(home, progress=lambda done, total: told.append((done, total)))

    assert ids(store) == ["c", "b", "a"]
    assert told == [(3, 3)]
    assert ids(store) == ["c", "b", "a"]
    assert told == [(3, 3)]
    assert ("made again" in caplog.text) == (content == b"no database" * 500)


def test_an_index_whose_middle_has_rotted_is_made_again(home: Path, project: Path) -> None:
    store = SessionStore(home)
    for number in range(40):
        store.create(f"{number:02}", project=project, metadata={"title": "x" * 500}).close()
    expected = ids(store)
    with sqlite3.connect(home / "index.sqlite") as table:
        table.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    table.close()
    content = bytearray((home / "index.sqlite").read_bytes())
    content[4096 : len(content)] = b"\\xff" * (len(content) - 4096)
    (home / "index.sqlite").write_bytes(content)

    assert ids(store) == expected


def test_an_index_of_another_version_is_made_again(
    home: Path, store: SessionStore, three: list[Path]
) -> None:
    with sqlite3.connect(home / "index.sqlite") as table:
        table.execute("DROP TABLE sessions")
        table.execute("CREATE TABLE sessions (other TEXT)")
        table.execute("PRAGMA user_version = 99")
    table.close()

    assert ids(store) == ["c", "b", "a"]


def test_what_changed_behind_the_index_is_noticed(store: SessionStore, three: list[Path]) -> None:
    first, second, _ = three
    metadata = json.loads((first / "metadata.json").read_bytes())
    (first / "metadata.json").write_text(json.dumps({**metadata, "title": "changed"}))
    second.rename(second.with_name("moved"))

    assert {each.session_id: each.title for each in store.list()} == {
        "c": "",
        "b": "",
        "a": "changed",
    }

    for each in second.with_name("moved").iterdir():
        each.unlink()
    second.with_name("moved").rmdir()
    assert ids(store) == ["c", "a"]


def test_a_folder_that_is_no_session_is_not_listed(store: SessionStore, three: list[Path]) -> None:
    three[0].with_name("empty").mkdir()
    (three[0].parent / "a file").write_text("text")
    (three[0].parent.parent.parent / "a file").write_text("text")

    assert ids(store) == ["c", "b", "a"]


@pytest.mark.parametrize("name", ["events.jsonl", "metadata.json"])
def test_a_folder_of_others_is_neither_counted_nor_a_difference_nor_deleted(
    home: Path, three: list[Path], name: str
) -> None:
    theirs = three[0].with_name("theirs") / name
    theirs.parent.mkdir()
    theirs.write_text('{"event": "session:start"}\n', encoding="utf-8")
    told: list[tuple[int, int]] = []
    store = SessionStore(home, progress=lambda done, total: told.append((done, total)))

    assert store.index_problems() == []
    assert store.rebuild_index() == 3
    assert store.index_problems() == []
    assert store.page().total == 3
    assert name == "metadata.json" or told == [(3, 3)]
    with pytest.raises(SessionNotFoundError):
        store.delete("theirs")
    with pytest.raises(SessionNotFoundError):
        store.rewrite("theirs", str)
    deleted = store.retention(max_age_days=0, max_bytes=0).apply()
    assert sorted(deleted.sessions) == ["a", "b", "c"]
    assert store.migrate().sessions == []
    assert [each.name for each in theirs.parent.iterdir()] == [name]
    assert store.index_problems() == []


def test_a_session_whose_log_and_metadata_were_removed_leaves_the_list(
    store: SessionStore, three: list[Path]
) -> None:
    three[0].joinpath("log.jsonl").unlink()
    three[0].joinpath("metadata.json").unlink()
    three[1].joinpath("log.jsonl").unlink()
    three[1].joinpath("metadata.json").write_text("{}", encoding="utf-8")
    assert store.index_problems() == ["2 sessions are not as it says"]

    assert ids(store) == ["c"]
    assert store.index_problems() == []


def test_an_index_that_cannot_be_written_costs_only_time(
    home: Path, store: SessionStore, three: list[Path], project: Path
) -> None:
    (home / "index.sqlite").unlink()
    (home / "index.sqlite").mkdir()

    store.create("d", project=project).close()

    assert ids(store) == ["d", "c", "b", "a"]
    assert store.find("d") == "d"


def test_an_index_that_another_process_has_locked_does_not_stop_a_writer(
    home: Path, store: SessionStore, three: list[Path]
) -> None:
    table = sqlite3.connect(home / "index.sqlite", isolation_level=None)
    table.execute("BEGIN IMMEDIATE")
    with store.open("a") as writer:
        writer.update(title="while locked")
    table.execute("ROLLBACK")
    table.close()

    assert store.list()[0].title == "while locked"


def test_many_sessions_are_made_and_listed_at_once(store: SessionStore, project: Path) -> None:
    def make(number: int) -> int:
        with store.create(f"{number}", project=project) as writer:
            writer.append("prompt", {"text": "x"})
            return len(store.list())

    with ThreadPoolExecutor(6) as pool:
        assert max(pool.map(make, range(24))) == 24

    assert sorted(ids(store), key=int) == [str(number) for number in range(24)]


def test_a_home_that_is_not_there_has_no_sessions_and_is_not_made(
    home: Path, store: SessionStore
) -> None:
    assert ids(store) == []
    assert not home.exists()


def test_the_store_is_cheap_to_import() -> None:
    program = "import sys, amplifier_foundation.store; print(*sys.modules)"
    # What measures the coverage of subprocesses loads modules of its own into them.
    environ = {name: each for name, each in os.environ.items() if "COVERAGE" not in name}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )

    loaded = set(ended.stdout.split())
    expensive = {"pydantic", "yaml", "asyncio", "sqlite3", "logging", "shutil"}
    assert expensive & loaded == set()
    # The kernel's version is looked at; none of its files is loaded for that.
    assert [name for name in loaded if name.startswith("amplifier_core.")] == []


@pytest.mark.slow
def test_thousands_of_sessions_are_listed_and_shown_in_time() -> None:
    # Twice the bars: other tests run meanwhile. `make bench B=store` judges by the bars themselves.
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.store", "2"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_project_whose_name_is_not_utf_8_has_sessions_too(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / os.fsdecode(b"caf\xe9")
    other = tmp_path / "other"
    for number, folder in enumerate((project, other)):
        folder.mkdir()
        with store.create(f"s{number}", project=folder) as writer:
            writer.update(title="half \ud83d", touched=2**80)

    assert [each.session_id for each in store.list(project)] == ["s0"]
    assert sorted(ids(store)) == ["s0", "s1"]
    assert store.list(project)[0].title == "half \ufffd"
    assert store.find("s0") == "s0"


def test_a_project_whose_name_is_not_text_is_found_after_a_rebuild_and_keeps_its_forks(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / os.fsdecode(b"caf\xe9")
    with store.create("s1", project=project), store.copy("s1", "s2"):
        pass
    store.rebuild_index()
    assert {each.session_id for each in store.list(project)} == {"s1", "s2"}
    assert len(list(store.home.glob("projects/*"))) == 1
    assert store.read("s2").metadata["project"] == os.fspath(project)
