"""tool-filesystem: the files of a workspace, each change with a way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_module_files.checkpoints import Checkpoints
from amplifier_module_files.tool_filesystem.config import AllowedPath, FilesystemConfig
from amplifier_module_files.tool_filesystem.location import checkpoint_folder
from amplifier_module_files.tool_filesystem.session_files import SessionFiles
from amplifier_module_files.tool_filesystem.tools import TOOLS
from amplifier_module_files.tool_filesystem.undo import UNDONE, FileCheckpoints
from amplifier_sandbox.files.own_files import OwnFiles
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace, working_dir

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

_NAME = "tool-filesystem"
# Handed down to sub-agents, which add their changes to it.
_STORE = "files.checkpoint_store"
_TURN_BEGINS = (events.EXECUTION_START, events.PROMPT_SUBMIT)


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Mount the tools. Config: see `FilesystemConfig`. Cleanup: unregisters its hooks."""
    settings = FilesystemConfig.model_validate(config or {})
    workspace = _workspace(coordinator, settings)
    limit = settings.max_file_bytes
    listening: list[Callable[[], None]] = []
    checkpoints = _checkpoints_of_parent(coordinator, workspace)
    if checkpoints is None:
        folder = checkpoint_folder(workspace, settings.checkpoint_dir, coordinator.session_id)
        checkpoints = Checkpoints(folder, workspace, limit=limit, keep=settings.keep_turns)
        listening = _offer(coordinator, checkpoints)
    files = SessionFiles(workspace, checkpoints, limit)
    coordinator.register_contributor("observability.events", _NAME, lambda: [UNDONE])
    for tool in TOOLS:
        await coordinator.mount("tools", tool(files, coordinator.hooks), name=tool.name)

    def cleanup() -> None:
        for stop_listening in listening:
            stop_listening()

    return cleanup


def _checkpoints_of_parent(
    coordinator: ModuleCoordinator, workspace: Workspace
) -> Checkpoints | None:
    """Return the checkpoints of the session that started this one, if it works in the same folders.

    What a sub-agent changes is part of a turn of its parent, and is undone with it.
    """
    handed_down: Any = coordinator.get_capability(_STORE)
    if not isinstance(handed_down, Checkpoints):
        return None
    theirs = [each.path for each in handed_down.workspace.roots]
    is_same = theirs == [each.path for each in workspace.roots]
    return handed_down if is_same else None


def _offer(coordinator: ModuleCoordinator, checkpoints: Checkpoints) -> list[Callable[[], None]]:
    """Offer the undo of this session's changes; return what unregisters its hooks."""

    async def begin_turn(event: str, data: dict[str, Any]) -> HookResult:
        checkpoints.begin_turn()
        return HookResult()

    covered = frozenset(tool.name for tool in TOOLS)
    undo = FileCheckpoints(checkpoints, coordinator, covered)
    coordinator.register_capability("files.checkpoints", undo)
    coordinator.register_capability(_STORE, checkpoints)
    return [coordinator.hooks.register(each, begin_turn, name=_NAME) for each in _TURN_BEGINS]


def _workspace(coordinator: ModuleCoordinator, settings: FilesystemConfig) -> Workspace:
    working = working_dir(coordinator, settings.working_dir)
    others: list[Root] = []
    for each in settings.allowed_paths:
        if isinstance(each, Path):
            allowed = AllowedPath(path=each)
        else:
            allowed = each
        folder = working / allowed.path.expanduser()
        others.append(Root(folder, writable=allowed.write, own=OwnFiles(folder)))
    return Workspace(Root(working, own=OwnFiles(working)), *others)
