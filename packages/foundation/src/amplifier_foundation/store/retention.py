"""Delete old sessions that are not in use, and large strings without references."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.store.blobs import Blobs
from amplifier_foundation.store.errors import SessionHeldError, SessionNotFoundError
from amplifier_foundation.store.index import Index
from amplifier_foundation.store.lease import holder_of, taking
from amplifier_foundation.store.log_file import LOG, TORN, checked, read_lines
from amplifier_foundation.store.metadata import read_metadata, stamp_of

_REFERENCE = re.compile(rb'"\$blob":"([0-9a-f]{64})"')


class Swept(NamedTuple):
    """What a sweep did; `unsure` names the sessions that kept it from deleting anything."""

    blobs: int
    bytes: int
    unsure: list[str]


class References(NamedTuple):
    """The blobs that a session refers to; if not `sure`, there may be more."""

    digests: set[str]
    sure: bool
    mark: str


def references(folder: Path) -> References:
    """Return the blobs that a session refers to; a damaged line may hide a reference."""
    digests: set[str] = set()
    mark = mark_of(folder)
    sure = True
    for path in (folder / LOG, folder / TORN, *folder.glob("log.v*.jsonl")):
        try:
            with path.open("rb") as file:
                for line in read_lines(file):
                    whole = isinstance(line, bytes) and checked(line.removesuffix(b"\r"))
                    # The other files are backups: they are searched, but need not be intact.
                    sure = sure and (bool(whole) or path.name != LOG)
                    if isinstance(line, bytes) and b"$blob" in line:
                        digests.update(each.decode() for each in _REFERENCE.findall(line))
        except FileNotFoundError:
            continue
        except OSError:
            sure = False
    return References(digests, sure, mark)


def mark_of(folder: Path) -> str:
    """Return a value that changes whenever the session's records do."""
    try:
        stat = (folder / LOG).stat()
    except FileNotFoundError:
        return ""
    return f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}"


def sweep(folders: Callable[[], Iterable[Path]], blobs: Blobs) -> Swept:
    """Delete the blobs that no session refers to, if that is certain for every session.

    Sessions are read before writers are locked out; under the lock, only those that have changed
    are read again.
    """
    # Every folder, also one that is not listed as a session: a missed reference would lose data.
    before = {folder: references(folder) for folder in folders()}
    with blobs.in_use(alone=True):
        found: dict[Path, References] = {}
        for folder in folders():
            old = before.get(folder)
            unchanged = old is not None and old.mark == mark_of(folder)
            found[folder] = old if old is not None and unchanged else references(folder)
        unsure = [folder.name for folder, each in found.items() if not each.sure]
        used = set[str]().union(*(each.digests for each in found.values()))
        # One damaged log may refer to any blob, so none is deleted.
        if unsure:
            doomed = []
        else:
            doomed = [each for each in blobs.each() if each[0] not in used]
        for _, path, _ in doomed:
            path.unlink()
        blobs.remove_unfinished()
    return Swept(len(doomed), sum(size for _, _, size in doomed), unsure)


_DELETED = ".deleted-"


class Candidate(NamedTuple):
    """A session with the facts that the rules need."""

    session_id: str
    folder: Path
    metadata: dict[str, Any]
    bytes: int
    state: str  # changes whenever the session does


class Doomed(NamedTuple):
    """A session to be deleted, and why."""

    session_id: str
    why: str
    bytes: int
    folder: Path
    state: str


class Kept(NamedTuple):
    """A session that is kept against a rule, and why."""

    session_id: str
    why: str


class Deleted(NamedTuple):
    """The result of applying a plan."""

    sessions: list[str]
    bytes: int
    kept: list[Kept]
    blobs: Swept


class RetentionPlan:
    """What is to be deleted, and what is kept against a rule; `apply` deletes."""

    def __init__(self, index: Index, blobs: Blobs) -> None:
        self.sessions: list[Doomed] = []
        self.kept: list[Kept] = []
        self._index = index
        self._blobs = blobs

    @property
    def bytes(self) -> int:
        """The size of the sessions' folders, without their blobs."""
        return sum(each.bytes for each in self.sessions)

    def doom(self, candidate: Candidate, why: str) -> bool:
        """Plan to delete a session, unless it is pinned or a process writes it; return whether."""
        holder = holder_of(candidate.folder)
        if holder is not None:
            self.kept.append(Kept(candidate.session_id, f"It is open in process {holder.pid}."))
        elif candidate.metadata.get("pinned"):
            self.kept.append(Kept(candidate.session_id, "It is pinned."))
        else:
            session_id, folder, _, size, state = candidate
            self.sessions.append(Doomed(session_id, why, size, folder, state))
            return True
        return False

    def apply(self) -> Deleted:
        """Delete the sessions that were not used meanwhile, and the blobs without references."""
        deleted: list[Doomed] = []
        kept: list[Kept] = []
        for each in self.sessions:
            try:
                remove_session(each.folder, each.session_id, state=each.state)
            except (SessionHeldError, _UsedError) as error:
                kept.append(Kept(each.session_id, str(error)))
            except SessionNotFoundError:
                continue
            else:
                deleted.append(each)
                self._index.remove(each.folder)
        swept = sweep(self._index.folders, self._blobs)
        freed = sum(each.bytes for each in deleted)
        return Deleted([each.session_id for each in deleted], freed, kept, swept)


class _UsedError(Exception):
    """The session has changed since the plan was made."""


def plan_retention(
    index: Index, blobs: Blobs, *, max_age_days: float | None, max_bytes: int | None, keep: int
) -> RetentionPlan:
    """Return which sessions the rules delete: those too old, then the oldest above a size."""
    plan = RetentionPlan(index, blobs)
    newest_first = sorted(_candidates(index), key=_order, reverse=True)
    old: list[Candidate] = []
    if max_age_days is not None:
        limit = (datetime.now(UTC) - timedelta(days=max_age_days)).isoformat()
        why = f"It was not used for {max_age_days:g} days."
        too_old = [each for each in newest_first[keep:] if _last_used(each) < limit]
        old = [each for each in too_old if plan.doom(each, why)]
    if max_bytes is not None:
        left = [each for each in newest_first if each not in old]
        _fit(plan, left, keep, max_bytes, {name: size for name, _, size in blobs.each()})
    return plan


def remove_session(folder: Path, session_id: str, *, state: str | None = None) -> None:
    """Delete a session that no process writes, if it still has this `state`.

    Raises:
        SessionHeldError: a process writes it.
        SessionNotFoundError: it is already gone.
    """
    from shutil import rmtree  # noqa: PLC0415 - it costs more than the rest of the store

    doomed = folder.with_name(f"{_DELETED}{folder.name}")
    with taking(folder, session_id) as lease:
        if state is not None and _state(folder) != state:
            raise _UsedError("It was used after the plan was made.")
        rmtree(doomed, ignore_errors=True)
        # Renamed first, so that it disappears atomically: names with a dot are not sessions.
        folder.replace(doomed)
        lease.release()
    for left in folder.parent.glob(f"{_DELETED}*"):
        rmtree(left, ignore_errors=True)


def _fit(
    plan: RetentionPlan, left: list[Candidate], keep: int, max_bytes: int, blobs: dict[str, int]
) -> None:
    """Plan to delete the oldest of `left` until the rest, with their shared blobs, fits."""
    uses = {each.session_id: references(each.folder).digests for each in left}
    shared = Counter(digest for digests in uses.values() for digest in digests)
    total = sum(each.bytes for each in left) + sum(blobs.get(each, 0) for each in shared)
    for each in reversed(left[keep:]):
        if total <= max_bytes:
            return
        if plan.doom(each, f"The sessions take more than {max_bytes:,} bytes."):
            shared.subtract(uses[each.session_id])
            # A blob is freed only with the last session that refers to it.
            gone = (digest for digest in uses[each.session_id] if not shared[digest])
            total -= each.bytes + sum(blobs.get(digest, 0) for digest in gone)


def _candidates(index: Index) -> Generator[Candidate]:
    for folder in index.folders():
        state = _state(folder)
        metadata, _ = read_metadata(folder)
        if "session_id" in metadata:
            size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
            yield Candidate(str(metadata["session_id"]), folder, metadata, size, state)


def _state(folder: Path) -> str:
    return f"{stamp_of(folder)} {mark_of(folder)}"


def _order(candidate: Candidate) -> tuple[int, str]:
    touched = candidate.metadata.get("touched")
    # The metadata is untrusted and may have any types.
    return touched if isinstance(touched, int) else 0, _last_used(candidate)


def _last_used(candidate: Candidate) -> str:
    """Return when the session was last used, in ISO form; `unknown` sorts after every time."""
    return str(candidate.metadata.get("updated_at") or "unknown")
