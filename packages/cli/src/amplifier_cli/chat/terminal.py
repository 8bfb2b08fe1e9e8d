"""The screen: finished items are printed once into the scrollback, the rest is redrawn below."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.console import Group, RenderableType
from rich.text import Text

from amplifier_cli.chat.line_renderer import LineRenderer
from amplifier_cli.chat.live_view import Entry, Scene
from amplifier_cli.output import terminal_file
from amplifier_cli.question_pages import rows_of
from amplifier_cli.render.drawing import draw, needs_gap
from amplifier_cli.render.footer import Meter, footer
from amplifier_cli.render.pieces import Shown, pieces
from amplifier_cli.terminal import forget_typed_ahead
from amplifier_journal.readings.items import Answer, Question
from amplifier_sandbox.visible_text import visible

_REDRAW_SECONDS = 0.04
_TICK_SECONDS = 0.1
_MOST_INPUT_ROWS = 8
_MOST_MENU_ROWS = 16
# What the input line is for.
_MARKS: dict[Entry, str] = {"message": "› ", "reason": "because › ", "edit": "$ "}
# Stands for output that is not an item, so that a gap separates it from the next item.
_SOMETHING_ELSE = Answer("")
_STYLE = Style(
    [
        ("rule", "dim"),
        ("mark", "bold ansicyan"),
        ("footer", "dim"),
        ("footer.state", "nodim bold"),
        ("footer.full", "nodim ansired"),
        ("footer.mode", "nodim ansiyellow"),
        ("completion-menu", "noreverse bg:default"),
        ("completion-menu.completion", "noreverse bg:default fg:default"),
        ("completion-menu.completion.current", "reverse bold"),
        ("completion-menu.meta.completion", "noreverse bg:default dim"),
        ("completion-menu.meta.completion.current", "reverse"),
        ("scrollbar.background", "bg:default"),
        ("scrollbar.button", "bg:default"),
    ]
)


class _WholeFrames(Vt100_Output):
    """Writes whole frames: without holding the flush, the erased screen would flicker."""

    is_held = False

    def flush(self) -> None:
        """Flush, unless the frame is incomplete."""
        if not self.is_held:
            super().flush()


class Terminal:
    """Draws a scene, an input line and a footer below what was printed."""

    def __init__(
        self,
        *,
        history: History,
        completer: Completer,
        meter: Callable[[], Meter],
        accept: Callable[[str], None],
    ) -> None:
        self.scene = Scene(self.wake)
        self.paper = LineRenderer()
        self._meter = meter
        # Called after each frame.
        self.drawn: Callable[[], None] = lambda: None
        # Called when the screen has had another size for a moment.
        self.resized: Callable[[], None] = lambda: None
        self._accept = accept
        self._pending: list[str] = []
        self._before: Shown | None = None
        self._asked = ""
        self._output = _output()
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=Condition(
                lambda: self.buffer.text.startswith("/") and self._entry == "message"
            ),
            accept_handler=self._accepted,
        )
        self._input: Input = create_input()
        self._app: Application[None] | None = None

    # --- printing --------------------------------------------------------------------------------

    def put(self, item: Shown, *, expanded: bool = False) -> None:
        """Print a finished item above; it stays in the scrollback."""
        for each in pieces(item):
            if needs_gap(self._before, each):
                self._pending.append("")
            self._before = each
            drawn = draw(each, expanded=expanded, asked=self._asked)
            self._pending += self.paper.lines(drawn, self.columns)
            if isinstance(each, Question):
                self._asked = each.prompt
        self.wake()

    def put_lines(self, renderable: RenderableType) -> None:
        """Print something that is not part of the conversation."""
        self._pending += ["", *self.paper.lines(renderable, self.columns)]
        self._before = _SOMETHING_ELSE
        self.wake()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows that a question can use."""
        size = self._output.get_size()
        # A bar is drawn to its left; the scene, a rule, the input line and the footer below it.
        below = len(self._scene_lines()) + self._input_rows
        return size.columns - 2, size.rows - below - 2

    @property
    def columns(self) -> int:
        """The current width of the terminal."""
        return self._output.get_size().columns

    def wake(self) -> None:
        """Schedule a redraw."""
        if self._app is not None:
            self._app.invalidate()

    def control(self, sequence: str) -> None:
        """Write a sequence that is not part of the drawing, such as the bell."""
        self._output.write_raw(sequence)
        self._output.flush()

    # --- running ---------------------------------------------------------------------------------

    async def run(self, keys: KeyBindings) -> None:
        """Draw and handle keys until `leave`."""
        self._app = app = Application[None](
            layout=self._layout(),
            key_bindings=keys,
            style=_STYLE,
            input=self._input,
            output=self._output,
            color_depth=ColorDepth.from_env() or ColorDepth.DEPTH_4_BIT,
            min_redraw_interval=_REDRAW_SECONDS,
            erase_when_done=True,
            enable_page_navigation_bindings=False,
        )
        # Esc is also the first byte of other keys' sequences: wait long enough for the rest of
        # them, and short enough that Esc alone feels immediate.
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.2
        app.before_render += self._print_pending
        app.after_render += self._write_frame
        ticking = asyncio.create_task(self._tick())
        try:
            # Ctrl-C is one of the key bindings. asyncio logs the exception of a task that nobody
            # awaits; prompt_toolkit's handler would print it into the conversation and wait.
            await app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking
            self._app = None
            self._write_rest()

    def leave(self) -> None:
        """End `run`."""
        if self._app is not None and not self._app.is_done:
            self._app.exit()

    def clear_screen(self) -> None:
        """Show an empty screen; the scrollback stays."""
        if self._app is not None:
            self._app.renderer.clear()

    async def _tick(self) -> None:
        drawn = self._output.get_size()
        before = drawn
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            size = self._output.get_size()
            # A window that is dragged has many sizes; the last one counts.
            if size == before and size != drawn:
                drawn = size
                self.resized()
            before = size
            if self.scene.activity:
                self.wake()

    def _print_pending(self, app: Application[None]) -> None:
        for item in self.scene.advance():
            self.put(item)
        if not self._pending:
            return
        # Released in `_write_frame`, after the scene was drawn below the new lines.
        self._output.is_held = True
        app.renderer.erase()
        self._write_lines()

    def _write_lines(self) -> None:
        lines = self._pending
        self._pending = []
        self._output.write_raw("".join(f"{line}\r\n" for line in lines))

    def _write_frame(self, app: Application[None]) -> None:
        self._output.is_held = False
        self._output.flush()
        self.drawn()
        if not self._pending and self.scene.note_drawn():
            # Unread input was typed before the question appeared, and must not answer it.
            forget_typed_ahead()

    def _write_rest(self) -> None:
        self._output.is_held = False
        self._write_lines()
        self._output.flush()

    def _accepted(self, buffer: Buffer) -> bool:
        self._accept(buffer.text)
        return False

    # --- layout ----------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        mark = BeforeInput(lambda: [("class:mark", _MARKS[self._entry])])
        control = BufferControl(self.buffer, input_processors=[mark])
        line = Window(
            control,
            height=Dimension(min=1, max=_MOST_INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._line_prefix,
        )
        return Layout(
            HSplit(
                [
                    _shown(self._draw_scene),
                    _shown(lambda: [("class:rule", "─" * self.columns)], height=1),
                    line,
                    CompletionsMenu(max_height=_MOST_MENU_ROWS),
                    _shown(self._draw_footer, height=1, style="class:footer"),
                ],
                align=VerticalAlign.TOP,
            ),
            focused_element=line,
        )

    def _draw_scene(self) -> StyleAndTextTuples:
        lines = self._scene_lines()
        return to_formatted_text(ANSI("\n".join(lines))) if lines else []

    def _scene_lines(self) -> list[str]:
        size = self._output.get_size()
        rows = max(3, size.rows - self._input_rows - 2)
        parts = self.scene.parts(rows)
        if not parts:
            return []
        spaced = [each for part in parts for each in (part, Text(""))][:-1]
        # Keeps the end, where the question and the queue are.
        lines = self.paper.lines(Group(*spaced), size.columns)[-rows:]
        # The options are a part of their question.
        is_asked = isinstance(self._before, Question) and len(parts) == 1
        above = [""] if self._before is not None and not is_asked else []
        return [*above, *lines]

    @property
    def _input_rows(self) -> int:
        """The rows that the input line takes, as far as it can grow."""
        columns = self.columns - len(_MARKS[self._entry])
        return min(len(rows_of(self.buffer.text, columns)), _MOST_INPUT_ROWS)

    @property
    def _entry(self) -> Entry:
        return "message" if self.scene.asks is None else self.scene.asks.entry

    def _line_prefix(self, number: int, wraps: int) -> str:
        return " " * len(_MARKS[self._entry]) if number or wraps else ""

    def _draw_footer(self) -> StyleAndTextTuples:
        return [(style, visible(text)) for style, text in footer(self._meter(), self.columns)]


def _output() -> _WholeFrames:
    output = _WholeFrames.from_pty(terminal_file(sys.stdout))
    assert isinstance(output, _WholeFrames), "a class method returns what it is called on"
    # The screen is drawn at the cursor, so its position need not be requested from the terminal.
    output.enable_cpr = False
    return output


def _shown(
    draw_text: Callable[[], StyleAndTextTuples], *, height: int | None = None, style: str = ""
) -> Window:
    return Window(
        FormattedTextControl(draw_text, show_cursor=False),
        height=height,
        dont_extend_height=True,
        style=style,
    )
