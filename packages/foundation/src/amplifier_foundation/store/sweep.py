"""The sweep: deleting the large strings that no session refers to any more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.store.blobs import Blobs
from amplifier_foundation.store.records import LOG, TORN, checked, read_lines

_REFERENCE = re.compile(rb'"\$blob":"([0-9a-f]{64})"')


class Swept(NamedTuple):
    """What a sweep did; `unsure` names the sessions that kept it from deleting anything."""

    blobs: int
    bytes: int
    unsure: list[str]


class References(NamedTuple):
    """The blobs that a session refers to; without `sure`, there may be more."""

    digests: set[str]
    sure: bool
    mark: str


def references(folder: Path) -> References:
    """Return what a session refers to; a line that was changed may hide a reference."""
    digests: set[str] = set()
    mark = mark_of(folder)
    sure = True
    for path in (folder / LOG, folder / TORN, *folder.glob("log.v*.jsonl")):
        try:
            with path.open("rb") as file:
                for line in read_lines(file):
                    whole = isinstance(line, bytes) and checked(line.removesuffix(b"\r"))
                    sure = sure and (bool(whole) or path.name != LOG)
                    if isinstance(line, bytes) and b"$blob" in line:
                        digests.update(each.decode() for each in _REFERENCE.findall(line))
        except FileNotFoundError:
            continue
        except OSError:
            sure = False
    return References(digests, sure, mark)


def mark_of(folder: Path) -> str:
    """Return something that changes whenever the session's records do."""
    try:
        stat = (folder / LOG).stat()
    except FileNotFoundError:
        return ""
    return f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}"


def sweep(folders: Callable[[], Iterable[Path]], blobs: Blobs) -> Swept:
    """Delete the blobs that no session refers to, if that is certain for every session.

    Sessions are read before writers are kept out, and then only those that have changed again.
    """
    before = {folder: references(folder) for folder in folders()}
    with blobs.in_use(alone=True):
        found: dict[Path, References] = {}
        for folder in folders():
            old = before.get(folder)
            unchanged = old is not None and old.mark == mark_of(folder)
            found[folder] = old if old is not None and unchanged else references(folder)
        unsure = [folder.name for folder, each in found.items() if not each.sure]
        used = set[str]().union(*(each.digests for each in found.values()))
        if unsure:
            doomed = []
        else:
            doomed = [each for each in blobs.each() if each[0] not in used]
        for _, path, _ in doomed:
            path.unlink()
        blobs.remove_unfinished()
    return Swept(len(doomed), sum(size for _, _, size in doomed), unsure)
