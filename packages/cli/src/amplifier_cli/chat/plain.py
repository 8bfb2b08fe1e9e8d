"""A chat for terminals without cursor control: line by line, nothing is redrawn."""

from __future__ import annotations

from typing import Any

from amplifier_cli.attention import Attention
from amplifier_cli.chat.approvals import TerminalNotices
from amplifier_cli.chat.conversation import Conversation, remember_partial
from amplifier_cli.chat.line_renderer import LineRenderer
from amplifier_cli.chat.live_view import Scene
from amplifier_cli.chat.observer import Observer, Usage
from amplifier_cli.chat.transcript_writer import LOG_NAME, TranscriptWriter
from amplifier_cli.kept_log import keeping_log
from amplifier_cli.output import control_terminal, say
from amplifier_cli.render.drawing import draw, needs_gap
from amplifier_cli.render.pieces import Shown, pieces
from amplifier_cli.sessions import store
from amplifier_cli.terminal import screen_width
from amplifier_cli.terminal_prompts import TerminalApproval, read_line
from amplifier_foundation.prepare import PreparedSession, open_session
from amplifier_foundation.short_ids import short_id
from amplifier_journal.readings.items import Items, Notice, Prompt
from amplifier_sandbox.platforms.signals import on_signals


class PlainChat:
    """Prints finished items and reads lines; Ctrl-C stops the turn, Ctrl-D leaves."""

    def __init__(self, ready: PreparedSession, prompt: str) -> None:
        self._ready = ready
        self._prompt = prompt
        self._paper = LineRenderer(styled=False)
        self._before: Shown | None = None
        self._scene = Scene(lambda: None)
        self._keeper = TranscriptWriter(self._put)

    async def run(self, session_id: str | None, *, takeover: bool) -> int:
        """Run the chat until the input ends."""
        if session_id is None:
            unfinished = ""
        else:
            unfinished = self._show_earlier(session_id)
        for line in self._ready.notices:
            self._put(Notice(line))
        with keeping_log() as log:
            async with open_session(
                self._ready,
                session_id=session_id,
                resume=session_id is not None,
                takeover=takeover,
                approval_system=TerminalApproval(Attention(control_terminal, self._ready.terminal)),
                display_system=TerminalNotices(self._put),
            ) as live:
                log.write_to(live.writer.folder / LOG_NAME, live.recorder.without_secrets)
                for each in live.session.status.modules:
                    if each.state == "failed":
                        self._put(Notice(f"{each.module_id} is missing: {each.error}", "warning"))
                if unfinished:
                    await remember_partial(live, unfinished)
                await self._talk(live)
        say(f"Continue with: amplifier continue {short_id(live.session_id)}")
        return 0

    async def _talk(self, live: Any) -> None:
        self._keeper.writer = live.writer
        context: Any = live.session.coordinator.get("context")

        async def results() -> dict[str, str]:
            messages: list[dict[str, Any]] = await context.get_messages()
            return {str(each.get("tool_call_id")): str(each.get("content")) for each in messages}

        observer = Observer(self._scene, self._put, self._keeper.keep_words, results, Usage())
        detach = observer.attach(live.session.coordinator.hooks)
        conversation = Conversation(live, self._scene, observer, self._put)
        try:
            with on_signals(conversation.stop, only_interrupt=True):
                await self._answer_lines(conversation)
        finally:
            detach()

    async def _answer_lines(self, conversation: Conversation) -> None:
        if self._prompt.strip():
            say(f"> {self._prompt}")
            conversation.say(self._prompt)
            await conversation.settle()
        while True:
            say("> ", nl=False)
            line = await read_line()
            if not line or line.strip() == "/quit":
                break
            if line.strip():
                conversation.say(line.strip())
                await conversation.settle()

    def _show_earlier(self, session_id: str) -> str:
        reading = Items()
        for record in store().read(session_id).records():
            for item in reading.finished(record):
                self._put(item, again=True)
        unfinished = reading.unfinished_text
        for item in reading.cut_short():
            self._put(item, again=True)
        return unfinished

    def _put(self, item: Shown, *, again: bool = False) -> None:
        if isinstance(item, Prompt) and not item.steers and not again:
            # The terminal has echoed it while the user typed it.
            self._before = item
            return
        for each in pieces(item):
            if needs_gap(self._before, each):
                say()
            self._before = each
            for line in self._paper.lines(draw(each), screen_width()):
                say(line)
