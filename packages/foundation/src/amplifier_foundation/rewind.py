"""Fork stored sessions, and rewind live ones."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from amplifier_core.effects import declaration_of
from amplifier_foundation.errors import SessionStoreError
from amplifier_journal.readings.state import state_of

if TYPE_CHECKING:
    from amplifier_foundation.live import LiveSession
    from amplifier_foundation.store import SessionStore
    from amplifier_journal.records import Record


def fork(
    store: SessionStore, session_id: str, *, at: int | None = None, new_id: str | None = None
) -> str:
    """Copy a session's records up to number `at` into a new session, and return its id.

    It continues like any other: `open_live(..., resume=True)` repairs what the cut left open.

    Raises:
        SessionStoreError: it has no record of number `at`.
    """
    if at is not None:
        _require_record(store, session_id, at)
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


def _require_record(store: SessionStore, session_id: str, at: int) -> None:
    last = 0
    for record in store.read(session_id).records():
        last = record.seq
    if not 1 <= at <= last:
        raise SessionStoreError(
            f"Session `{session_id}` has no record {at}.",
            why=f"Its records have the numbers 1 to {last}.",
            fix=f"amplifier session fork {session_id} --at {last}",
        )


What = Literal["conversation", "files", "both"]
REWOUND = "session:rewound"


class FileChange(NamedTuple):
    """The effect of a rewind on one file; `reason` says why it is kept unchanged."""

    checkpoint: int
    path: str
    action: str
    reason: str
    diff: str


class RewindPreview(NamedTuple):
    """What a rewind does, or did, to prompts, messages and files.

    `at` is the number of the last record that stays in effect. `beyond` names what cannot be
    taken back: calls of tools without checkpoints, those of sub-agents too.
    """

    at: int
    what: What
    prompts: list[str]
    messages_before: int
    messages_after: int
    files: list[FileChange]
    beyond: list[str] = []


async def preview_rewind(
    live: LiveSession, store: SessionStore, *, before_turn: int, what: What = "both"
) -> RewindPreview:
    """Return what `rewind` would do; nothing is changed.

    Raises:
        SessionStoreError: the session has no such turn, or its checkpoints are gone.
    """
    return (await _planned(live, store, before_turn, what))[0]


async def rewind(
    live: LiveSession, store: SessionStore, *, before_turn: int, what: What = "both"
) -> RewindPreview:
    """Undo everything from turn `before_turn` on, and return what was done.

    The log keeps all of it, so `undo_rewind` can bring it back. Files that were changed outside of
    the session since are left alone, and reported.
    """
    preview, messages, checkpoints = await _planned(live, store, before_turn, what)
    # The last record before the rewind: `undo_rewind` reads the messages up to here.
    before = live.writer.seq
    made: list[int] = []
    if what != "conversation":
        files, made = await _undo(live, checkpoints)
        preview = preview._replace(files=files)
    if what == "files":
        await tell_model(live, [each.path for each in preview.files if each.action != "keep"])
    else:
        await _set_messages(live, messages)
    await _tell(live, preview, before, made)
    return preview


async def tell_model(live: LiveSession, paths: list[str]) -> None:
    """Add a message about files that the user took back, because the conversation has the changes.

    Nothing is added if `paths` is empty.
    """
    if paths:
        context: Any = live.session.coordinator.get("context")
        # As a list of JSON strings: a path can have any characters.
        text = f"[The user took back your last changes to these files: {json.dumps(paths)}]"
        await context.add_message({"role": "user", "content": text})


async def undo_rewind(live: LiveSession, store: SessionStore) -> RewindPreview:
    """Undo the last rewind: its messages return, and so do the files it changed.

    Raises:
        SessionStoreError: nothing was rewound, or the conversation has continued since.
    """
    records = list(store.read(live.session_id).records())
    at = next((n for n in range(len(records) - 1, -1, -1) if records[n].kind == "rewind"), None)
    if at is None or any(each.kind == "prompt" for each in records[at:]):
        raise SessionStoreError("There is no rewind to take back.", fix="amplifier session show")
    done = records[at].data
    before = live.writer.seq
    # In reverse, because the last of these changes has to be undone first.
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
        [] if what == "conversation" else _beyond(live, store, gone),
    )
    return preview, kept.messages, checkpoints


def _beyond(
    live: LiveSession, store: SessionStore, gone: list[Record], agent: str = ""
) -> list[str]:
    """Return what these records did that no checkpoint undoes; `agent` is whose they are."""
    tools: dict[str, Any] = live.session.coordinator.get("tools") or {}
    checkpointed: frozenset[str] = getattr(_checkpoints(live), "tools", frozenset())
    by = f" (by the sub-agent {agent})" if agent else ""
    # A call that started a sub-agent has done what that agent did, which is listed itself.
    of_agents = {record.data.get("inside") for record in gone if record.kind == "child"}
    found: list[str] = []
    for record in gone:
        match record.kind:
            case "child":
                child: str = record.data["session_id"]
                try:
                    theirs = list(store.read(child).records())
                except SessionStoreError:
                    found.append(f"what the sub-agent {child} did")
                else:
                    found += _beyond(live, store, theirs, child)
            case "checkpoint" if agent:
                # It works in another folder, or is of an older version, and has its own.
                found.append(f"files that were changed{by}")
            case "tool.call" if record.data.get("call") not in of_agents:
                name: str = record.data["tool"]
                tool = tools.get(name)
                # A tool that is no longer mounted may have done anything.
                is_unsafe = tool is None or declaration_of(tool).effect == "unsafe"
                if is_unsafe and name not in checkpointed:
                    said = record.data["input"].get("command", "")
                    found.append(f"{name} {said}".strip() + by)
            case _:
                pass
    return found


def _checkpoints(live: LiveSession) -> Any:
    return live.session.coordinator.get_capability("files.checkpoints")


def _owner_of_copied(gone: list[Any]) -> str | None:
    """Return the session that has the newest of these checkpoints, if a fork copied their records.

    A fork copies records, not checkpoints: those stay with the original.
    """
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
    """Raise if a checkpoint is missing, or belongs to another session."""
    problem = f"The files cannot be set back to before turn {before_turn}."
    # A fork numbers its own checkpoints from 1 again, so the id alone could mean the wrong one.
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
        raise SessionStoreError(
            problem,
            why="What they were then is not kept, or not any more.",
            fix=f"amplifier session rewind {live.session_id} --before-turn {before_turn} "
            "--what conversation",
        )


async def _preview(live: LiveSession, checkpoints: list[int]) -> list[FileChange]:
    """Return what undoing these checkpoints, newest first, does to each file."""
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
                # It only differs by a newer checkpoint's change, which is undone before this one.
                reason = f"after checkpoint {newer} was taken back"
                change = change._replace(action="restore", reason=reason)
            found.append(change)
    return found


async def _undo(live: LiveSession, checkpoints: list[int]) -> tuple[list[FileChange], list[int]]:
    """Undo checkpoints in this order; return what was done, and the new checkpoints."""
    saved: Any = _checkpoints(live)
    done = list[FileChange]()
    made = list[int]()
    for checkpoint in checkpoints if saved else ():
        for step in await saved.undo(checkpoint):
            done.append(FileChange(checkpoint, step.path, step.action, step.reason, step.diff))
        newest = (await saved.list())[-1]
        # An undo that keeps every file makes no checkpoint of its own.
        if newest.undoes == checkpoint:
            made.append(newest.turn)
    return done, made


async def _set_messages(live: LiveSession, messages: list[dict[str, Any]]) -> None:
    """Replace the messages in the memory, and record that."""
    context: Any = live.session.coordinator.get("context")
    # Cleared first: a memory with a file of its own would otherwise keep what the file has.
    live.recorder.is_paused = True
    try:
        await context.clear()
        await context.set_messages(messages)
    finally:
        live.recorder.is_paused = False
    await live.recorder.note_messages(messages, reason="rewind")


async def _tell(live: LiveSession, done: RewindPreview, before: int, made: list[int]) -> None:
    """Record what was done, so that it can be undone, and announce it."""
    way_back = {"before": before, "made": made}
    live.recorder.note("rewind", {"at": done.at, "what": done.what, **way_back})
    files = [each.path for each in done.files if each.action != "keep"]
    facts = {"at": done.at, "what": done.what, "files": files}
    await live.session.coordinator.hooks.emit(REWOUND, facts)
    await live.recorder.check()
