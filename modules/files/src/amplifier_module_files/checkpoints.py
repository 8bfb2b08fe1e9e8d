"""Checkpoints: save files before a turn changes them, and undo the changes."""

from __future__ import annotations

import hashlib
import json
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from amplifier_module_files.diff import difference
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Place, Workspace

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600
_CONTENT = "content"
# A limit that neither the files of a store nor the bytes of a record reach.
_PLENTY = 1_000_000


class Checkpoint(NamedTuple):
    """One turn that changed files; `undoes` is the turn that it undid, if any."""

    turn: int
    began: str
    paths: list[str]
    undoes: int | None


class Step(NamedTuple):
    """The effect of an undo on one file; `reason` says why a file is kept."""

    path: str
    action: Literal["restore", "remove", "keep", "nothing"]
    reason: str = ""
    diff: str = ""


class _Record(NamedTuple):
    """One change, recorded before it is made; a digest of None means no file."""

    path: str
    before: str | None
    after: str | None
    mode: int
    at: str
    undoes: int | None


class _Plan(NamedTuple):
    """A step and its inputs; without a place there is nothing to do."""

    step: Step
    place: Place | None = None
    now: bytes | None = None
    then: bytes | None = None
    mode: int = 0


def digest_of(content: bytes | None) -> str | None:
    """Return the SHA-256 of a content; None for no file."""
    if content is None:
        return None
    return hashlib.sha256(content).hexdigest()


class Checkpoints:
    """Changes files in a workspace, after saving what it replaces.

    A session's folder has a folder per turn with one record per change, and a folder of contents,
    named by digest and each stored once. All methods block and are thread-safe.
    """

    def __init__(self, folder: Path, workspace: Workspace, *, limit: int, keep: int) -> None:
        self._path = folder
        self._workspace = workspace
        self._limit = limit
        self._keep = keep
        self._store: Root | None = None
        self._turn: int | None = None
        self._lock = threading.RLock()

    @property
    def workspace(self) -> Workspace:
        """Where it changes files."""
        return self._workspace

    @property
    def current(self) -> int | None:
        """The turn that the next change belongs to; None if this turn has changed nothing yet."""
        return self._turn

    def begin_turn(self) -> None:
        """Let the next change open a new turn; never blocks."""
        # No lock: it is called from the event loop, which must not wait for a change in a thread.
        self._turn = None

    def change(
        self,
        place: Place,
        old: bytes | None,
        new: bytes | None,
        *,
        mode: int = 0o666,
        undoes: int | None = None,
    ) -> None:
        """Replace `old`, which must still be there, by `new`; None means no file.

        A new file gets `mode` less the umask. If `old` cannot be saved, nothing is changed.
        """
        # The record comes before the change: after a crash in between, an undo still finds it.
        with self._lock:
            # The replacement is a new file, so it has to be given the mode of the old one.
            if old is not None:
                mode = stat.S_IMODE(place.root.stat(place.name).st_mode)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._save(old, _Record(place.path, digest_of(old), digest_of(new), mode, now, undoes))
            _replace(place, old, new, mode)

    def list(self) -> list[Checkpoint]:
        """Return the turns that can be undone, oldest first."""
        with self._lock:
            return [
                Checkpoint(turn, first.at, sorted({each.path for each in records}), first.undoes)
                for turn in self._turns()
                if (records := self._records(turn)) and (first := records[0])
            ]

    def preview(self, turn: int) -> list[Step]:
        """Return what `undo` would do, with a diff for each file."""
        with self._lock:
            return [plan.step for plan in self._plans(turn)]

    def undo(self, turn: int) -> list[Step]:
        """Restore the files of a turn, except those that somebody else changed since.

        An undo is recorded as a turn of its own, so it can be undone too.
        """
        with self._lock:
            # Before and after, so that the undo shares its turn with no other change.
            self.begin_turn()
            done = [self._take_back(turn, plan) for plan in self._plans(turn)]
            self.begin_turn()
            return done

    def _take_back(self, turn: int, plan: _Plan) -> Step:
        step, place, now, then, mode = plan
        if place is None:
            return step
        try:
            self.change(place, now, then, mode=mode, undoes=turn)
        except (RefusedError, OSError) as error:
            return Step(step.path, "keep", str(error))
        return step

    def _plans(self, turn: int) -> list[_Plan]:
        if turn not in self._turns():
            raise LookupError(f"There is no checkpoint of turn {turn}.")
        by_path: dict[str, list[_Record]] = {}
        for record in self._records(turn):
            by_path.setdefault(record.path, []).append(record)
        return [self._plan(path, records) for path, records in by_path.items()]

    def _plan(self, path: str, records: list[_Record]) -> _Plan:
        base = _base(records)
        try:
            # Located again: a forged record or a new link must not lead out of the workspace.
            place = self._workspace.locate_for_writing(path)
            now = self.content(place)
            then = self._saved(base.before)
        except (RefusedError, OSError) as error:
            return _Plan(Step(path, "keep", str(error)))
        if digest_of(now) == base.before:
            return _Plan(Step(path, "nothing"))
        # Any content of the turn is accepted: after a crash, the last one may not be written.
        if digest_of(now) not in {record.after for record in records}:
            return _Plan(Step(path, "keep", "it was changed after the turn"))
        step = Step(path, "remove" if then is None else "restore", diff=difference(now, then))
        return _Plan(step, place, now, then, base.mode)

    def content(self, place: Place) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            return place.root.read(place.name, self._limit)
        except FileNotFoundError:
            return None

    # --- the store -------------------------------------------------------------------------------

    def _save(self, content: bytes | None, record: _Record) -> None:
        store = self._opened()
        turn = self._turn
        # Before the content is saved: opening a turn removes contents that no record needs, and
        # this one has no record yet.
        if turn is None:
            turn = self._turn = self._open_turn(store)
        saved = f"{_CONTENT}/{record.before}"
        if content is not None and not _has(store, saved):
            store.write_atomic(saved, content, mode=_PRIVATE_FILE)
        _, count = store.list_dir(f"{turn:06}", 0)
        name = f"{turn:06}/{count:06}"
        data = json.dumps(record._asdict()).encode()
        store.write_atomic(name, data, replaces=None, mode=_PRIVATE_FILE)

    def _opened(self) -> Root:
        if self._store is None:
            # One by one: `mkdir(parents=True)` would create the parents with the default mode.
            missing = [each for each in (self._path, *self._path.parents) if not each.exists()]
            for folder in reversed(missing):
                folder.mkdir(_PRIVATE_FOLDER, exist_ok=True)
            store = Root(self._path)
            store.mkdirs(_CONTENT, _PRIVATE_FOLDER)
            self._store = store
        return self._store

    def _open_turn(self, store: Root) -> int:
        turns = self._turns()
        turn = turns[-1] + 1 if turns else 1
        store.mkdirs(f"{turn:06}", _PRIVATE_FOLDER)
        if len(turns) >= self._keep:
            self._forget(store, turns[: len(turns) + 1 - self._keep])
        return turn

    def _forget(self, store: Root, turns: list[int]) -> None:
        """Remove the oldest turns, and the contents that no other turn needs."""
        for turn in turns:
            # The newest record first: after a crash, what remains still has the turn's beginning,
            # which is what an undo restores.
            for entry in reversed(store.list_dir(f"{turn:06}", _PLENTY)[0]):
                store.unlink(f"{turn:06}/{entry.name}")
            store.rmdir(f"{turn:06}")
        needed = {each.before for turn in self._turns() for each in self._records(turn)}
        for entry in store.list_dir(_CONTENT, _PLENTY)[0]:
            if entry.name not in needed:
                store.unlink(f"{_CONTENT}/{entry.name}")

    def _turns(self) -> list[int]:
        if self._store is None and not self._path.exists():
            return []
        entries, _ = self._opened().list_dir("", _PLENTY)
        return [int(entry.name) for entry in entries if entry.name.isdigit()]

    def _records(self, turn: int) -> list[_Record]:
        store = self._opened()
        folder = f"{turn:06}"
        entries, _ = store.list_dir(folder, _PLENTY)
        names = (entry.name for entry in entries if entry.name.isdigit())
        return [_record(store.read(f"{folder}/{name}", _PLENTY)) for name in names]

    def _saved(self, digest: str | None) -> bytes | None:
        if digest is None:
            return None
        content = self._opened().read(f"{_CONTENT}/{digest}", self._limit)
        # A damaged copy must not replace a good file.
        if digest_of(content) != digest:
            raise RefusedError("changed", "what was saved of it is damaged")
        return content


def _base(records: list[_Record]) -> _Record:
    """Return the last record whose `before` was not written by the turn itself.

    If the user edited a file during the turn, an undo restores that edit, not an older content.
    """
    base = records[0]
    known = set[str | None]()
    for record in records:
        if record.before not in known:
            base = record
        known |= {record.before, record.after}
    return base


def _replace(place: Place, old: bytes | None, new: bytes | None, mode: int) -> None:
    root, name = place
    if new is not None:
        if old is None:
            root.mkdirs(str(PurePosixPath(name).parent))
        root.write_atomic(name, new, replaces=old, mode=mode)
    elif old is not None:
        root.unlink(name, replaces=old)


def _has(store: Root, name: str) -> bool:
    try:
        store.stat(name)
    except FileNotFoundError:
        return False
    return True


def _record(data: bytes) -> _Record:
    values: dict[str, Any] = json.loads(data)
    return _Record(**values)
