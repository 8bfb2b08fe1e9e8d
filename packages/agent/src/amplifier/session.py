"""An open conversation: run a turn, or stream its events."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, Literal, TypeAlias, overload

from pydantic import TypeAdapter
from typing_extensions import TypeVar

from amplifier.content import Prompt, content_of
from amplifier.errors import OutputError, check_option
from amplifier.events import (
    Done,
    Event,
    Question,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
)
from amplifier.finish import finish
from amplifier.totals import HEARD, Totals, typed
from amplifier_core import events
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.session import AmplifierSession
from amplifier_kit import turn_events
from amplifier_kit.calls import block_stream

__all__ = ["LoggedMessages", "Questions", "Session"]

logger: logging.Logger = logging.getLogger("amplifier")

OutputT = TypeVar("OutputT", default=str)
TurnT = TypeVar("TurnT")
Execute: TypeAlias = Callable[[str | list[dict[str, Any]]], Awaitable[str]]
# After every hook that may change or deny what is announced.
_LAST = 1_000_000
_NAME = "agent"
_AGAIN = "Your answer does not fit: {}. Answer again, with all of it and nothing else."
# A tool may ignore its cancellation; a stream that is left does not wait for it forever.
_END_SECONDS = 10.0


class LoggedMessages:
    """Logs what modules tell the user: a program decides itself what it shows."""

    def show_message(
        self, message: str, level: Literal["info", "warning", "error"], source: str = "hook"
    ) -> None:
        """Log it under the name `amplifier`."""
        logger.log(_LEVELS[level], "%s: %s", source, message)


_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Questions:
    """Asks whoever reads the stream; without one, a question is not answered."""

    # Leaving the stream cancels the turn, so that guards need not set a limit.
    waits_for_user = True

    def __init__(self) -> None:
        self.put: Callable[[Question], None] | None = None

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Put a question into the stream and wait for its answer.

        Raises:
            ApprovalTimeoutError: nobody reads the stream, or nobody answered in time.
        """
        if self.put is None:
            raise ApprovalTimeoutError("Nobody reads the stream of this turn.")
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def answer(option: str) -> None:
            check_option(option, options)
            if not answered.done():
                answered.set_result(option)

        self.put(Question(prompt, tuple(options), answer))
        try:
            async with asyncio.timeout(timeout if math.isfinite(timeout) else None):
                return await answered
        except TimeoutError:
            raise ApprovalTimeoutError("Nobody answered in time.") from None


class Session(Generic[OutputT]):
    """A conversation. Its turns run one after another; `kernel` is the session below it."""

    def __init__(
        self,
        kernel: AmplifierSession,
        execute: Execute,
        questions: Questions,
        output: TypeAdapter[OutputT] | None,
    ) -> None:
        self.kernel = kernel
        self._execute = execute
        self._questions = questions
        self._output = output
        # The turn of the last stream, and a lock for whoever ends it.
        self._streaming: asyncio.Task[None] | None = None
        self._ending = asyncio.Lock()

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.kernel.session_id

    async def messages(self) -> list[dict[str, Any]]:
        """Return the conversation so far, without the instructions."""
        context: Any = self.kernel.coordinator.get("context")
        return await context.get_messages()

    @overload
    async def run(self, prompt: Prompt) -> Done[OutputT]: ...

    @overload
    async def run(self, prompt: Prompt, *, output: type[TurnT]) -> Done[TurnT]: ...

    async def run(self, prompt: Prompt, *, output: type[Any] | None = None) -> Done[Any]:
        """Run one turn. Questions are not answered, which denies what was asked about.

        With `output` the answer of this turn is JSON that fits this type.
        """
        await self._end(self._streaming)
        totals = Totals()
        stop_listening = self._listen(totals, None)
        try:
            return await self._turn(prompt, output, totals)
        finally:
            stop_listening()

    @overload
    def stream(self, prompt: Prompt) -> AsyncGenerator[Event[OutputT]]: ...

    @overload
    def stream(self, prompt: Prompt, *, output: type[TurnT]) -> AsyncGenerator[Event[TurnT]]: ...

    async def stream(
        self, prompt: Prompt, *, output: type[Any] | None = None
    ) -> AsyncGenerator[Event[Any]]:
        """Run one turn and yield what happens; the last event is `Done`.

        Leaving the loop cancels the turn. What was said until then stays in the conversation.
        """
        # A loop that was left by `break` closes its stream when Python collects it, which may be
        # after the next turn has begun.
        await self._end(self._streaming)
        queue: asyncio.Queue[Event[Any] | BaseException] = asyncio.Queue()
        put = queue.put_nowait
        totals = Totals()
        stop_listening = self._listen(totals, put)
        self._questions.put = put

        async def turn() -> None:
            try:
                queue.put_nowait(await self._turn(prompt, output, totals))
            except BaseException as error:  # noqa: BLE001 - raised by the stream
                queue.put_nowait(error)

        running = asyncio.create_task(turn())
        self._streaming = running
        try:
            while True:
                event = await queue.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if isinstance(event, Done):
                    return
        finally:
            if self._questions.put is put:
                self._questions.put = None
            await finish(self._end(running))
            stop_listening()

    async def _turn(self, prompt: Prompt, output: type[Any] | None, totals: Totals) -> Done[Any]:
        adapter = self._output if output is None else TypeAdapter[Any](output)
        schema = None if output is None or adapter is None else adapter.json_schema()
        coordinator = self.kernel.coordinator
        coordinator.register_capability(turn_events.OUTPUT_SCHEMA, schema)
        try:
            answer = await self._execute(content_of(prompt))
            try:
                made = typed(adapter, answer, totals)
            except OutputError as error:
                if error.stop_reason != "completed":
                    raise
                # The schema holds, but not what only the type can check.
                answer = await self._execute(_AGAIN.format(error.problems))
                made = typed(adapter, answer, totals)
        finally:
            coordinator.register_capability(turn_events.OUTPUT_SCHEMA, None)
        return Done(made, totals.usage, totals.cost, totals.stop_reason, text=answer)

    async def _end(self, running: asyncio.Task[None] | None) -> None:
        """Cancel a turn that still runs, and wait for its end."""
        if running is None:
            return
        async with self._ending:
            if running.done():
                return
            coordinator = self.kernel.coordinator
            await coordinator.request_cancel(True)
            await asyncio.wait({running}, timeout=_END_SECONDS)
            if not running.done():
                logger.warning(
                    "turn does not end after its cancellation session=%s", self.session_id
                )
                running.cancel()
            coordinator.cancellation.reset()

    def _listen(self, totals: Totals, put: Callable[[Any], None] | None) -> Callable[[], None]:
        """Collect the totals of a turn, and pass its events to `put`."""

        async def hear(event: str, data: dict[str, Any]) -> None:
            totals.hear(event, data)
            made = _event_of(event, data)
            if made is not None and put is not None:
                put(made)

        hooks = self.kernel.coordinator.hooks
        undo = [hooks.register(name, hear, priority=_LAST, name=_NAME) for name in _HEARD]

        def stop_listening() -> None:
            for each in undo:
                each()

        return stop_listening


_HEARD = (
    *HEARD,
    block_stream.BLOCK_DELTA,
    events.TOOL_PRE,
    events.TOOL_POST,
    events.TOOL_ERROR,
    turn_events.TOOL_DENIED,
)


def _event_of(event: str, data: dict[str, Any]) -> Event[Any] | None:
    match event:
        case block_stream.BLOCK_DELTA if data.get("block_type") == "thinking":
            return ThinkingDelta(str(data["text"]))
        case block_stream.BLOCK_DELTA:
            return TextDelta(str(data["text"]))
        case events.TOOL_PRE:
            return ToolStarted(
                str(data["tool_name"]), data["tool_input"], str(data.get("tool_call_id"))
            )
        case events.TOOL_POST:
            return _ended(data)
        case events.TOOL_ERROR:
            return ToolEnded(
                str(data["tool_name"]), None, str(data.get("error")), str(data.get("tool_call_id"))
            )
        case turn_events.TOOL_DENIED:
            return ToolEnded(
                str(data["tool_name"]), None, str(data.get("reason")), str(data.get("tool_call_id"))
            )
        case _:
            return None


def _ended(data: dict[str, Any]) -> ToolEnded:
    """Return the end of a call; published loops give its result as text, ours as data."""
    result: Any = data.get("result")
    name, call_id = str(data["tool_name"]), str(data.get("tool_call_id"))
    match result:
        case {"success": False}:
            facts: Any = result.get("error") or {}
            return ToolEnded(name, None, str(facts.get("message") or "It failed."), call_id)
        case {"output": output}:
            return ToolEnded(name, output, None, call_id)
        case _:
            return ToolEnded(name, result, None, call_id)
