"""From the command line to a chat: which session, who else has it, and how it went on."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from amplifier_cli.chat.chat import Chat
from amplifier_cli.chat.log_keeping import LOG_NAME
from amplifier_cli.chat.plain import PlainChat
from amplifier_cli.chat.slash_commands import COMMANDS
from amplifier_cli.failures import CommandError
from amplifier_cli.held import Answer, choose
from amplifier_cli.kept_log import keeping_log
from amplifier_cli.output import say
from amplifier_cli.sessions import find_session, store, with_own_bundle
from amplifier_foundation import paths
from amplifier_foundation.preparing import Ready, Wishes, get_ready, open_session
from amplifier_foundation.short_ids import short_id
from amplifier_foundation.store.errors import SessionHeldError
from amplifier_journal.readings.items import Notice


def talk(wishes: Wishes, resume: str | None, when_held: Answer | None) -> int:
    """Talk until the person leaves; returns the exit code."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise CommandError(
            "A chat needs a terminal.",
            why="Its input or output is a pipe or a file.",
            fix='amplifier run "..."',
        )
    session_id = None if resume is None else find_session(resume)
    if session_id is not None:
        wishes = with_own_bundle(wishes, session_id)
    ready = asyncio.run(get_ready(wishes))
    takeover = False
    if session_id is None:
        holder = None
    else:
        holder = store().holder(session_id)
    if session_id is not None and holder is not None:
        answer = choose(SessionHeldError(session_id, holder), when_held)
        if answer == "watch":
            return _watch(session_id)
        if answer == "fork":
            session_id = _fork(session_id)
        takeover = answer == "take-over"
    if os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
        return asyncio.run(_Talk(ready).run(session_id, takeover=takeover))
    context = click.get_current_context(silent=True)
    if context is not None:
        context.color = False
    return asyncio.run(PlainChat(ready).run(session_id, takeover=takeover))


class _Talk:
    """One chat after the other: a fork goes on in another session."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready

    async def run(self, session_id: str | None, *, takeover: bool) -> int:
        """Open the session, talk, and go on with its copy as long as one is wanted."""
        chat = Chat(paths.home(), self._ready.project, COMMANDS)
        resume = session_id is not None
        if session_id is not None:
            chat.show_earlier(store().read(session_id))
        if self._ready.is_mock:
            level = "warning"
        else:
            level = "info"
        for line in self._ready.notices:
            chat.terminal.put(Notice(line, level))
        while True:
            with keeping_log() as log:
                async with open_session(
                    self._ready,
                    session_id=session_id,
                    resume=resume,
                    takeover=takeover,
                    approval_system=chat.approvals,
                    display_system=chat.notices,
                ) as live:
                    log.write_to(live.writer.folder / LOG_NAME, live.recorder.without_secrets)
                    session_id = live.session_id
                    await chat.talk(live)
            if not chat.wants_fork:
                break
            session_id = _fork(session_id)
            resume = True
            takeover = False
            chat.terminal.put(Notice(f"A copy goes on here: {session_id}."))
        say(f"Go on with: amplifier chat --resume {short_id(session_id)}")
        return 0


def _watch(session_id: str) -> int:
    from amplifier_cli.commands.session_looking import watch  # noqa: PLC0415 - rare

    watch.main([session_id], standalone_mode=False)
    return 0


def _fork(session_id: str) -> str:
    from amplifier_cli.commands.session_branching import fork_session  # noqa: PLC0415 - rare

    return fork_session(session_id)
