"""The key bindings of the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys as AnyKey

from amplifier_cli.chat.conversation import Conversation, notice
from amplifier_cli.chat.live_view import Entry, OpenQuestion
from amplifier_cli.chat.terminal import Terminal
from amplifier_cli.question_pages import NEXT_PAGE, denial, letters_of

# Keys are ignored for this long after typing and after a question appears, so that a word being
# typed does not answer a question that has just been drawn.
_PAUSE_SECONDS = 0.5
# A letter answers after this time, unless another key follows: then it begins a message.
_LETTER_SECONDS = 0.25


class Keys:
    """The bindings of a chat.

    `expand` shows all of the last tool call, `leave` ends the chat, `next_mode` changes the mode.
    """

    def __init__(
        self,
        terminal: Terminal,
        conversation: Callable[[], Conversation],
        *,
        expand: Callable[[], None],
        leave: Callable[[], None],
        next_mode: Callable[[], None],
    ) -> None:
        self._terminal = terminal
        self._conversation = conversation
        self._expand = expand
        self._leave = leave
        self._next_mode = next_mode
        self._typed_at = 0.0
        self._wants_to_leave = False
        # A letter that may be an answer, or the beginning of a message.
        self._letter = ""
        self._timer: asyncio.TimerHandle | None = None
        terminal.buffer.on_text_changed += self._note_typing
        terminal.scene.obstacle = self._obstacle

    def bindings(self) -> KeyBindings:
        """Return the bindings."""
        keys = KeyBindings()
        is_asked = Condition(self._is_asked)
        menu_open = Condition(lambda: self._terminal.buffer.complete_state is not None)
        keys.add("enter", filter=~is_asked)(self._enter)
        keys.add("escape", "enter")(self._new_line)
        keys.add("c-j")(self._new_line)
        keys.add("escape", filter=~menu_open)(self._escape)
        keys.add("escape", filter=menu_open)(self._close_menu)
        keys.add("c-c")(self._interrupt)
        keys.add("c-d", filter=Condition(lambda: not self._terminal.buffer.text))(self._end)
        keys.add("c-o")(self._expand_last)
        keys.add("c-l")(self._clear)
        keys.add("s-tab", filter=~menu_open)(self._change_mode)
        keys.add("enter", filter=is_asked)(self._answer_chosen)
        for key in ("left", "up"):
            keys.add(key, filter=is_asked)(self._previous)
        for key in ("right", "down"):
            keys.add(key, filter=is_asked)(self._next)
        has_letter = Condition(lambda: bool(self._letter))
        takes_reason = Condition(self._takes_reason)
        for digit in "123456789":
            keys.add(digit, filter=is_asked & ~has_letter)(self._answer_digit)
        for letter in ("y", "n", "a", "e"):
            keys.add(letter, filter=is_asked & ~has_letter)(self._take_letter)
        # Immediately: who knows the key types the reason without a pause, and a denial is harmless.
        for key in ("r", "tab"):
            keys.add(key, filter=is_asked & ~has_letter & takes_reason)(self._begin_reason)
        keys.add(AnyKey.Any, filter=has_letter)(self._type_letter)
        return keys

    def _note_typing(self, _: object) -> None:
        self._typed_at = monotonic()
        self._wants_to_leave = False

    def _obstacle(self) -> str:
        """Return why keys do not answer the open question, or an empty text if they do."""
        if self._entry != "message":
            return "the line is for the answer"
        if self._terminal.buffer.text:
            return "for other answers, send or clear the line"
        asks = self._terminal.scene.asks
        if asks is not None and asks.drawn_at is None:
            return "..."
        since = max(self._typed_at, 0.0 if asks is None else asks.drawn_at or 0.0)
        if monotonic() - since > _PAUSE_SECONDS:
            return ""
        return "..."

    def _is_asked(self) -> bool:
        return self._terminal.scene.asks is not None and not self._obstacle()

    @property
    def _entry(self) -> Entry:
        asks = self._terminal.scene.asks
        return "message" if asks is None else asks.entry

    def _enter(self, event: KeyPressEvent) -> None:
        if self._entry != "message":
            self._finish_entry()
            return
        buffer = self._terminal.buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.apply_completion(state.current_completion)
        if buffer.text.strip():
            buffer.validate_and_handle()
        elif self._terminal.scene.is_held:
            self._conversation().release()

    def _new_line(self, event: KeyPressEvent) -> None:
        self._terminal.buffer.insert_text("\n")

    def _close_menu(self, event: KeyPressEvent) -> None:
        self._terminal.buffer.cancel_completion()

    def _escape(self, event: KeyPressEvent) -> None:
        """Deny an open question; else stop the turn; else move the queue to the input line."""
        self._drop_letter()
        asks = self._terminal.scene.asks
        if asks is None:
            if not self._conversation().stop():
                self._take_back()
        elif asks.entry != "message":
            self._leave_entry(asks)
        else:
            # Without the pause of the other keys: a denial does no harm.
            self._answer(denial(asks.question.options))

    def _take_back(self) -> None:
        texts = self._conversation().take_back()
        if not texts:
            return
        buffer = self._terminal.buffer
        buffer.text = "\n".join([*texts, *([buffer.text] if buffer.text else [])])
        buffer.cursor_position = len(buffer.text)
        self._terminal.put(notice("What was queued is in the input line again."))

    def _interrupt(self, event: KeyPressEvent) -> None:
        buffer = self._terminal.buffer
        asks = self._terminal.scene.asks
        self._drop_letter()
        if asks is not None and asks.entry != "message":
            self._leave_entry(asks)
        elif buffer.text:
            buffer.append_to_history()
            buffer.reset()
        elif not self._conversation().stop():
            self._end(event)

    def _end(self, event: KeyPressEvent) -> None:
        if self._wants_to_leave or not self._conversation().is_running:
            self._leave()
            return
        self._wants_to_leave = True
        self._terminal.put(notice("A turn is running. Once more stops it and leaves."))

    def _answer_chosen(self, event: KeyPressEvent) -> None:
        asks = self._terminal.scene.asks
        if self._letter:
            self._use_letter()
        elif asks is not None:
            self._answer(asks.chosen)

    def _answer_digit(self, event: KeyPressEvent) -> None:
        self._answer(int(event.data) - 1)

    def _answer(self, number: int) -> None:
        asks = self._terminal.scene.asks
        # `done`: a second key may arrive before the answer was processed.
        if asks is None or asks.answer.done() or number >= len(asks.question.options):
            return
        asks.answer.set_result(asks.question.options[number])

    # --- letters ---------------------------------------------------------------------------------

    def _take_letter(self, event: KeyPressEvent) -> None:
        self._letter = event.data
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_LETTER_SECONDS, self._use_letter)

    def _type_letter(self, event: KeyPressEvent) -> None:
        """Begin a message with the letter, because another key has followed it."""
        typed = event.data if event.data.isprintable() else ""
        self._terminal.buffer.insert_text(self._drop_letter() + typed)

    def _drop_letter(self) -> str:
        letter = self._letter
        self._letter = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return letter

    def _use_letter(self) -> None:
        letter = self._drop_letter()
        asks = self._terminal.scene.asks
        # The question may have been withdrawn meanwhile, and the next one is not yet read.
        if asks is None or not self._is_asked():
            return
        number = letters_of(asks.question.options).get(letter)
        if number is not None:
            self._answer(number)
        elif letter == "e" and asks.editable is not None:
            self._begin_entry(asks, "edit", asks.editable)
        elif NEXT_PAGE in asks.question.options:
            # It was meant for the question: in the input line it would be sent as a message.
            self._terminal.put(notice("The question has more pages: Enter shows the next one."))
        else:
            self._terminal.buffer.insert_text(letter)

    # --- the input line as an answer -------------------------------------------------------------

    def _takes_reason(self) -> bool:
        asks = self._terminal.scene.asks
        return asks is not None and asks.takes_reason

    def _begin_reason(self, event: KeyPressEvent) -> None:
        asks = self._terminal.scene.asks
        if asks is not None:
            self._begin_entry(asks, "reason", "")

    def _begin_entry(self, asks: OpenQuestion, entry: Entry, text: str) -> None:
        asks.entry = entry
        self._terminal.buffer.reset()
        self._terminal.buffer.insert_text(text)
        self._terminal.wake()

    def _leave_entry(self, asks: OpenQuestion) -> None:
        asks.entry = "message"
        self._terminal.buffer.reset()
        self._terminal.wake()

    def _finish_entry(self) -> None:
        asks = self._terminal.scene.asks
        if asks is None:
            return
        text = self._terminal.buffer.text
        entry = asks.entry
        self._leave_entry(asks)
        options = asks.question.options
        if entry == "reason":
            asks.reason = text.strip()
            self._answer(denial(options))
        elif text.strip():
            asks.edited = None if text == asks.editable else text
            self._answer(letters_of(options).get("y", denial(options)))

    def _expand_last(self, event: KeyPressEvent) -> None:
        self._expand()

    def _change_mode(self, event: KeyPressEvent) -> None:
        self._next_mode()

    def _clear(self, event: KeyPressEvent) -> None:
        self._terminal.clear_screen()

    def _previous(self, event: KeyPressEvent) -> None:
        self._choose(-1)

    def _next(self, event: KeyPressEvent) -> None:
        self._choose(1)

    def _choose(self, step: int) -> None:
        asks = self._terminal.scene.asks
        if asks is not None:
            asks.chosen = (asks.chosen + step) % len(asks.question.options)
            self._terminal.wake()
