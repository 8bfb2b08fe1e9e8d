"""Which session and which recorded call the running code belongs to."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Frame:
    """A turn of one recorder, or a model or tool call in it; `outer` is where it was made."""

    __slots__ = ("call", "outer", "recorder")

    def __init__(self, recorder: Any, call: str | None, outer: Frame | None) -> None:
        self.recorder = recorder
        self.call = call
        self.outer = outer


_frame: ContextVar[Frame | None] = ContextVar("amplifier_recorded_frame", default=None)
# The loop announces a call and executes it in one task; a tool itself is not told its id.
_announced: ContextVar[tuple[str, str] | None] = ContextVar("amplifier_announced", default=None)


@contextmanager
def entered(recorder: Any, call: str | None) -> Generator[None]:
    """Let what runs inside belong to `recorder`, and to its `call` if there is one."""
    outer = _frame.get()
    _frame.set(Frame(recorder, call, outer))
    try:
        yield
    finally:
        _frame.set(outer)


def current_recorder(default: Any) -> Any:
    """Return the recorder of the session whose turn runs here."""
    frame = _frame.get()
    return default if frame is None else frame.recorder


def call_of(recorder: Any) -> str | None:
    """Return the innermost open call of `recorder` that the running code is inside of."""
    frame = _frame.get()
    while frame is not None:
        if frame.recorder is recorder and frame.call is not None:
            return frame.call
        frame = frame.outer
    return None


def announce(tool_name: str, tool_call_id: str) -> None:
    """Note which call of a tool comes next in this task."""
    _announced.set((tool_name, tool_call_id))


def announced_call() -> str | None:
    """Return the id of the call that was announced in this task and has not begun."""
    announced = _announced.get()
    return None if announced is None else announced[1]


def announced_id(tool_name: str) -> str | None:
    """Return the id of the announced call of this tool, once."""
    announced = _announced.get()
    if announced is None or announced[0] != tool_name:
        return None
    _announced.set(None)
    return announced[1]
