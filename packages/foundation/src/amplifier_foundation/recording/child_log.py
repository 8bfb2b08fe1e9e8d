"""The log of a child session, and how an app makes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_foundation.reading.state import SessionState
from amplifier_foundation.recording.log import LogWriter
from amplifier_kit.secrets.messages import MessageScrubber

if TYPE_CHECKING:
    from amplifier_foundation.recording.recorder import Recorder

__all__ = ["ChildLog", "OpenChild"]


class ChildLog(NamedTuple):
    """The log of a child session, and what to do with it when the child has ended.

    `before` is where the child stood when it was resumed; a new one has an empty state.
    """

    writer: LogWriter
    close: Callable[[Recorder], Awaitable[None]]
    before: SessionState


OpenChild = Callable[["Recorder", Any, MessageScrubber], ChildLog]
"""Makes the log of a child session; takes its parent's recorder, its coordinator and the scrubber
that its records have to pass."""
