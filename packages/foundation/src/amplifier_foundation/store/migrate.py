"""Convert sessions of an older format to this one; the old files are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation.store.blobs import Blobs, shelve
from amplifier_foundation.store.errors import SessionHeldError
from amplifier_foundation.store.lease import taking
from amplifier_foundation.store.log_file import LOG, Damage, Sieve, TooDamagedError, encode_line
from amplifier_foundation.store.metadata import METADATA, write_metadata
from amplifier_journal.records import SCHEMA, json_text
from amplifier_kit.durable_files import write_whole

TRANSCRIPT = "transcript.jsonl"  # bare messages, as published apps write them

Fields = dict[str, Any]

# Our names for facts in the metadata of published apps, each with the names used there.
_NAMES = {
    "project": ("project", "working_dir", "cwd"),
    "created_at": ("created_at", "created"),
    "updated_at": ("updated_at", "updated", "created_at", "created"),
    "title": ("title", "name"),
    "turns": ("turns", "turn_count"),
}


class Moved(NamedTuple):
    """The outcome for one session; with a `problem`, it is unchanged."""

    session_id: str
    records: int
    moved: int
    problem: str


class Migration(NamedTuple):
    """What was moved, or in a dry run would be."""

    sessions: list[Moved]
    dry_run: bool

    def __str__(self) -> str:
        records = sum(each.records for each in self.sessions)
        moved = sum(each.moved for each in self.sessions)
        return f"{moved:,} of {records:,} {'can be moved' if self.dry_run else 'moved'}"


class _NotMovedError(Exception):
    """The new log would lack records of the old one."""


def migrate(folders: Iterable[Path], blobs: Blobs, *, dry_run: bool) -> Migration:
    """Migrate each session that has an older format, one by one, and count what was moved."""
    older = ((folder, source) for folder in folders if (source := _older(folder)) is not None)
    return Migration([_migrate(*each, blobs, dry_run) for each in older], dry_run)


def _migrate(folder: Path, source: Path, blobs: Blobs, dry_run: bool) -> Moved:
    facts = _facts(folder)
    lines = _lines(source)
    session_id = facts["session_id"]
    try:
        if dry_run:
            _new_log(lines, facts, lambda text: text)
        else:
            with taking(folder, session_id) as lease, blobs.in_use():
                # Read again: until here, another process may have written to it.
                lines = _lines(source)
                _replace(folder, source, facts, _new_log(lines, facts, blobs.put))
                lease.release()
    except (SessionHeldError, TooDamagedError, _NotMovedError) as error:
        return Moved(session_id, len(lines), 0, str(error))
    return Moved(session_id, len(lines), len(lines), "")


def _lines(source: Path) -> list[bytes]:
    return [line for line in source.read_bytes().splitlines() if line.strip()]


def _replace(folder: Path, source: Path, facts: Fields, log: bytes) -> None:
    """Put the new files in place, keeping the old ones under other names."""
    # The log comes last: without it a session counts as older, so a crash repeats all of this.
    _keep(folder / METADATA, folder / f"metadata.v{facts.get('v', 0)}.json")
    if source.name == LOG:
        _keep(source, folder / f"log.v{_version(source)}.jsonl")
    write_metadata(folder, {**facts, "v": SCHEMA})
    write_whole(folder / LOG, log)


def _new_log(lines: list[bytes], facts: Fields, put: Callable[[str], str]) -> bytes:
    """Return the new log of `lines`, after checking that it has all of them."""
    new: list[bytes] = []
    for number, line in enumerate(lines, 1):
        fields = _upgraded(line, number, facts)
        data = json_text(shelve(fields["data"], put))[0]
        at = str(fields["at"])
        fence = int(fields.get("fence", 0))
        new.append(encode_line(int(fields["seq"]), at, fence, fields["kind"], data))
    damage: list[Damage] = []
    sieve = Sieve(facts["session_id"], damage.append)
    for line in new:
        sieve.take(line[:-1])
    if damage or len(new) != len(lines):
        raise _NotMovedError(f"Of {len(lines):,} records {len(damage):,} would be lost.")
    return b"".join(new)


def _upgraded(line: bytes, number: int, facts: Fields) -> Fields:
    """Return the fields of one line in this version."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _NotMovedError(f"Line {number:,} is no record.") from error
    if not isinstance(found, dict):
        raise _NotMovedError(f"Line {number:,} is no record.")
    fields = cast("Fields", found)
    if fields.get("v") == SCHEMA:
        if not _is_record(fields):
            raise _NotMovedError(f"Line {number:,} is no record.")
        return fields
    if "role" not in fields:
        raise _NotMovedError(f"Line {number:,} is no message.")
    at = fields.get("timestamp") or facts["created_at"]
    return {"seq": number, "at": at, "kind": "message", "data": {"message": fields}}


def _is_record(fields: Fields) -> bool:
    numbers = (fields.get("seq"), fields.get("fence", 0))
    texts = (fields.get("at"), fields.get("kind"))
    return (
        all(isinstance(each, int) for each in numbers)
        and all(isinstance(each, str) for each in texts)
        and isinstance(fields.get("data"), dict)
    )


def _older(folder: Path) -> Path | None:
    """Return the file with a session's records in an older format, or None."""
    log = folder / LOG
    if log.exists():
        if _version(log) < SCHEMA:
            return log
        return None
    transcript = folder / TRANSCRIPT
    if transcript.exists():
        return transcript
    return None


def _version(log: Path) -> int:
    """Return the version of the first record; a file that does not begin with one is current."""
    with log.open("rb") as file:
        try:
            first: Any = json.loads(file.readline())
        except (ValueError, RecursionError):
            return SCHEMA
    if not isinstance(first, dict):
        return SCHEMA
    version = cast("Fields", first).get("v", 0)
    if isinstance(version, int):
        return version
    return SCHEMA


def _facts(folder: Path) -> Fields:
    """Return the older metadata, with our names for its facts added."""
    try:
        found: Any = json.loads((folder / METADATA).read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        found = {}
    facts = cast("Fields", found) if isinstance(found, dict) else {}
    facts = {"session_id": folder.name, "created_at": "", **facts}
    for name, others in _NAMES.items():
        known = next((facts[other] for other in others if facts.get(other)), None)
        if known is not None:
            facts[name] = known
    return facts


def _keep(path: Path, name: Path) -> None:
    """Link a file under a second name, which survives when the file is replaced."""
    with suppress(FileNotFoundError, FileExistsError):
        os.link(path, name)
