"""Stream an answer to stdout: each word as soon as it arrives, and none of them twice."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from amplifier_cli.output import AnswerOutput
from amplifier_cli.terminal import notice

__all__ = ["AnswerStream", "can_stream"]

# Runs after every hook that may modify the event, such as one that blanks secrets.
_LAST = sys.maxsize
_BETWEEN_BLOCKS = "\n\n"


def can_stream() -> bool:
    """Whether stdout is read while it is written: a terminal or a pipe, not a file."""
    try:
        return sys.stdout.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class AnswerStream:
    """Writes the model's text as it streams, including text before tool calls."""

    def __init__(self) -> None:
        self._on_terminal = sys.stdout.isatty()
        self._said = ""  # text of the current model call
        self._said_before: set[str] = set()
        # Printed text of a call that broke off. Its retry streams from the start again, so it is
        # compared with this and only the rest is printed.
        self._repeated = ""
        self._is_final = False
        self._written = False
        self._open_line = False
        self._output = AnswerOutput()
        self._reader_left: BrokenPipeError | None = None

    def listen(self, hooks: Any) -> None:
        """Register for the events of a session."""
        from amplifier_core.models import HookResult  # noqa: PLC0415 - loaded by the session

        quiet = HookResult()

        def hear(event: str, take: Callable[[dict[str, Any]], None]) -> None:
            async def handler(_: str, data: dict[str, Any]) -> HookResult:
                take(data)
                return quiet

            hooks.register(event, handler, _LAST, "the answer on stdout")

        hear("provider:request", self._begin_call)
        hear("llm:stream_block_start", self._begin_block)
        hear("llm:stream_block_delta", self._go_on)
        hear("llm:stream_block_end", self._end_block)
        hear("llm:stream_aborted", self._break_off)
        hear("tool:pre", lambda _: self.end_line())

    def end_line(self) -> None:
        """End an unfinished line, so that a message starts on a line of its own."""
        # Only on a terminal: a pipe carries the answer alone, and must not break it.
        if self._open_line and self._on_terminal:
            self._end_text()
            self._write("\n")

    def finish(self, answer: str | None) -> None:
        """Write the part of the answer that did not stream.

        Raises:
            BrokenPipeError: the reader closed the pipe.
        """
        # A loop may return text that no model streamed.
        if answer and not self._is_final and answer not in self._said_before:
            if self._said and answer.startswith(self._said):
                self._write(answer[len(self._said) :])
            else:
                self._separate()
                self._write(answer)
        self._end_text()
        if self._written and self._open_line:
            self._write("\n")
        if self._reader_left is not None:
            raise self._reader_left

    def _begin_call(self, _: dict[str, Any]) -> None:
        self._said_before.add(self._said)
        self._said = ""
        self._is_final = False

    def _begin_block(self, data: dict[str, Any]) -> None:
        self._is_final = False
        if data.get("block_type") != "text":
            return
        if self._said:
            self._said += _BETWEEN_BLOCKS
            self._write(_BETWEEN_BLOCKS)
        elif not self._repeated:
            self._separate()

    def _go_on(self, data: dict[str, Any]) -> None:
        if data.get("block_type") != "text":
            return
        text = str(data.get("text", ""))
        self._said += text
        if not self._repeated:
            self._write(text)
        elif not self._repeated.startswith(self._said):
            before = self._repeated
            self._repeated = ""
            if self._said.startswith(before):
                self._write(self._said[len(before) :])
            else:
                self.end_line()
                notice("The answer broke off, and begins again with other words.", level="warning")
                self._separate()
                self._write(self._said)

    def _end_block(self, data: dict[str, Any]) -> None:
        self._is_final = data.get("block_type") == "text"

    def _break_off(self, _: dict[str, Any]) -> None:
        self._repeated = self._repeated or self._said
        self._said = ""
        self._is_final = False

    def _separate(self) -> None:
        """Write an empty line between earlier text and the next."""
        self._end_text()
        if self._written:
            self._write("\n\n" if self._open_line else "\n")

    def _end_text(self) -> None:
        """Write what the output held back until a next piece that will not come."""
        self._try(self._output.finish_piece)

    def _write(self, text: str) -> None:
        if not text or self._reader_left is not None:
            return
        self._written = True
        self._open_line = not text.endswith("\n")
        self._try(lambda: self._output.write(text))

    def _try(self, write: Callable[[], None]) -> None:
        if self._reader_left is not None:
            return
        try:
            write()
        except BrokenPipeError as left:
            # This runs in a hook, where the kernel would swallow the error. `finish` raises it
            # once the turn has ended and is recorded.
            self._reader_left = left
