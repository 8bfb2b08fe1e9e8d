"""The one object that counts, limits and ends the children of a session, whoever starts them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.children.child import EVENTS, NAME
from amplifier_kit.children.config import ChildrenConfig
from amplifier_kit.children.remote import RUNNER, RemoteTasks, TaskRunner
from amplifier_kit.children.tasks import Tasks

__all__ = ["CHILDREN", "Children", "children_of", "open_children"]

CHILDREN = "session.children"

Children = Tasks | RemoteTasks


def children_of(coordinator: ModuleCoordinator) -> Children:
    """Return the children of a session, under the default limits if no module has set any."""
    known: Children | None = coordinator.get_capability(CHILDREN)
    if known is not None:
        return known
    children, close = open_children(coordinator, ChildrenConfig())
    coordinator.register_cleanup(close)
    return children


def open_children(
    coordinator: ModuleCoordinator, config: ChildrenConfig
) -> tuple[Children, Callable[[], Awaitable[None]]]:
    """Create the object for the children of a session under these limits, with its cleanup.

    Without a `task.runner` they are forks in this process, and end with the session.
    """
    coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
    runner: TaskRunner | None = coordinator.get_capability(RUNNER)
    if runner is not None:
        remote = RemoteTasks(coordinator, config, runner)
        coordinator.register_capability(CHILDREN, remote)
        return remote, _nothing
    earlier: Children | None = coordinator.get_capability(CHILDREN)
    tasks = Tasks(coordinator, config)
    # Children may have been started under the default limits before a module sets its own.
    if isinstance(earlier, Tasks):
        tasks.count_on(earlier)
    coordinator.register_capability(CHILDREN, tasks)
    coordinator.register_contributor("session.cost", NAME, tasks.cost)
    # Not a cleanup: children share the guards of this session, which cleanups remove.
    undo = coordinator.hooks.register(events.SESSION_END, tasks.end_with_session, name=NAME)

    async def close() -> None:
        await tasks.close()
        undo()

    return tasks, close


async def _nothing() -> None:
    """Children that run elsewhere do not end with this process."""
