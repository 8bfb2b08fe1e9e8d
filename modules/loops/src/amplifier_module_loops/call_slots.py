"""How many calls of one step run at the same time."""

from __future__ import annotations

import asyncio

from amplifier_module_loops.tool_watch import ToolRun


class CallSlots:
    """A fixed number of slots; calls that find none free wait, and are served in call order."""

    __slots__ = ("_free",)

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self, run: ToolRun) -> None:
        """Wait for a slot; does not give up control while one is free."""
        await self._free.acquire()
        run.release_slot = self._free.release
