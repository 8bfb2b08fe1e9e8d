"""Cassettes: the records of a session and its children in one file, for replay in a test."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_journal.errors import JournalError
from amplifier_journal.log import LogReader
from amplifier_journal.records import Record
from amplifier_journal.replay.recording import Recording
from amplifier_journal.replay.replayer import replay_recording

__all__ = ["GeneratedTest", "assert_replays", "read_cassette", "to_test", "write_cassette"]

_VERSION = 1
_TEST = '''"""Replays a recorded session offline.

Models, tools and users answer from the cassette; the loop, the memory and the hooks of the session
run for real. The test fails when they do anything else than they did, and shows where.
"""

from pathlib import Path

from amplifier_journal.replay import assert_replays


def test_{name}_replays() -> None:
    assert_replays(Path(__file__).parent / "cassettes/{name}.jsonl.gz")
'''


class GeneratedTest(NamedTuple):
    """A test file and its cassette, which belongs beside it as `cassettes/<name>.jsonl.gz`."""

    source: str
    cassette: bytes
    name: str


def to_test(reader: LogReader, name: str, *, children: Iterable[LogReader] = ()) -> GeneratedTest:
    """Return a session as a test that needs neither network nor store.

    `children` are the readers of sessions that it started; the test replays them too.
    """
    safe = re.sub(r"\W+", "_", name).strip("_") or "session"
    recordings = [Recording(each.session_id, each.records()) for each in (reader, *children)]
    return GeneratedTest(_TEST.format(name=safe), write_cassette(recordings), safe)


def write_cassette(recordings: Iterable[Recording]) -> bytes:
    """Return the recordings as one file; equal recordings give equal bytes."""
    lines: list[str] = []
    for recording in recordings:
        lines.append(json.dumps({"cassette": _VERSION, "session_id": recording.session_id}))
        for record in recording.records:
            lines.append(json.dumps(record._asdict(), ensure_ascii=False))
    text = "".join(f"{line}\n" for line in lines)
    # `mtime`, because gzip writes the present time into its header otherwise.
    return gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0)


def read_cassette(path: Path) -> list[Recording]:
    """Return the recordings of a cassette.

    Raises:
        JournalError: the file is not a cassette, or has a newer version.
    """
    recordings: list[Recording] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
            for line in file:
                fields: dict[str, Any] = json.loads(line)
                if "cassette" in fields:
                    recordings.append(_new_recording(fields, path))
                else:
                    recordings[-1].records.append(Record(**fields))
    except (OSError, EOFError, ValueError, TypeError, IndexError) as error:
        raise JournalError(
            f"`{path}` is not a cassette.",
            why=str(error),
            fix="Record it again: amplifier session to-test -o tests/test_x.py",
        ) from error
    return recordings


def assert_replays(cassette: str | Path) -> None:
    """Replay every session of a cassette; raises AssertionError with the differences."""
    asyncio.run(_assert_replays(Path(cassette)))


async def _assert_replays(path: Path) -> None:
    for recording in read_cassette(path):
        result = await replay_recording(recording)
        if result.differences:
            count = len(result.differences)
            head = f"{path.name}: the replay differs in {count} place(s) from the record."
            raise AssertionError(f"{head}\n\n{result}")


def _new_recording(fields: dict[str, Any], path: Path) -> Recording:
    if fields["cassette"] > _VERSION:
        raise JournalError(f"`{path}` was written by a newer version.")
    return Recording(fields["session_id"], ())
