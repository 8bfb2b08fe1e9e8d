"""The metadata of a session: the few facts that lists show, in one small file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, cast

from amplifier_foundation.store.log_file import LEASE, LOG, encode_json, read_lines
from amplifier_journal.records import SCHEMA, json_text
from amplifier_kit.durable_files import write_whole

METADATA = "metadata.json"
_DAMAGED = "metadata.damaged"
_MOST_LINES = 100_000

Stamp = int  # changes whenever the file is written


def write_metadata(
    folder: Path, metadata: dict[str, Any], allowed: Callable[[], None] | None = None
) -> Stamp:
    """Replace the metadata atomically and durably, unless `allowed` raises just before."""
    text = json_text({"v": SCHEMA, **metadata})[0]
    return _stamp(write_whole(folder / METADATA, encode_json(text), allowed))


def read_metadata(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the metadata, and what is wrong with it; if it is unusable, what the log has."""
    try:
        found: Any = json.loads((folder / METADATA).read_bytes())
        if isinstance(found, dict) and "session_id" in found:
            return cast("dict[str, Any]", found), ""
        wrong = "It does not say which session it is."
    except OSError as error:
        wrong = f"It cannot be read: {error.strerror}."
    except (ValueError, RecursionError) as error:
        wrong = f"It is not JSON: {error}."
    return _from_log(folder), wrong


def set_damaged_aside(folder: Path) -> None:
    """Keep a copy of a file that cannot be read, before it is replaced."""
    if (folder / METADATA).exists():
        (folder / METADATA).replace(folder / _DAMAGED)


def stamp_of(folder: Path) -> Stamp:
    """Return the stamp of a session's metadata; 0 if it has none."""
    try:
        return _stamp((folder / METADATA).stat())
    except FileNotFoundError:
        return 0


def stamps(home: Path, sessions: str) -> dict[str, Stamp]:
    """Return the stamp of each session's folder in `sessions`, by its path below `home`.

    A folder with neither metadata nor a log is not a session: published logging modules write
    their files into folders beside ours.
    """
    found: dict[str, Stamp] = {}
    # Every list does this for thousands of folders, so each system call, and each Path, counts.
    folder = os.fspath(home / sessions)
    for name in names(folder):
        try:
            stat = os.stat(f"{folder}/{name}/{METADATA}")  # noqa: PTH116 - as above
        except OSError:
            if os.path.exists(f"{folder}/{name}/{LOG}"):  # noqa: PTH110 - as above
                found[f"{sessions}/{name}"] = 0
        else:
            found[f"{sessions}/{name}"] = hash((stat.st_mtime_ns, stat.st_ino, stat.st_size))
    return found


def names(folder: Path | str) -> list[str]:
    """Return the names in a folder, without those of unfinished or deleted entries (`.`)."""
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def _stamp(stat: os.stat_result) -> Stamp:
    return hash((stat.st_mtime_ns, stat.st_ino, stat.st_size))


def _from_log(folder: Path) -> dict[str, Any]:
    """Return the facts that the first writer of a session recorded in its log."""
    try:
        with (folder / LOG).open("rb") as file:
            # Each writer begins with such a line; a damaged log is not searched to its end.
            lines = (line for line in islice(read_lines(file), _MOST_LINES))
            lines = (line for line in lines if isinstance(line, bytes))
            known = next((facts for line in lines if (facts := _from_line(line))), None)
            return known or {"session_id": folder.name}
    except OSError:
        return {}


def _from_line(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
        if fields["kind"] != LEASE:
            return {}
        data = fields["data"]
        at = str(fields["at"])
        known = {"session_id": str(data["session_id"]), "project": str(data["project"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {**known, "created_at": at, "updated_at": at}
