"""Compaction: views of a history that fit a token budget.

The stored history is never changed. A sweep over its units decides what to leave out; a view is
built from that and reused while it only grows, so that a vendor's prompt cache stays valid.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from amplifier_core.errors import describe_error
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.message_models import ChatRequest
from amplifier_kit.history_repair import repair_history
from amplifier_kit.texts import SHORTEST
from amplifier_module_contexts.announcer import Announcer
from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.history import History, Units
from amplifier_module_contexts.short_forms import ShortForms, text_lengths
from amplifier_module_contexts.sizes import FRAME, Calibration, message_size

logger = logging.getLogger(__name__)


class State(NamedTuple):
    """The state of a sweep after one unit; sizes are in characters, the rest indexes of units."""

    # The size of the view, and of its fixed part: marker and system messages.
    total: int
    fixed: int
    # Units before `oldest` are left out; tool results before `shortened` are shortened.
    oldest: int = 0
    shortened: int = 0
    # The newest unit that is not a system message, and the last prompt.
    newest: int = -1
    user: int = -1
    # The last prompt, if it is before `oldest` and kept all the same.
    held: int = -1


class Sweep:
    """Walks the units and keeps the newest of them within the limit.

    The result depends only on the history and `room`, not on when or how often it was called.
    """

    def __init__(self, history: History, config: MemoryConfig, reserved: int) -> None:
        self._history = history
        self._config = config
        self._units: Units = history.units
        self._room = -1
        self._states = [State(total=reserved, fixed=reserved)]
        self._limit = 0.0
        # How often a unit other than the last one changed.
        self.rewinds = 0

    def walk(self, room: int) -> State:
        """Walk the new units, or all of them if the room has changed."""
        history = self._history
        first = history.units.update(history.messages)
        if first < len(self._states) - 2:
            self.rewinds += 1
        if room != self._room or history.units is not self._units:
            first = 0
            self._room = room
            self._units = history.units
            self._limit = room * self._config.compact_threshold
        # A state depends only on the units before it, so those before the first change stay valid.
        del self._states[first + 1 :]
        for at in range(len(self._states) - 1, len(self._units.all)):
            self._states.append(self._step(self._states[-1], at))
        return self._states[-1]

    def excess(self, index: int) -> int:
        """Return how much longer a tool result is than its short form; 0 for other messages."""
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
        # The goal is a share of what the unremovable part leaves. As a share of the whole limit, a
        # large system prompt would cost the entire conversation.
        share = min(self._config.target_usage / self._config.compact_threshold, 1.0)
        goal = kept + max(0.0, self._limit - kept) * share
        # Shorten old results before leaving anything out. Both go down to the goal, well below the
        # limit: the beginning of the view, which vendors cache, changes only once in a while.
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


_MARKER = "[{} messages of this conversation were left out to fit the context window.]"
_MARKER_SIZE = FRAME + len("user") + len(_MARKER) + 8


class View(NamedTuple):
    """The messages of one request, at most `size` characters, and how they were compacted."""

    messages: list[dict[str, Any]]
    size: int
    dropped: int
    shortened: int
    # Equal if the same messages are left out and shortened; empty if none are.
    signature: tuple[int, ...]
    # Equal if one view is the other with messages appended.
    lineage: tuple[int, ...]


class Compaction:
    """Builds views of one growing history; an unchanged message is the same object in each."""

    def __init__(self, history: History, config: MemoryConfig) -> None:
        self._history = history
        self._config = config
        self._marker_size = _MARKER_SIZE if config.mark_dropped else 0
        self._sweep = Sweep(history, config, self._marker_size)
        self._short, self._cut = ShortForms(), ShortForms()
        self._marker: dict[str, Any] = {}
        # The last view before its texts were cut, the inputs it was built from, and its length.
        self._last: View | None = None
        self._made_of: tuple[int, ...] = ()
        self._seen = self._seen_total = 0

    def view(self, budget: int, calibration: Calibration) -> View:
        """Return a view that fits `budget` tokens, or raise ContextLengthError if none can."""
        room = calibration.chars(budget)
        view = self._view(self._sweep.walk(room), room)
        if view.size <= room:
            return view
        # What cannot be left out is still too long: cut its longest texts down to one length.
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
        """Return the indexes of messages that the view for `budget` leaves out, oldest first.

        The search starts at the newest unit and ends at the first whose messages are all `known`,
        so its cost depends on what is new. A prompt that is kept past its turn counts as left out.
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
        """Return the last view with the new messages appended, or a rebuilt one."""
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
    """Insert messages after the leading system messages, before the conversation itself."""
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


COUNT_FAILED = "context:count_failed"

# A tokenizer produces at most one token per byte, and UTF-8 at most 4 bytes per character.
_MOST_TOKENS_PER_CHAR = 4


class ExactCount:
    """Calls a provider's `count_tokens(request)`, but only if the result can matter.

    The last count is an upper bound for a view that only grew since; while the bound fits, it does
    not count again. If the counter fails, that is announced and the estimate is used.
    """

    __slots__ = ("_announcer", "_counter", "_failing", "_lineage", "_size", "_tokens")

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer
        self._counter: Any = None
        self._lineage: tuple[int, ...] = ()
        self._size = self._tokens = 0
        self._failing = False

    def forget(self) -> None:
        """Forget the last count, because the history was replaced."""
        self._counter = None

    async def exceeds(self, view: View, budget: int, provider: Any) -> int | None:
        """Return the view's tokens if they exceed `budget`, else None."""
        count: Any = getattr(provider, "count_tokens", None)
        if count is None or view.size * _MOST_TOKENS_PER_CHAR <= budget:
            return None
        if self._counter == count and self._lineage == view.lineage:
            grown = (view.size - self._size) * _MOST_TOKENS_PER_CHAR
            if grown >= 0 and self._tokens + grown <= budget:
                return None
        try:
            # Repaired as for a request, because a view may have a call without a result.
            messages, _ = repair_history(view.messages)
            self._tokens = int(await count(ChatRequest.model_validate({"messages": messages})))
        except Exception as error:
            logger.exception("token counter failed")
            await self._announce_failure(error)
            return None
        self._counter = count
        self._lineage = view.lineage
        self._size = view.size
        self._failing = False
        if self._tokens > budget:
            return self._tokens
        return None

    async def _announce_failure(self, error: Exception) -> None:
        # Once until it works again, instead of the same message before every request.
        if not self._failing:
            self._failing = True
            reason = describe_error(error)
            line = f"The provider cannot count tokens ({reason}); requests are fitted by estimate."
            await self._announcer.tell(COUNT_FAILED, {"error": reason}, line)
