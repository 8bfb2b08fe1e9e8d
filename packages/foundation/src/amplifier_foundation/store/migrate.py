"""Migration: bringing sessions of an older format to this one, the old files kept."""

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
from amplifier_foundation.store.log_file import LOG, Damage, Sieve, encode_line
from amplifier_foundation.store.metadata import METADATA, write_metadata
from amplifier_journal.records import SCHEMA, json_text
from amplifier_kit.durable_files import write_whole

TRANSCRIPT = "transcript.jsonl"  # bare messages, as published apps write them

Fields = dict[str, Any]

# What this version calls the facts that published apps keep in their metadata.
_NAMES = {
    "project": ("project", "working_dir", "cwd"),
    "created_at": ("created_at", "created"),
    "updated_at": ("updated_at", "updated", "created_at", "created"),
    "title": ("title", "name"),
    "turns": ("turns", "turn_count"),
}


class Moved(NamedTuple):
    """What became of one session; with a `problem`, it is as it was."""

    session_id: str
    records: int
    moved: int
    problem: str


class Migration(NamedTuple):
    """What was moved, or in a dry run can be."""

    sessions: list[Moved]
    dry_run: bool

    def __str__(self) -> str:
        records = sum(each.records for each in self.sessions)
        moved = sum(each.moved for each in self.sessions)
        return f"{moved:,} of {records:,} {'can be moved' if self.dry_run else 'moved'}"


class _NotMovedError(Exception):
    """The new file would not hold all that the old one does."""


def migrate(folders: Iterable[Path], blobs: Blobs, *, dry_run: bool) -> Migration:
    """Migrate each session that has an older format, one by one, and count what was moved."""
    older = ((folder, source) for folder in folders if (source := _older(folder)) is not None)
    return Migration([_migrate(*each, blobs, dry_run) for each in older], dry_run)


def _migrate(folder: Path, source: Path, blobs: Blobs, dry_run: bool) -> Moved:
    facts = _facts(folder)
    lines = [line for line in source.read_bytes().splitlines() if line.strip()]
    session_id = facts["session_id"]
    count = len(lines)
    try:
        if dry_run:
            _new_log(lines, facts, lambda text: text)
        else:
            with taking(folder, session_id) as lease, blobs.in_use():
                _replace(folder, source, facts, _new_log(lines, facts, blobs.put))
                lease.release()
    except (SessionHeldError, _NotMovedError) as error:
        return Moved(session_id, count, 0, str(error))
    return Moved(session_id, count, count, "")


def _replace(folder: Path, source: Path, facts: Fields, log: bytes) -> None:
    """Put the new files in place; until the log is there, the session counts as older."""
    _keep(folder / METADATA, folder / f"metadata.v{facts.get('v', 0)}.json")
    if source.name == LOG:
        _keep(source, folder / f"log.v{_version(source)}.jsonl")
    write_metadata(folder, {**facts, "v": SCHEMA})
    write_whole(folder / LOG, log)


def _new_log(lines: list[bytes], facts: Fields, put: Callable[[str], str]) -> bytes:
    """Return the log that holds what `lines` hold, after counting that it does."""
    new: list[bytes] = []
    for number, line in enumerate(lines, 1):
        fields = _upgraded(line, number, facts)
        data = json_text(shelve(fields["data"], put))[0]
        at = str(fields["at"])
        fence = int(fields.get("fence", 0))
        new.append(encode_line(int(fields["seq"]), at, fence, fields["kind"], data))
    damage: list[Damage] = []
    sieve = Sieve(damage.append)
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
        return fields
    if "role" not in fields:
        raise _NotMovedError(f"Line {number:,} is no message.")
    at = fields.get("timestamp") or facts["created_at"]
    return {"seq": number, "at": at, "kind": "message", "data": {"message": fields}}


def _older(folder: Path) -> Path | None:
    """Return the file that holds a session's records in an older format, if one does."""
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
    """Return the version of the first record; a file that begins with none is left alone."""
    with log.open("rb") as file:
        try:
            first: Any = json.loads(file.readline())
        except (ValueError, RecursionError):
            return SCHEMA
    if isinstance(first, dict):
        return cast("Fields", first).get("v", 0)
    return SCHEMA


def _facts(folder: Path) -> Fields:
    """Return the older metadata, with the names that this version gives to its facts."""
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
    """Give a file a second name, under which it stays."""
    with suppress(FileNotFoundError, FileExistsError):
        os.link(path, name)
