"""Other ways that a stored session could have gone: forks, and rewinding a live one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from amplifier_foundation.errors import SessionStoreError
from amplifier_journal.readings.state import state_of

if TYPE_CHECKING:
    from amplifier_foundation.live import LiveSession
    from amplifier_foundation.store import SessionStore


def fork(
    store: SessionStore, session_id: str, *, at: int | None = None, new_id: str | None = None
) -> str:
    """Make a session that has another's records up to number `at`, and return its id.

    It goes on like any other: `open_live(..., resume=True)` puts right what the cut left open.
    """
    forked = new_id or str(uuid.uuid4())
    writer = store.copy(session_id, forked, upto=at)
    try:
        writer.append("fork", {"from": session_id, "at": at})
        state = state_of(store.read(forked).records())
        is_known = state.cost_usd is not None and not state.unpriced_calls
        cost = str(state.cost_usd) if is_known else None
        writer.update(turns=state.turns, cost_usd=cost, status="completed")
    finally:
        writer.close()
    return forked


What = Literal["conversation", "files", "both"]
REWOUND = "session:rewound"


class FileChange(NamedTuple):
    """What becomes of one file; a `reason` says why it is kept as it is."""

    checkpoint: int
    path: str
    action: str
    reason: str
    diff: str


class RewindPreview(NamedTuple):
    """What a rewind does, or did: the prompts and messages that go, and what files become.

    `at` is the number of the last record that stays.
    """

    at: int
    what: What
    prompts: list[str]
    messages_before: int
    messages_after: int
    files: list[FileChange]


async def preview_rewind(
    live: LiveSession, store: SessionStore, *, before_turn: int, what: What = "both"
) -> RewindPreview:
    """Return what `rewind` would do; nothing is changed.

    Raises:
        SessionStoreError: the session has no such turn, or not what its files were before.
    """
    return (await _planned(live, store, before_turn, what))[0]


async def rewind(
    live: LiveSession, store: SessionStore, *, before_turn: int, what: What = "both"
) -> RewindPreview:
    """Take back everything from turn `before_turn` on; returns what was done.

    The log keeps all of it, so `undo_rewind` can bring it back. Files that somebody else changed
    since are kept as they are, and named.
    """
    preview, messages, checkpoints = await _planned(live, store, before_turn, what)
    before = live.writer.seq
    made: list[int] = []
    if what != "conversation":
        files, made = await _undo(live, checkpoints)
        preview = preview._replace(files=files)
    if what != "files":
        await _set_messages(live, messages)
    await _tell(live, preview, before, made)
    return preview


async def undo_rewind(live: LiveSession, store: SessionStore) -> RewindPreview:
    """Take the last rewind back: its messages return, and so do the files it changed.

    Raises:
        SessionStoreError: nothing was rewound, or the conversation has gone on since.
    """
    records = list(store.read(live.session_id).records())
    at = next((n for n in range(len(records) - 1, -1, -1) if records[n].kind == "rewind"), None)
    if at is None or any(each.kind == "prompt" for each in records[at:]):
        raise SessionStoreError("There is no rewind to take back.", fix="amplifier session show")
    done = records[at].data
    before = live.writer.seq
    files, made = await _undo(live, [*reversed(done["made"])])
    earlier = state_of(each for each in records if each.seq <= done["before"])
    preview = RewindPreview(
        done["before"], done["what"], [], len(state_of(records).messages), 0, files
    )
    preview = preview._replace(messages_after=preview.messages_before)
    if done["what"] != "files":
        await _set_messages(live, earlier.messages)
        preview = preview._replace(messages_after=len(earlier.messages))
    await _tell(live, preview, before, made)
    return preview


async def _planned(
    live: LiveSession, store: SessionStore, before_turn: int, what: What
) -> tuple[RewindPreview, list[dict[str, Any]], list[int]]:
    records = list(store.read(live.session_id).records())
    start = next(
        (e.seq for e in records if e.kind == "prompt" and e.data["turn"] == before_turn), None
    )
    if start is None:
        raise SessionStoreError(
            f"The session has no turn {before_turn}.",
            why=f"It has {live.turns} turn(s).",
            fix=f"amplifier session show {live.session_id}",
        )
    gone = [each for each in records if each.seq >= start]
    kept = state_of(each for each in records if each.seq < start)
    checkpoints = [each.data["id"] for each in reversed(gone) if each.kind == "checkpoint"]
    files: list[FileChange] = []
    if what != "conversation":
        await _require_checkpoints(live, checkpoints, before_turn, _owner_of_copied(gone))
        files = await _preview(live, checkpoints)
    now = len(state_of(records).messages)
    preview = RewindPreview(
        start - 1,
        what,
        [each.data["text"] for each in gone if each.kind == "prompt"],
        now,
        now if what == "files" else len(kept.messages),
        files,
    )
    return preview, kept.messages, checkpoints


def _checkpoints(live: LiveSession) -> Any:
    return live.session.coordinator.get_capability("files.checkpoints")


def _owner_of_copied(gone: list[Any]) -> str | None:
    """Return who has the newest of these checkpoints that were copied by a fork, if one was."""
    owner: str | None = None
    for record in reversed(gone):
        if record.kind == "fork":
            owner = str(record.data["from"])
        elif record.kind == "checkpoint" and owner is not None:
            return owner
    return None


async def _require_checkpoints(
    live: LiveSession, checkpoints: list[int], before_turn: int, owner: str | None
) -> None:
    """Raise when what files were is not there; a copy counts its own checkpoints from 1 again."""
    problem = f"The files cannot be set back to before turn {before_turn}."
    if owner is not None:
        raise SessionStoreError(
            problem,
            why=f"Session {owner}, of which this is a copy, has what they were then. "
            "With `--what conversation`, the conversation alone goes back.",
            fix=f"amplifier session rewind {owner} --before-turn {before_turn} --what files",
        )
    saved: Any = _checkpoints(live)
    if saved and checkpoints:
        there = {each.turn for each in await saved.list()}
    else:
        there = set[int]()
    if not there.issuperset(checkpoints):
        own = f"amplifier session rewind {live.session_id}"
        raise SessionStoreError(
            problem,
            why="What they were then is not kept, or not any more.",
            fix=f"{own} --before-turn {before_turn} --what conversation",
        )


async def _preview(live: LiveSession, checkpoints: list[int]) -> list[FileChange]:
    """Return what undoing these, newest first, does to each file."""
    saved: Any = _checkpoints(live)
    found: list[FileChange] = []
    taken_back: dict[str, int] = {}
    for checkpoint in checkpoints:
        for step in await saved.preview(checkpoint):
            change = FileChange(checkpoint, step.path, step.action, step.reason, step.diff)
            newer = taken_back.get(step.path)
            if step.action in ("restore", "remove"):
                taken_back.setdefault(step.path, checkpoint)
            elif step.action == "keep" and newer is not None:
                # A newer checkpoint changed it since, which is taken back before.
                reason = f"after checkpoint {newer} was taken back"
                change = change._replace(action="restore", reason=reason)
            found.append(change)
    return found


async def _undo(live: LiveSession, checkpoints: list[int]) -> tuple[list[FileChange], list[int]]:
    """Take checkpoints back in this order; returns what was done, and the new checkpoints."""
    saved: Any = _checkpoints(live)
    done = list[FileChange]()
    made = list[int]()
    for checkpoint in checkpoints if saved else ():
        for step in await saved.undo(checkpoint):
            done.append(FileChange(checkpoint, step.path, step.action, step.reason, step.diff))
        newest = (await saved.list())[-1]
        if newest.undoes == checkpoint:
            made.append(newest.turn)
    return done, made


async def _set_messages(live: LiveSession, messages: list[dict[str, Any]]) -> None:
    """Give the memory these messages, also one that trusts only its own file."""
    context: Any = live.session.coordinator.get("context")
    live.recorder.is_paused = True
    try:
        await context.clear()
        await context.set_messages(messages)
    finally:
        live.recorder.is_paused = False
    await live.recorder.note_messages(messages, reason="rewind")


async def _tell(live: LiveSession, done: RewindPreview, before: int, made: list[int]) -> None:
    """Record what was done, for the way back, and announce it."""
    way_back = {"before": before, "made": made}
    live.recorder.note("rewind", {"at": done.at, "what": done.what, **way_back})
    files = [each.path for each in done.files if each.action != "keep"]
    facts = {"at": done.at, "what": done.what, "files": files}
    await live.session.coordinator.hooks.emit(REWOUND, facts)
    await live.recorder.check()
