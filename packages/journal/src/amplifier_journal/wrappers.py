"""Wrappers of the modules of a recorded session, and tracking of the running call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Protocol

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.correlation import claim_tool_call, current_tool_call_id
from amplifier_core.interfaces import accepts
from amplifier_journal.plain import digest_of, plain, plain_model
from amplifier_journal.proxy import Proxy
from amplifier_kit.questions import PREVIEW, Asking, Reply
from amplifier_kit.tools import execute_tool
from amplifier_kit.valid_text import valid
from amplifier_kit.widenings import QUESTIONS


class Frame:
    """A turn of one recorder, or a call in it; `outer` is the frame in which it was made."""

    __slots__ = ("call", "outer", "recorder")

    def __init__(self, recorder: Any, call: str | None, outer: Frame | None) -> None:
        self.recorder = recorder
        self.call = call
        self.outer = outer


_frame: ContextVar[Frame | None] = ContextVar("amplifier_recorded_frame", default=None)


@contextmanager
def entered(recorder: Any, call: str | None) -> Generator[None]:
    """Attribute what runs inside to `recorder`, and to its `call` if there is one."""
    outer = _frame.get()
    _frame.set(Frame(recorder, call, outer))
    try:
        yield
    finally:
        _frame.set(outer)


def current_recorder(default: Any) -> Any:
    """Return the recorder of the session whose turn runs here."""
    frame = _frame.get()
    if frame is None:
        return default
    return frame.recorder


def call_of(recorder: Any) -> str | None:
    """Return the innermost call of `recorder` that the running code is inside of, or None."""
    frame = _frame.get()
    while frame is not None:
        if frame.recorder is recorder and frame.call is not None:
            return frame.call
        frame = frame.outer
    return None


class Notes(Protocol):
    """The methods of a recorder that wrappers use; a protocol, because it imports this file."""

    def note(self, kind: str, data: dict[str, Any]) -> None: ...

    async def note_message(self, message: dict[str, Any]) -> None: ...

    async def note_messages(self, messages: list[dict[str, Any]]) -> None: ...

    def note_count(self, provider: str, tokens: Any) -> None: ...

    async def begin_model_call(
        self, name: str, provider: Any, request: Any, options: dict[str, Any]
    ) -> Any: ...

    async def begin_tool_call(
        self, name: str, tool: Any, tool_call_id: str | None, given: dict[str, Any]
    ) -> Any: ...

    async def end_call(
        self, call: Any, error: BaseException | None = None, **outcome: Any
    ) -> None: ...

    async def begin_turn(self, prompt: str) -> bool: ...

    async def end_turn(self, answer: str | None, error: BaseException | None) -> None: ...

    async def of(self, coordinator: Any) -> Notes: ...


class _Recorded(Proxy):
    """A module of a recorded session."""

    __slots__ = ("_name", "_recorder")

    def __init__(self, name: str, inner: Any, recorder: Notes) -> None:
        super().__init__(inner)
        self._name = name
        self._recorder = recorder


class RecordedContext(_Recorded):
    """A context whose changes are recorded after they took effect: a refused one is not."""

    __slots__ = ()

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append one message."""
        message = valid(message)
        await self._inner.add_message(message)
        await self._recorder.note_message(message)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace everything that is stored."""
        await self._inner.set_messages(valid(messages))
        # Read back: a context may store other messages than it was given.
        await self._recorder.note_messages(await self._inner.get_messages())

    async def clear(self) -> None:
        """Delete all messages."""
        await self._inner.clear()
        await self._recorder.note_messages([])


class RecordedProvider(_Recorded):
    """A provider whose calls are recorded; no call is made if its request cannot be written."""

    __slots__ = ()

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Call the model once."""
        recorder = self._recorder
        call = await recorder.begin_model_call(self._name, self._inner, request, kwargs)
        try:
            with entered(recorder, call.id):
                response = valid(await self._inner.complete(request, **kwargs))
        # Cancellations too: a call without a result counts as one in which the process died.
        except BaseException as error:
            await recorder.end_call(call, error=error)
            raise
        await recorder.end_call(call, response=plain_model(response))
        return response

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "count_tokens" and callable(found):
            return self._counting(found)
        if name == "stream" and callable(found):
            return self._streaming(found)
        return found

    def _counting(self, count: Callable[..., Any]) -> Callable[..., Any]:
        async def count_tokens(request: Any, **kwargs: Any) -> Any:
            tokens = await count(request, **kwargs)
            self._recorder.note_count(self._name, tokens)
            return tokens

        return count_tokens

    def _streaming(self, stream: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        # With the signature of `stream`, by which loops see the keywords it accepts.
        @functools.wraps(stream)
        async def chunks(request: Any, **kwargs: Any) -> AsyncIterator[Any]:
            recorder = self._recorder
            seen = list[Any]()
            call = await recorder.begin_model_call(self._name, self._inner, request, kwargs)
            try:
                async for chunk in stream(request, **kwargs):
                    # Not passed through `valid`: a chunk may end in half of a surrogate pair.
                    seen.append(plain(chunk))
                    yield chunk
            except BaseException as error:
                await recorder.end_call(call, error=error)
                raise
            await recorder.end_call(call, chunks=seen)

        return chunks


class RecordedTool(_Recorded):
    """A tool whose runs are recorded; it is not run if its input cannot be written."""

    __slots__ = ()

    async def execute(self, input: dict[str, Any]) -> Any:  # noqa: A002 - contract name
        """Run once."""
        recorder = self._recorder
        name = self._name
        call_id = claim_tool_call(name, by="recorder")
        call = await recorder.begin_tool_call(name, self._inner, call_id, input)
        try:
            with entered(recorder, call.id):
                result = valid(await execute_tool(self._inner, input))
        # Cancellations too, as for models.
        except BaseException as error:
            await recorder.end_call(call, error=error)
            raise
        await recorder.end_call(call, result=plain_model(result))
        return result

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "preflight" and callable(found):
            return self._looking(found)
        if name == "widenings" and callable(found):
            return self._widening(found)
        if name == "call_scopes" and callable(found):
            return self._scoping(found)
        if name == PREVIEW and callable(found):
            return self._previewing(found)
        if name in QUESTIONS and callable(found):
            return self._telling(name, found)
        return found

    def _widening(self, widenings: Callable[..., Any]) -> Callable[..., Any]:
        async def tell(given: Any) -> Any:
            found = await widenings(given)
            self._note_answer("widenings", given, [each.record() for each in found])
            return found

        return tell

    def _scoping(self, call_scopes: Callable[..., Any]) -> Callable[..., Any]:
        def tell(given: Any) -> Any:
            found = call_scopes(given)
            self._note_answer("call_scopes", given, [each.record() for each in found])
            return found

        return tell

    def _previewing(self, preview: Callable[..., Any]) -> Callable[..., Any]:
        async def show(given: Any) -> Any:
            made = await preview(given)
            self._note_answer(PREVIEW, given, made and made.record())
            return made

        return show

    def _telling(self, question: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def tell(given: Any) -> Any:
            said = answer(given)
            self._note_answer(question, given, said is True)
            return said

        return tell

    def _note_answer(self, question: str, given: Any, answer: Any) -> None:
        """Record what a tool tells guards about a call; nothing is the usual answer."""
        if answer:
            asked = {"tool": self._name, "input": digest_of(plain(given)), "question": question}
            self._recorder.note("tool.answer", {**asked, "answer": answer})

    def _looking(self, look: Callable[..., Any]) -> Callable[..., Any]:
        async def preflight(given: dict[str, Any]) -> Any:
            said = look(given)
            if inspect.isawaitable(said):
                said = await said
            problem = said if isinstance(said, str) else None
            asked = {"tool": self._name, "input": digest_of(plain(given))}
            self._recorder.note("tool.preflight", {**asked, "problem": problem})
            return said

        return preflight


class RecordedLoop(_Recorded):
    """A loop whose turns are recorded in the log of the session that runs it."""

    __slots__ = ()

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, **kwargs: Any
    ) -> str:
        """Run one turn."""
        coordinator = kwargs.get("coordinator")
        recorder = await self._recorder.of(coordinator)
        around = {"context": context, "providers": providers, "tools": tools}
        if recorder is not self._recorder:
            # A child's modules were read before its recorder was interposed.
            around = {name: coordinator.get(name) for name in around}  # pyright: ignore[reportOptionalMemberAccess] - a child has one
        if not accepts(self._inner.execute, "coordinator"):
            kwargs.pop("coordinator", None)
        # The app that has begun the turn, before its session was called, ends it as well.
        is_own = await recorder.begin_turn(prompt)
        answer = error = None
        try:
            with entered(recorder, None):
                answer = await self._inner.execute(prompt=prompt, hooks=hooks, **around, **kwargs)
            return answer
        except BaseException as raised:
            error = raised
            raise
        finally:
            if is_own:
                await recorder.end_turn(answer, error)


def question(prompt: str, options: list[str], default: Any) -> dict[str, Any]:
    """Return the data of a question's record, which is written before the user is asked."""
    return {
        "prompt": prompt,
        "options": list(options),
        "default": default,
        "tool_call_id": current_tool_call_id(),
    }


class RecordedApprovals:
    """Asks through the app's approval system, and records questions and answers.

    An approval system that knows more, such as who answered, sets `records_itself` and is not
    wrapped.
    """

    def __init__(self, inner: Any, recorder: Notes) -> None:
        self.inner = inner
        self._recorder = recorder

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Any
    ) -> str:
        """Ask, and return the answer."""

        async def ask() -> Reply:
            return Reply(await self.inner.request_approval(prompt, options, timeout, default))

        return (await self._record(question(prompt, options, default), ask)).option

    async def _request_reply(self, asking: Asking) -> Reply:
        """Ask, and return the reply."""

        async def ask() -> Reply:
            return await self.inner.request_reply(asking)

        asked = question(asking.prompt, list(asking.options), asking.default)
        return await self._record(asked, ask)

    async def _record(self, asked: dict[str, Any], ask: Callable[[], Awaitable[Reply]]) -> Reply:
        recorder: Notes = current_recorder(self._recorder)
        recorder.note("approval.asked", asked)
        began = perf_counter()
        reply = Reply("error")
        try:
            reply = await ask()
            return reply
        except ApprovalTimeoutError:
            reply = Reply("timeout")
            raise
        finally:
            answered = {
                "decision": reply.option,
                "by": None if reply.option == "error" else "user",
                **({"reason": reply.reason} if reply.reason else {}),
                **({} if reply.edited is None else {"edited": reply.edited}),
            }
            seconds = round(perf_counter() - began, 6)
            recorder.note("approval", {**asked, **answered, "seconds": seconds})

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        # Only if the app's system has it: guards ask in another way without.
        return self._request_reply if name == "request_reply" else found


class RecordedDisplay:
    """Shows through the app's display system, and records what is shown."""

    def __init__(self, inner: Any, recorder: Notes) -> None:
        self.inner = inner
        self._recorder = recorder

    def show_message(self, message: str, level: Any, source: str = "hook") -> Any:
        """Show it."""
        recorder: Notes = current_recorder(self._recorder)
        recorder.note("display", {"message": message, "level": level, "source": source})
        return self.inner.show_message(message, level, source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
