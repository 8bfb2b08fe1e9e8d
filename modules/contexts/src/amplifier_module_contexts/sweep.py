"""The sweep: which units of a history a view keeps.

The history is walked from its beginning as if a request had been made after every unit; whenever
what is left grows over the limit, it is cut back to a goal well below. So the view keeps its first
messages from one request to the next, which is what a vendor's prompt cache lives on, and changes
only once in a while. The state after every unit is kept: a walk goes on where the last one ended,
or, when an answer came late, where the history is no longer as it was.
"""

from __future__ import annotations

from typing import NamedTuple

from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.history import History
from amplifier_module_contexts.units import Units


class State(NamedTuple):
    """Where a walk stands; sizes are in characters, the rest are positions of units."""

    # What the view holds, and the part of it that never goes: marker and system messages.
    total: int
    fixed: int
    # Units before `oldest` are left out; of those before `shortened`, results are short.
    oldest: int = 0
    shortened: int = 0
    # The newest unit that is no system message, and the last prompt.
    newest: int = -1
    user: int = -1
    # The prompt that was kept though its time had come.
    held: int = -1


class Sweep:
    """Walks the units and keeps the newest of them within the limit.

    The outcome depends on the history and on `room` alone, not on when it was asked for.
    """

    def __init__(self, history: History, config: MemoryConfig, reserved: int) -> None:
        self._history = history
        self._config = config
        self._units: Units = history.units
        self._room = -1
        self._states = [State(total=reserved, fixed=reserved)]
        self._limit = 0.0
        # How often a unit changed that was not the last one.
        self.rewinds = 0

    def walk(self, room: int) -> State:
        """Walk the units that are new, or all of them when the room is another one."""
        history = self._history
        first = history.units.update(history.messages)
        if first < len(self._states) - 2:
            self.rewinds += 1
        if room != self._room or history.units is not self._units:
            first = 0
            self._room = room
            self._units = history.units
            self._limit = room * self._config.compact_threshold
        del self._states[first + 1 :]
        for at in range(len(self._states) - 1, len(self._units.all)):
            self._states.append(self._step(self._states[-1], at))
        return self._states[-1]

    def excess(self, index: int) -> int:
        """Return how much longer a tool result is than its short form; nothing else has one."""
        message = self._history.messages[index]
        if message["role"] == "tool":
            content = message.get("content")
        else:
            content = None
        if type(content) is str:
            return max(0, len(content) - self._config.truncate_chars)
        return 0

    def _step(self, before: State, at: int) -> State:
        size = self._size(at, 0)
        first = self._units.all[at][0]
        state = before._replace(total=before.total + size)
        if first in self._units.system:
            state = state._replace(fixed=before.fixed + size)
        else:
            state = state._replace(newest=at, user=at if first in self._units.users else state.user)
        if state.total > self._limit:
            return self._make_room(state)
        return state

    def _make_room(self, state: State) -> State:
        total, fixed, oldest, shortened, newest, user, held = state
        if newest < 0:
            return state
        if 0 <= held != user:
            total -= self._size(held, 0)
            held = -1
        kept = fixed + self._size(newest, 0)
        if 0 <= user != newest:
            kept += self._size(user, 0)
        # What cannot go is no reason to drop everything else: the goal is a share of the rest.
        share = min(self._config.target_usage / self._config.compact_threshold, 1.0)
        goal = kept + max(0.0, self._limit - kept) * share
        end = newest - int((newest - oldest) * self._config.protected_recent)
        shortened = max(shortened, oldest)
        while total > goal and shortened < end:
            total -= self._saving(shortened)
            shortened += 1
        while total > goal and oldest < newest:
            if oldest == user:
                held = oldest
            elif self._units.all[oldest][0] not in self._units.system:
                total -= self._size(oldest, shortened)
            oldest += 1
        return State(total, fixed, oldest, shortened, newest, user, held)

    def _size(self, at: int, shortened: int) -> int:
        size = sum(self._history.sizes[index] for index in self._units.all[at])
        if at < shortened:
            return size - self._saving(at)
        return size

    def _saving(self, at: int) -> int:
        return sum(self.excess(index) for index in self._units.all[at])
