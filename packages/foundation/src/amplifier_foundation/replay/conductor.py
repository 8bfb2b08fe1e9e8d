"""The conductor: lets things happen in the order in which they were recorded."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable

# Longer than a module needs between two steps; whoever waits longer waits for nothing.
_PATIENCE_SECONDS = 3.0


class Conductor:
    """Knows the numbers of the records at which a replay takes a step, and which are taken.

    A result is held back until everything that was recorded before it has happened, so parallel
    calls end in the order of the record, and a cancellation comes exactly where it came.
    """

    def __init__(self, patience: float = _PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._left: list[int] = []
        self._due: dict[int, Callable[[], None]] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.is_out_of_step = False

    def expect(self, seq: int, due: Callable[[], None] | None = None) -> None:
        """Expect a step at record `seq`; one that is `due` is taken by the conductor itself."""
        bisect.insort(self._left, seq)
        if due is not None:
            self._due[seq] = due

    def take(self, seq: int) -> None:
        """Note that the step of record `seq` was taken, and let others go on."""
        at = bisect.bisect_left(self._left, seq)
        if at < len(self._left) and self._left[at] == seq:
            del self._left[at]
        while self._left and self._left[0] in self._due:
            self._due.pop(self._left.pop(0))()
        self._wake()

    async def reach(self, seq: int) -> None:
        """Wait until every step recorded before `seq` was taken."""
        if not self._left or self._left[0] >= seq:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, reached))
        try:
            async with asyncio.timeout(self._patience):
                await reached
        except TimeoutError:
            # What was recorded before it will not come: the replay has gone another way.
            self.is_out_of_step = True
            self._left = [each for each in self._left if each >= seq]

    def give_up_on(self, upto: int) -> None:
        """Expect nothing any more that was recorded before `upto`."""
        self._left = [each for each in self._left if each >= upto]
        self._due = {seq: due for seq, due in self._due.items() if seq >= upto}
        self._wake()

    def _wake(self) -> None:
        first = self._left[0] if self._left else None
        for seq, reached in self._waiting:
            if not reached.done() and (first is None or first >= seq):
                reached.set_result(None)
        self._waiting = [(seq, each) for seq, each in self._waiting if not each.done()]
