"""A child session with its own plan, which inherits from its parent what a fork does."""

from __future__ import annotations

from typing import Any

from amplifier_core.session import AmplifierSession

__all__ = ["child_session", "inherit"]


def child_session(
    parent: AmplifierSession, plan: dict[str, Any], *, session_id: str, is_resumed: bool = False
) -> AmplifierSession:
    """Return a child of `parent`, still to be initialized.

    A fork's overlay can only add agents and modules to the plan of the parent; here the whole plan
    is given.
    """
    mine = parent.coordinator
    child = AmplifierSession(
        plan,
        session_id=session_id,
        parent_id=parent.session_id,
        approval_system=mine.approval_system,
        display_system=mine.display_system,
        is_resumed=is_resumed,
    )
    inherit(child, parent)
    token = child.coordinator.cancellation
    child.coordinator.register_cleanup(lambda: mine.cancellation.unregister_child(token))
    return child


def inherit(session: AmplifierSession, parent: AmplifierSession) -> None:
    """Hand down to a session what a fork of `parent` inherits."""
    mine = parent.coordinator
    theirs = session.coordinator
    theirs.hooks.inherit_guards(mine.hooks)
    for each in mine.interposers:
        if each.inherit:
            theirs.interpose(
                each.mount_point, each.wrap, name=each.name, priority=each.priority, inherit=True
            )
    resolver = mine.mount_points["module-source-resolver"]
    if resolver is not None:
        _ = theirs.mount("module-source-resolver", resolver)
    mine.cancellation.register_child(theirs.cancellation)
