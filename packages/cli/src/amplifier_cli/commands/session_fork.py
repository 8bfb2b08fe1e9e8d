"""`amplifier session fork|rewind|diff`: copy a session, set it back, compare two."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, styled
from amplifier_cli.render.plain import counted
from amplifier_cli.sessions import (
    SESSION,
    durable_options,
    durable_sessions,
    find_session,
    read_session,
    store,
)
from amplifier_cli.terminal import confirm, fitted, heading, is_terminal, notice, screen_width
from amplifier_foundation import rewind as rewinding
from amplifier_foundation.short_ids import short_id
from amplifier_journal.replay import comparison
from amplifier_sandbox.visible_text import exact, visible

if TYPE_CHECKING:
    from amplifier_foundation.rewind import FileChange, RewindPreview
    from amplifier_journal.log import FollowedLog


def fork_session(session_id: str, at: int | None = None) -> str:
    """Copy a session up to a record, announce the copy, and return its id."""
    copy = rewinding.fork(store(), session_id, at=at)
    upto = "" if at is None else f" up to record {at}"
    notice(f"{short_id(session_id)}{upto} continues in a copy: {copy}")
    return copy


@click.command()
@SESSION
@durable_options
@click.option("--at", type=int, help="Last record that the copy has (see: session show --json).")
@click.option("--before-turn", type=int, help="Leave this turn and all after it out.")
def fork(session_id: str, at: int | None, before_turn: int | None) -> None:
    """Continue from any point, in a copy."""
    reader = read_session(session_id)
    if before_turn is not None:
        at = _last_before(reader, before_turn)
    durable = durable_sessions()
    if durable is not None:
        say(durable.fork(session_id, at=at))
        return
    copy = fork_session(reader.session_id, at)
    say(copy)
    notice(f"continue: amplifier continue {short_id(copy)}")


@click.command()
@SESSION
@click.option("--before-turn", type=int, required=True, help="Take back this turn and all after.")
@click.option(
    "--what",
    type=click.Choice(["conversation", "files", "both"]),
    default="both",
    show_default=True,
)
@click.option("--preview", is_flag=True, help="Only show what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def rewind(session_id: str, before_turn: int, what: Any, preview: bool, yes: bool) -> None:
    """Take back turns: the conversation, its files, or both.

    What would happen is shown first. The log keeps everything; files that somebody else changed
    since are kept as they are.
    """
    asyncio.run(_rewind(find_session(session_id), before_turn, what, preview, yes))


@click.command()
@click.argument("one")
@click.argument("other")
@durable_options
@click.pass_context
def diff(context: click.Context, one: str, other: str) -> None:
    """Show where two sessions differ."""
    found = comparison.diff(read_session(one), read_session(other))
    for each in found:
        say(str(each))
        say()
    notice(counted(len(found), "difference") if found else "no difference")
    context.exit(1 if found else 0)


async def _rewind(session_id: str, before_turn: int, what: Any, preview: bool, yes: bool) -> None:
    from amplifier_cli.terminal_prompts import Notices  # noqa: PLC0415 - the kernel; a fork does without
    from amplifier_foundation.prepare import SessionOptions, open_session, prepare_session  # noqa: PLC0415 - as above

    # The session is opened with its bundle, because its checkpoints belong to a mounted tool.
    metadata = store().read(session_id).metadata
    ready = await prepare_session(
        SessionOptions(bundle=metadata.get("bundle")), Path(metadata.get("project") or Path.cwd())
    )
    async with open_session(
        ready, session_id=session_id, resume=True, display_system=Notices()
    ) as live:
        aim: dict[str, Any] = {"before_turn": before_turn, "what": what}
        _show(await rewinding.preview_rewind(live, store(), **aim))
        if preview:
            return
        if not yes:
            if not is_terminal():
                raise CommandError(
                    "Nothing was changed.",
                    why="There is nobody to ask.",
                    fix=f"amplifier session rewind {short_id(session_id)} "
                    f"--before-turn {before_turn} --what {what} --yes",
                )
            confirm("Do this?")
        done = await rewinding.rewind(live, store(), **aim)
        kept = {each.path for each in done.files if each.action == "keep"}
        notice(f"Done. Kept as before: {counted(len(kept), 'file')}." if kept else "Done.")


def _show(preview: RewindPreview) -> None:
    if preview.what != "files":
        room = screen_width() - 6
        heading("Prompts that go")
        for prompt in preview.prompts:
            say(f"  {fitted(prompt, room)}")
        say(f"  messages: {preview.messages_before} -> {preview.messages_after}")
    if preview.files:
        heading("Files")
    by_path: dict[str, list[FileChange]] = {}
    for change in preview.files:
        by_path.setdefault(change.path, []).append(change)
    for changes in by_path.values():
        _show_file(changes)
    if preview.beyond:
        heading("Not taken back")
    for each in preview.beyond:
        say(f"  {fitted(exact(each), screen_width() - 6)}")


def _show_file(changes: list[FileChange]) -> None:
    """Show how undoing these changes, newest first, affects one file."""
    acting = (each for each in changes if each.action in ("restore", "remove"))
    change = next(acting, changes[0])
    reason = change.reason
    if len(changes) > 1 and not reason:
        reason = f"{len(changes)} changes are taken back; this is the newest"
    told = f"  ({reason})" if reason else ""
    say(f"  {change.action:<8} {_seen_from_here(change.path)}{told}")
    for line in visible(change.diff).splitlines():
        color = {"+": "green", "-": "red"}.get(line[:1])
        say("    " + styled(line, fg=color))


def _seen_from_here(path: str) -> str:
    """Return a path relative to this folder if possible; never cut, as the user decides on it."""
    here = Path.cwd()
    if Path(path).is_relative_to(here):
        seen = Path(path).relative_to(here)
    else:
        seen = path
    return exact(str(seen))


def _last_before(reader: FollowedLog, turn: int) -> int:
    for record in reader.records():
        if record.kind == "prompt" and record.data.get("turn") == turn:
            return record.seq - 1
    shown = f"amplifier session show {short_id(reader.session_id)}"
    raise CommandError(f"The session has no turn {turn}.", fix=shown)
