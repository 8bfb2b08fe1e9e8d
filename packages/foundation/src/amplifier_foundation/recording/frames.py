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
