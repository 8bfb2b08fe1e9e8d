"""The capability `files.checkpoints`: list and undo the file changes of turns."""

from __future__ import annotations

import asyncio

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.notices import show
from amplifier_module_files.checkpoints import Checkpoint, Checkpoints, Step
from amplifier_sandbox.files.names import shown

UNDONE = "files:undone"


class FileCheckpoints:
    """Lists, previews and undoes the file changes of this session's turns.

    `tools` has the names of the tools whose changes it can undo.
    """

    def __init__(
        self, checkpoints: Checkpoints, coordinator: ModuleCoordinator, tools: frozenset[str]
    ) -> None:
        self.tools = tools
        self._checkpoints = checkpoints
        self._coordinator = coordinator

    @property
    def current(self) -> int | None:
        """The checkpoint of the running turn, or of the last one; None if it changed nothing."""
        return self._checkpoints.current

    async def list(self) -> list[Checkpoint]:
        """Return the turns that can be undone, oldest first."""
        return await asyncio.to_thread(self._checkpoints.list)

    async def preview(self, turn: int) -> list[Step]:
        """Return what `undo` would do to each file. Raises LookupError for an unknown turn."""
        return await asyncio.to_thread(self._checkpoints.preview, turn)

    async def undo(self, turn: int) -> list[Step]:
        """Undo a turn, except in files that were changed since, and announce what was done.

        The undo is itself a turn in `list`, so it can be undone. Raises LookupError for an
        unknown turn.
        """
        steps = await asyncio.to_thread(self._checkpoints.undo, turn)
        done = [step.path for step in steps if step.action in ("restore", "remove")]
        kept = {step.path: step.reason for step in steps if step.action == "keep"}
        await self._coordinator.hooks.emit(UNDONE, {"turn": turn, "restored": done, "kept": kept})
        for path, reason in kept.items():
            line = f"`{shown(path)}` was not taken back: {reason}."
            show(self._coordinator, line, source="tool-filesystem")
        return steps
