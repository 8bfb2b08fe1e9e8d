"""Tasks that begin at once: work that never has to wait costs no round of the event loop."""

from __future__ import annotations

import asyncio
import contextvars

# Documented for those who extend asyncio; Python 3.12 has such tasks of its own.
from asyncio.tasks import _enter_task, _leave_task  # pyright: ignore[reportPrivateUsage] - see above
from collections.abc import Coroutine
from typing import Any

Work = Coroutine[Any, Any, None]

_NOTHING: Any = object()


class Starter:
    """Starts work in tasks of its own.

    A task whose work was done at once is used again until the event loop comes round to it, so
    pieces of work that never wait may share a task. They share no context: each has that of
    whoever starts it.
    """

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: _Rest | None = None

    def start(self, work: Work) -> asyncio.Task[None] | None:
        """Run `work` up to its first wait, in a task; None when it is done by then.

        What it raises comes out of the task, also when it is raised before the first wait.
        """
        loop = asyncio.get_running_loop()
        rest = self._spare
        if rest is None or not rest.is_free(loop):
            rest = _Rest(loop)
        self._spare = None
        task = rest.task
        caller: Any = asyncio.current_task(loop)
        _leave_task(loop, caller)
        _enter_task(loop, task)
        try:
            rest.keep(work, rest.context.run(work.send, None))
        except StopIteration:
            self._spare = rest
            return None
        except BaseException as error:  # noqa: BLE001 - the task raises it
            rest.keep(work, error=error)
        finally:
            _leave_task(loop, task)
            _enter_task(loop, caller)
        return task


class _Rest(Coroutine[Any, Any, None]):
    """What is left of some work behind its first step, as a coroutine for the task it began in."""

    __slots__ = ("_awaited", "_error", "_is_idle", "_loop", "_work", "context", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.context = contextvars.copy_context()
        self.task: asyncio.Task[None] = loop.create_task(self, context=self.context)
        self._is_idle = True
        self._work: Work | None = None
        self._awaited = _NOTHING
        self._error: BaseException | None = None

    def is_free(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the task still waits for its first turn, in the caller's loop and context."""
        is_idle = self._is_idle and self._loop is loop and not self.task.cancelling()
        return is_idle and self._has_the_context_of_the_caller()

    def _has_the_context_of_the_caller(self) -> bool:
        # A task cannot be given another context. What was set since, by the caller or by the work
        # before, would be missing there or too much.
        now = contextvars.copy_context()
        own = self.context
        return len(now) == len(own) and all(own.get(key) is value for key, value in now.items())

    def keep(self, work: Work, awaited: Any = _NOTHING, error: BaseException | None = None) -> None:
        """Take over `work` behind its first step, which waits for something or failed."""
        self._work = work
        self._awaited = awaited
        self._error = error
        self._is_idle = False

    def send(self, value: Any) -> Any:
        """Hand the task what the first step waits for; from then on, go on."""
        if self._work is None:
            self._is_idle = False
            raise StopIteration
        if self._error is not None:
            raise self._error
        if self._awaited is _NOTHING:
            return self._work.send(value)
        awaited = self._awaited
        self._awaited = _NOTHING
        return awaited

    def throw(self, *error: Any) -> Any:
        """Raise inside the work, where it waits."""
        awaited = self._awaited
        self._awaited = _NOTHING
        if isinstance(awaited, asyncio.Future):
            # The task has not seen it yet, so it cannot have cancelled it.
            awaited.cancel()
        if self._work is None or self._error is not None:
            raise self._error or error[0]
        return self._work.throw(*error)

    def close(self) -> None:
        """End the work."""
        if self._work is not None:
            self._work.close()

    def __await__(self) -> Any:
        return self
