"""The session's cancellation token: a request to stop, which can only become more urgent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

from amplifier_core._tasks import is_being_cancelled, maybe_await

__all__ = ["CancellationState", "CancellationToken"]

logger: logging.Logger = logging.getLogger(__name__)


class CancellationState(StrEnum):
    """How urgently the session was asked to stop."""

    NONE = "none"
    GRACEFUL = "graceful"
    IMMEDIATE = "immediate"


_STRENGTH = {state: rank for rank, state in enumerate(CancellationState)}


class CancellationToken:
    """Passes a stop request to code that polls it, to child tokens and to interrupt callbacks.

    Graceful means: finish the running step, then stop. Immediate also interrupts what is running
    (`add_interrupt`). A request reaches children, never parents, and is only undone by `reset`.
    """

    # The strongest request so far; equal to its plain string.
    state: CancellationState = CancellationState.NONE

    def __init__(self) -> None:
        self._running: dict[str, str] = {}
        self._children: list[CancellationToken] = []
        self._callbacks: list[Callable[[], object]] = []
        self._interrupts: list[Callable[[], object]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether any stop was requested."""
        return self.state is not CancellationState.NONE

    @property
    def is_graceful(self) -> bool:
        """Whether the request is graceful, and not immediate."""
        return self.state is CancellationState.GRACEFUL

    @property
    def is_immediate(self) -> bool:
        """Whether running work is to be interrupted."""
        return self.state is CancellationState.IMMEDIATE

    def request_graceful(self) -> bool:
        """Ask to stop after the running step; return whether this changed the state."""
        return self._strengthen(CancellationState.GRACEFUL)

    def request_immediate(self) -> bool:
        """Ask to stop now; return whether this changed the state."""
        return self._strengthen(CancellationState.IMMEDIATE)

    def request_cancellation(self) -> None:
        """Ask to stop gracefully."""
        self.request_graceful()

    def reset(self) -> None:
        """Forget the request and the running tools; children and callbacks stay as they are."""
        self.state = CancellationState.NONE
        self._running.clear()

    def register_tool_start(self, call_id: str, name: str) -> None:
        """Note that a tool call is running."""
        self._running[call_id] = name

    def register_tool_complete(self, call_id: str) -> None:
        """Note that a tool call ended; unknown ids are ignored."""
        self._running.pop(call_id, None)

    @property
    def running_tools(self) -> set[str]:
        """The ids of the tool calls running now."""
        return set(self._running)

    @property
    def running_tool_names(self) -> list[str]:
        """The names of the tools running now, one per call."""
        return list(self._running.values())

    def register_child(self, child: CancellationToken) -> None:
        """Pass this token's present and future requests on to `child`."""
        self._children.append(child)
        if self.is_cancelled:
            child._strengthen(self.state)

    def unregister_child(self, child: CancellationToken) -> None:
        """Stop passing requests on to `child`."""
        self._children = [each for each in self._children if each is not child]

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Add a callback, sync or async, for `trigger_callbacks`."""
        self._callbacks.append(callback)

    def add_interrupt(self, interrupt: Callable[[], object]) -> None:
        """Call `interrupt` immediately whenever an immediate stop is requested."""
        self._interrupts.append(interrupt)

    def remove_interrupt(self, interrupt: Callable[[], object]) -> None:
        """Undo `add_interrupt`."""
        self._interrupts = [each for each in self._interrupts if each is not interrupt]

    async def trigger_callbacks(self) -> None:
        """Run every `on_cancel` callback in order; failures are logged and do not stop the rest.

        KeyboardInterrupt, SystemExit and a cancellation of the caller are raised after all ran.
        """
        fatal: BaseException | None = None
        for callback in list(self._callbacks):
            try:
                await maybe_await(callback())
            except Exception:
                logger.exception("cancel callback failed callback=%r", callback)
            except BaseException as error:  # noqa: BLE001 - kept and raised below, after the rest
                if isinstance(error, asyncio.CancelledError) and not is_being_cancelled():
                    logger.warning("cancel callback was cancelled callback=%r", callback)
                else:
                    fatal = fatal or error
        if fatal is not None:
            raise fatal

    def _strengthen(self, state: CancellationState) -> bool:
        changed = _STRENGTH[state] > _STRENGTH[self.state]
        if changed:
            self.state = state
            if state is CancellationState.IMMEDIATE:
                for interrupt in list(self._interrupts):
                    interrupt()
        for child in list(self._children):
            child._strengthen(state)
        return changed
