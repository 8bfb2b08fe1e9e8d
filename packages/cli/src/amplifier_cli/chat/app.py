"""Start a chat: find the session, resolve its lock, and open it, or a fork of it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys

import click

from amplifier_cli.chat.chat import Chat
from amplifier_cli.chat.plain import PlainChat
from amplifier_cli.chat.slash_commands import COMMANDS
from amplifier_cli.chat.transcript_writer import LOG_NAME
from amplifier_cli.failures import CommandError
from amplifier_cli.kept_log import keeping_log
from amplifier_cli.lock_prompt import Answer, choose
from amplifier_cli.output import say
from amplifier_cli.sessions import find_session, store, with_own_bundle
from amplifier_foundation import paths
from amplifier_foundation.prepare import (
    PreparedSession,
    SessionOptions,
    open_session,
    prepare_session,
)
from amplifier_foundation.short_ids import short_id
from amplifier_foundation.store.errors import SessionHeldError
from amplifier_journal.readings.items import Notice


def talk(
    options: SessionOptions, resume: str | None, when_held: Answer | None, prompt: str = ""
) -> int:
    """Run a chat until the user leaves, with `prompt` sent first; returns the exit code."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        if resume is None:
            fix = 'amplifier run "..."'
        else:
            fix = f'amplifier run --resume {shlex.quote(resume)} "..."'
        raise CommandError(
            "A chat needs a terminal.",
            why="Its input or output is a pipe or a file.",
            fix=fix,
        )
    session_id = None if resume is None else find_session(resume)
    if session_id is not None:
        options = with_own_bundle(options, session_id)
    ready = asyncio.run(prepare_session(options))
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
        return asyncio.run(_Talk(ready, prompt).run(session_id, takeover=takeover))
    # A dumb terminal has no cursor control to draw with. It is a terminal, so click would not strip
    # colours by itself.
    context = click.get_current_context(silent=True)
    if context is not None:
        context.color = False
    return asyncio.run(PlainChat(ready, prompt).run(session_id, takeover=takeover))


class _Talk:
    """Runs one session after another at one terminal: `/fork` continues in a copy."""

    def __init__(self, ready: PreparedSession, prompt: str) -> None:
        self._ready = ready
        self._prompt = prompt

    async def run(self, session_id: str | None, *, takeover: bool) -> int:
        """Open the session and run the chat; after `/fork`, repeat with the copy."""
        chat = Chat(paths.home(), self._ready.project, COMMANDS, self._ready.terminal)
        resume = session_id is not None
        if session_id is not None:
            chat.show_earlier(store().read(session_id))
        if self._ready.is_mock:
            level = "warning"
        else:
            level = "info"
        for line in self._ready.notices:
            chat.terminal.put(Notice(line, level))
        if self._ready.is_mock:
            chat.terminal.put(Notice("Set one up: amplifier init"))
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
                    await chat.talk(live, self._prompt)
            self._prompt = ""
            if not chat.wants_fork:
                break
            session_id = _fork(session_id)
            resume = True
            takeover = False
            chat.terminal.put(Notice(f"A copy continues here: {session_id}."))
        say(f"Continue with: amplifier continue {short_id(session_id)}")
        return 0


def _watch(session_id: str) -> int:
    from amplifier_cli.commands.session_show import watch  # noqa: PLC0415 - rare

    watch.main([session_id], standalone_mode=False)
    return 0


def _fork(session_id: str) -> str:
    from amplifier_cli.commands.session_fork import fork_session  # noqa: PLC0415 - rare

    return fork_session(session_id)
