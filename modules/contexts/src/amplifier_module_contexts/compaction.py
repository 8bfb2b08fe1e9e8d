"""Compaction: the view of a history that fits a budget, a function of these two alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.texts import SHORTEST, ShortForms, text_lengths
from amplifier_module_contexts.calibration import Calibration
from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.history import History
from amplifier_module_contexts.size import FRAME, message_size
from amplifier_module_contexts.sweep import State, Sweep

_MARKER = "[{} messages of this conversation were left out to fit the context window.]"
_MARKER_SIZE = FRAME + len("user") + len(_MARKER) + 8


class View(NamedTuple):
    """The messages of one request, at most `size` characters, and what was done to get them."""

    messages: list[dict[str, Any]]
    size: int
    dropped: int
    shortened: int
    # Equal when the same messages are left out and shortened; empty when none are.
    signature: tuple[int, ...]
    # Equal when one view is the other with messages added at its end.
    lineage: tuple[int, ...]


class Compaction:
    """Makes views of one growing history; what did not change is the same object in each."""

    def __init__(self, history: History, config: MemoryConfig) -> None:
        self._history = history
        self._config = config
        self._marker_size = _MARKER_SIZE if config.mark_dropped else 0
        self._sweep = Sweep(history, config, self._marker_size)
        self._short, self._cut = ShortForms(), ShortForms()
        self._marker: dict[str, Any] = {}
        # The last view before its texts were cut, what it was made of, and how far it goes.
        self._last: View | None = None
        self._made_of: tuple[int, ...] = ()
        self._seen = self._seen_total = 0

    def view(self, budget: int, calibration: Calibration) -> View:
        """Return what fits `budget` tokens, or raise ContextLengthError when nothing can."""
        room = calibration.chars(budget)
        view = self._view(self._sweep.walk(room), room)
        if view.size <= room:
            return view
        # Cut the longest texts of what cannot be left out down to one length.
        lengths = sorted(length for message in view.messages for length in text_lengths(message))
        frame = view.size - sum(lengths)
        level = _level(lengths, room - frame)
        if level < SHORTEST:
            needed = calibration.tokens(frame + sum(min(each, SHORTEST) for each in lengths))
            raise ContextLengthError(
                f"The conversation cannot be made to fit: the system messages, the last user "
                f"message and the running tool calls need at least {needed} tokens, and the "
                f"budget is {budget}."
            )
        self._cut.begin_view()
        messages = [self._cut.of(message, level) for message in view.messages]
        cut = sum(a is not b for a, b in zip(messages, view.messages, strict=True))
        size = sum(map(message_size, messages))
        return View(
            messages,
            size,
            view.dropped,
            view.shortened + cut,
            (*view.signature, level),
            (*view.lineage, level),
        )

    def left_out(self, budget: int, calibration: Calibration, known: set[int]) -> list[int]:
        """Return the positions of messages that fell out of the view of `budget`, oldest first.

        The newest units come first and the first whose messages are all `known` ends it, so this
        costs what is new. A prompt that is kept though its time has come has fallen out.
        """
        units = self._history.units
        state = self._sweep.walk(calibration.chars(budget))
        found: list[int] = []
        for at in range(state.oldest - 1, -1, -1):
            unit = units.all[at]
            if known.issuperset(unit):
                break
            if unit[0] not in units.system:
                found += [index for index in unit if index not in known]
        return sorted(found)

    def _view(self, state: State, room: int) -> View:
        """Return the last view with what is new at its end, or one that is made anew."""
        stored = self._history.messages
        fits = state.total <= room
        kept = (state.oldest, state.shortened, state.held, fits)
        made_of = (*kept, self._history.restarts, self._sweep.rewinds)
        if self._last is None or self._made_of != made_of:
            self._last = self._new_view(state, is_marked=fits and self._marker_size > 0)
        else:
            messages = self._last.messages + stored[self._seen :]
            grown = state.total - self._seen_total
            self._last = self._last._replace(messages=messages, size=self._last.size + grown)
        self._made_of, self._seen, self._seen_total = made_of, len(stored), state.total
        return self._last

    def _new_view(self, state: State, *, is_marked: bool) -> View:
        stored = self._history.messages
        units = self._history.units
        self._short.begin_view()
        chosen = {index: stored[index] for index in units.system}
        if state.held >= 0:
            chosen.update((index, stored[index]) for index in units.all[state.held])
        for at in range(state.oldest, len(units.all)):
            short = at < state.shortened
            chosen.update((index, self._shown(index, short)) for index in units.all[at])
        messages = [chosen[index] for index in sorted(chosen)]
        shortened = sum(message is not stored[index] for index, message in chosen.items())
        dropped = len(stored) - len(messages)
        size = state.total - self._marker_size
        if dropped and is_marked:
            behind_system(messages, self._mark(dropped))
            size = state.total
        signature = (dropped, state.oldest, state.held, shortened)
        lineage = (self._history.restarts, self._sweep.rewinds, *signature)
        return View(messages, size, dropped, shortened, signature, lineage)

    def _shown(self, index: int, short: bool) -> dict[str, Any]:
        message = self._history.messages[index]
        if short and self._sweep.excess(index):
            return self._short.of(message, self._config.truncate_chars)
        return message

    def _mark(self, dropped: int) -> dict[str, Any]:
        content = _MARKER.format(dropped)
        if self._marker.get("content") != content:
            self._marker = {"role": "user", "content": content}
        return self._marker


def behind_system(messages: list[dict[str, Any]], *new: dict[str, Any]) -> None:
    """Insert behind the system messages at the top: the first thing of the conversation itself."""
    others = (at for at, each in enumerate(messages) if each["role"] != "system")
    top = next(others, len(messages))
    messages[top:top] = new


def _level(lengths: list[int], room: int) -> int:
    """Return the largest level at which the sum of min(length, level) is at most `room`."""
    left = len(lengths)
    for length in lengths:
        if length * left > room:
            return room // left
        room -= length
        left -= 1
    return 0
