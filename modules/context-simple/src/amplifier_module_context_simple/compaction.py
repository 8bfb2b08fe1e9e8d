"""Compaction: the view of a history that fits a budget.

The view is a function of the history and the budget alone. The history is walked from its
beginning as if a request had been made after every unit; whenever what is left grows over the
limit, it is cut back to a goal well below. So the view keeps its first messages from one request
to the next, which is what a vendor's prompt cache lives on, and changes only once in a while.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_core.llm_errors import ContextLengthError
from amplifier_module_context_simple.calibration import Calibration
from amplifier_module_context_simple.config import ContextConfig
from amplifier_module_context_simple.size import FRAME, message_size
from amplifier_module_context_simple.texts import SHORTEST, shorten_texts, text_lengths
from amplifier_module_context_simple.units import Units

_MARKER = "[{} messages of this conversation were left out to fit the context window.]"
_MARKER_SIZE = FRAME + len("user") + len(_MARKER) + 8


class View(NamedTuple):
    """The messages of one request, at most `size` characters, and what was done to get them."""

    messages: list[dict[str, Any]]
    size: int
    dropped: int
    shortened: int
    # Equal when the same messages are left out and shortened.
    signature: tuple[int, ...]


class History:
    """The stored messages, measured and grouped."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages
        self.sizes: list[int] = []
        self.total = 0
        self.units = Units()

    def measure(self, *new: Any) -> None:
        """Measure what is not measured yet, then `new`; a ValueError says what is no message."""
        if len(self.sizes) > len(self.messages):
            self.sizes, self.total, self.units = [], 0, Units()
        for message in (*self.messages[len(self.sizes) :], *new):
            if not isinstance(message, dict) or "role" not in message:
                raise ValueError("Message must be a dict with a 'role' field")
            size = message_size(message)  # pyright: ignore[reportUnknownArgumentType] - callers may pass anything
            self.sizes.append(size)
            self.total += size

    def view(self, budget: int, config: ContextConfig, calibration: Calibration) -> View:
        """Return what fits `budget` tokens, or raise ContextLengthError when nothing can."""
        room = calibration.chars(budget)
        view = _Sweep(self, room, config).view()
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
        messages = [shorten_texts(message, level) for message in view.messages]
        cut = sum(a is not b for a, b in zip(messages, view.messages, strict=True))
        size = sum(map(message_size, messages))
        return View(messages, size, view.dropped, view.shortened + cut, (*view.signature, level))


class _Sweep:
    """Walks the units and keeps the newest of them within the limit."""

    def __init__(self, history: History, budget: int, config: ContextConfig) -> None:
        self._history, self._budget, self._config = history, budget, config
        self._units = history.units.update(history.messages)
        self._sizes = [
            history.sizes[unit[0]] if len(unit) == 1 else sum(history.sizes[i] for i in unit)
            for unit in self._units
        ]
        self._limit = budget * config.compact_threshold
        self._marker = _MARKER_SIZE if config.mark_dropped else 0
        self._fixed = self._marker + sum(history.sizes[index] for index in history.units.system)
        self._total = self._fixed
        # Units before `_oldest` are left out; of those before `_shortened`, results are short.
        self._oldest = self._shortened = 0
        # The last user message so far, and the one that was kept though its time had come.
        self._user = self._held = -1
        for at, unit in enumerate(self._units):
            self._total += self._sizes[at]
            if unit[0] in history.units.users:
                self._user = at
            if self._total > self._limit:
                self._make_room(at)

    def view(self) -> View:
        """Return the view that the walk ended with."""
        stored = self._history.messages
        chosen = {index: stored[index] for index in self._history.units.system}
        held = [self._held] if self._held >= 0 else []
        for at in (*held, *range(self._oldest, len(self._units))):
            chosen.update((index, self._shown(at, index)) for index in self._units[at])
        messages = [chosen[index] for index in sorted(chosen)]
        shortened = sum(message is not stored[index] for index, message in chosen.items())
        dropped, size = len(stored) - len(messages), self._total - self._marker
        if dropped and self._marker and self._total <= self._budget:
            # Behind the system messages at the top: the first thing of the conversation itself.
            top = next(i for i, each in enumerate(messages) if each["role"] != "system")
            messages.insert(top, {"role": "user", "content": _MARKER.format(dropped)})
            size = self._total
        signature = (dropped, self._oldest, self._held, shortened)
        return View(messages, size, dropped, shortened, signature)

    def _make_room(self, at: int) -> None:
        if 0 <= self._held != self._user:
            self._total -= self._sizes[self._held]
            self._held = -1
        fixed = self._fixed + self._sizes[at]
        if 0 <= self._user != at:
            fixed += self._sizes[self._user]
        # What cannot go is no reason to drop everything else: the goal is a share of the rest.
        share = min(self._config.target_usage / self._config.compact_threshold, 1.0)
        goal = fixed + max(0.0, self._limit - fixed) * share
        self._shorten_results(goal, at)
        while self._total > goal and self._oldest < at:
            if self._oldest == self._user:
                self._held = self._oldest
            else:
                self._total -= self._sizes[self._oldest]
            self._oldest += 1

    def _shorten_results(self, goal: float, at: int) -> None:
        end = at - int((at - self._oldest) * self._config.protected_recent)
        self._shortened = max(self._shortened, self._oldest)
        while self._total > goal and self._shortened < end:
            saving = sum(self._excess(index) for index in self._units[self._shortened])
            self._sizes[self._shortened] -= saving
            self._total -= saving
            self._shortened += 1

    def _excess(self, index: int) -> int:
        """Return how much longer a tool result is than its short form; nothing else has one."""
        message = self._history.messages[index]
        content = message.get("content") if message["role"] == "tool" else None
        return max(0, len(content) - self._config.truncate_chars) if type(content) is str else 0

    def _shown(self, at: int, index: int) -> dict[str, Any]:
        message = self._history.messages[index]
        short = at < self._shortened and self._excess(index)
        return shorten_texts(message, self._config.truncate_chars) if short else message


def _level(lengths: list[int], room: int) -> int:
    """Return the largest level at which the sum of min(length, level) is at most `room`."""
    left = len(lengths)
    for length in lengths:
        if length * left > room:
            return room // left
        room -= length
        left -= 1
    return 0
