"""A chat: one session after another at one terminal."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.history import FileHistory

from amplifier_cli.attention import Attention
from amplifier_cli.chat.approvals import TerminalApprovals, TerminalNotices
from amplifier_cli.chat.conversation import Conversation, remember_partial
from amplifier_cli.chat.keys import Keys
from amplifier_cli.chat.observer import Observer, Usage
from amplifier_cli.chat.slash import SlashCommands, SlashCompleter
from amplifier_cli.chat.terminal import Terminal
from amplifier_cli.chat.transcript_writer import TranscriptWriter
from amplifier_cli.render.footer import Meter
from amplifier_cli.render.pieces import Ending
from amplifier_cli.render.plain import duration
from amplifier_journal.readings.items import Item, Items, Notice, ToolCall
from amplifier_kit.questions import Asking

if TYPE_CHECKING:
    from amplifier_foundation.live import LiveSession
    from amplifier_foundation.store import SessionReader

logger = logging.getLogger(__name__)


class PrivateHistory(FileHistory):
    """prompt_toolkit's history, in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # FileHistory would create it with the umask; prompts may contain secrets. The chmod is for
        # a file that exists with another mode.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
        super().__init__(str(path))


HISTORY = "chat-history"
_HINT_IDLE = "/help"
_HINT_BUSY = "esc stops"
_HINT_ASKS = "esc denies"
_HINT_ENTRY = "esc goes back"
# What can be said to a plan, and the mode that it is carried out in.
_AFTER_PLAN = {
    "Yes, ask before changes": "ask",
    "Yes, edit files": "edits",
    "Yes, all inside of the sandbox": "auto",
    "No": None,
}


class Chat:
    """The state that `/` commands and keys work on."""

    def __init__(
        self,
        home: Path,
        project: Path,
        commands: SlashCommands,
        wanted: Mapping[str, Any] | None = None,
    ) -> None:
        """`wanted` says how the user is called to the terminal."""
        self.commands = commands
        self.project = project
        self.terminal = Terminal(
            history=PrivateHistory(home / HISTORY),
            completer=SlashCompleter(commands),
            meter=self._meter,
            accept=self._accept,
        )
        self.attention = Attention(self.terminal.control, wanted or {})
        put = self.terminal.put
        self._keeper = TranscriptWriter(put)
        self.approvals = TerminalApprovals(
            self.terminal.scene,
            put,
            lambda: self.terminal.size,
            self.attention.call,
        )
        self.notices = TerminalNotices(put)
        self.usage = Usage()
        self.wants_fork = False
        self._jobs: set[asyncio.Task[None]] = set()
        # The question whether a plan is to be carried out.
        self._offer: asyncio.Future[None] | None = None
        self._seen = 0
        self._unfinished = ""

    # --- history ---------------------------------------------------------------------------------

    def show_earlier(self, reader: SessionReader) -> None:
        """Print the part of the conversation that this chat has not shown yet."""
        reading = Items(calls_before=len(self.terminal.scene.calls))
        for record in reader.records(after=self._seen):
            self._put_earlier(reading.finished(record))
            if record.kind == "event" and record.data.get("name") == "llm:response":
                self.usage.take(record.data.get("data") or {})
            self._seen = record.seq
        self._unfinished = reading.unfinished_text
        self._put_earlier(reading.cut_short())

    def _put_earlier(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, ToolCall):
                self.terminal.scene.end_call(item)
            self.terminal.put(item)

    # --- the session -----------------------------------------------------------------------------

    async def talk(self, live: LiveSession, prompt: str = "") -> None:
        """Run the chat until the user leaves or forks the session; `prompt` is sent first."""
        self.live = live
        self._keeper.writer = live.writer
        observer = Observer(
            self.terminal.scene,
            self.terminal.put,
            self._keeper.keep_words,
            self._results,
            self.usage,
        )
        self.conversation = Conversation(
            live,
            self.terminal.scene,
            observer,
            self.terminal.put,
            self._offer_plan,
            self._tell_end,
        )
        detach = observer.attach(self.coordinator.hooks)
        keys = Keys(
            self.terminal,
            lambda: self.conversation,
            expand=self._expand_last,
            leave=self.leave,
            next_mode=self._next_mode,
        )
        for each in live.session.status.modules:
            if each.state == "failed":
                line = f"{each.module_id} is missing: {each.error}"
                self.terminal.put(Notice(line, "warning", "chat"))
        if self._unfinished.strip():
            await remember_partial(live, self._unfinished)
            self._unfinished = ""
        if prompt.strip():
            self.conversation.say(prompt)
        self.terminal.drawn = self._set_title
        self.terminal.resized = self.approvals.show_again
        try:
            await self.terminal.run(keys.bindings())
        finally:
            self.attention.restore_title()
            # The user may leave during a turn: it has to end before its session is closed.
            self.conversation.stop()
            await self.conversation.settle()
            detach()
            self._seen = live.writer.seq
            self._keeper.writer = None

    def _set_title(self) -> None:
        if self.terminal.scene.asks is not None:
            mark = "? "
        elif self.conversation.is_running:
            mark = "● "
        else:
            mark = ""
        self.attention.title(f"{mark}amplifier: {self.project.name}")

    def _tell_end(self) -> None:
        self.attention.tell_end(self.terminal.scene.attended_at)

    def leave(self, *, fork: bool = False) -> None:
        """End the chat, or this session of it."""
        self.wants_fork = fork
        self.terminal.leave()

    @property
    def coordinator(self) -> Any:
        """The session's coordinator."""
        return self.live.session.coordinator

    @property
    def context(self) -> Any:
        """The session's memory."""
        return self.coordinator.get("context")

    @property
    def provider(self) -> tuple[str, Any]:
        """The provider that a loop uses by default, with its name."""
        providers: dict[str, Any] = self.coordinator.get("providers")
        return min(providers.items(), key=lambda each: getattr(each[1], "priority", 100))

    @property
    def model(self) -> str:
        """The model of the last call, else the default of the provider."""
        return self.usage.model or str(self._defaults().get("model") or self.provider[0])

    @property
    def window(self) -> int | None:
        """The model's window in tokens, if the provider declares it."""
        window = self._defaults().get("context_window")
        if isinstance(window, int):
            return window
        return None

    def budget(self) -> dict[str, Any] | None:
        """The status of the session's budget, if it has one."""
        status = self.coordinator.get_capability("budget.status")
        return None if status is None else status()

    def _defaults(self) -> dict[str, Any]:
        return self.provider[1].get_info().defaults or {}

    async def _results(self) -> dict[str, str]:
        messages: list[dict[str, Any]] = await self.context.get_messages()
        return {
            str(each.get("tool_call_id")): str(each.get("content"))
            for each in messages
            if each.get("role") == "tool"
        }

    # --- the mode --------------------------------------------------------------------------------

    @property
    def grants(self) -> Any:
        """What was allowed beyond one call, and the mode; None without a guard that has them."""
        grants: Any = self.coordinator.get_capability("approval.grants")
        return grants if hasattr(grants, "set_mode") else None

    async def set_mode(self, mode: str) -> None:
        """Change how much is asked about."""
        await self.grants.set_mode(mode)
        self.terminal.put(Notice(f"Mode {mode}: {self.grants.modes[mode]}."))

    def _next_mode(self) -> None:
        if self.grants is None:
            self.terminal.put(Notice("This session has no modes.", "warning"))
            return
        modes = list(self.grants.modes)
        following = modes[(modes.index(self.grants.mode) + 1) % len(modes)]
        self._start(self.set_mode(following), "mode")

    def _offer_plan(self) -> None:
        """Ask whether the plan, with which a turn has ended, is to be carried out."""
        if self.grants is not None and self.grants.mode == "plan" and not self.terminal.scene.queue:
            self._offer = self._start(self._ask_about_plan(), "plan")

    async def _ask_about_plan(self) -> None:
        asking = Asking("Carry out this plan?", tuple(_AFTER_PLAN), math.inf)
        said = await self.approvals.request_reply(asking)
        mode = _AFTER_PLAN[said.option]
        if mode is None and said.reason:
            self.conversation.say(said.reason)
        if mode is not None:
            await self.set_mode(mode)
            self.conversation.say("Carry out the plan.")

    # --- input -----------------------------------------------------------------------------------

    def _accept(self, text: str) -> None:
        # Whoever writes something else does not want the plan as it is.
        if self._offer is not None:
            self._offer.cancel()
        if not text.startswith("/"):
            self.conversation.say(text)
            return
        command, argument, trouble = self.commands.find(text.strip())
        if command is None:
            self.terminal.put(Notice(trouble, "warning"))
            return
        self._start(command.run(self, argument), command.name)

    def expand(self, number: int | None = None) -> None:
        """Print one tool call in full, by default the last one."""
        calls = self.terminal.scene.calls
        wanted = len(calls) if number is None else number
        if not calls:
            self.terminal.put(Notice("No tool ran."))
        elif wanted not in calls:
            self.terminal.put(Notice(f"There is no tool call #{wanted}."))
        else:
            self.terminal.put(calls[wanted], expanded=True)

    def _expand_last(self) -> None:
        scene = self.terminal.scene
        if scene.tools:
            scene.expanded = not scene.expanded
            scene.changed()
        else:
            self.expand()

    def _start(self, work: Any, name: str) -> asyncio.Future[None]:
        async def run() -> None:
            try:
                await work
            except Exception as error:
                # Broad, because a failed command must not end the chat.
                logger.exception("command failed name=%s", name)
                told = self.live.recorder.without_secrets(str(error))
                self.terminal.put(Ending(f"/{name} failed. {told}", "error"))

        # The event loop has only weak references to tasks, so the chat keeps a strong one.
        job = asyncio.ensure_future(run())
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    def _meter(self) -> Meter:
        scene = self.terminal.scene
        running = self.conversation.is_running
        state = scene.activity or "ready"
        if running:
            state = f"{scene.frame} {state} {duration(scene.elapsed)}"
        elif scene.is_held:
            state = "held"
        return Meter(
            state=state,
            mode="" if self.grants is None else self.grants.mode,
            hint=self._hint(running=running),
            model=self.model,
            session=self.live.session_id,
            tokens=self.usage.context if self.usage.context is not None else 0,
            window=self.window,
            cost=self.live.cost_usd,
            unpriced_calls=self.live.unpriced_calls,
            budget=_dollar_limit(self.budget()),
            queued=len(scene.queue),
        )

    def _hint(self, *, running: bool) -> str:
        asks = self.terminal.scene.asks
        if asks is not None:
            return _HINT_ASKS if asks.entry == "message" else _HINT_ENTRY
        return _HINT_BUSY if running else _HINT_IDLE


def _dollar_limit(status: dict[str, Any] | None) -> Decimal | None:
    """Return the limit in dollars from a budget's status."""
    usd = None if status is None else status["limits"].get("usd")
    if usd is None:
        return None
    return Decimal(str(usd))
