"""Wraps the providers and tools of a durable turn, so that their calls are journaled."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from amplifier_core.effects import declaration_of
from amplifier_core.message_models import ChatResponse
from amplifier_core.models import ToolResult
from amplifier_journal.plain import build_error, plain, plain_error
from amplifier_journal.proxy import Proxy
from amplifier_kit.notices import show
from amplifier_kit.tools import execute_tool
from amplifier_kit.valid_text import valid
from amplifier_runtime.turns.journal import ModelCall, call_digest, inside, kept_model, scope
from amplifier_runtime.turns.turn_run import RESUMED, TurnRun

OUTCOME_UNKNOWN = "tool:outcome_unknown"
_SAID = (
    "Outcome unknown: the worker was lost while `{name}` ran. The call may or may not have taken "
    "effect, and it was not repeated. Check before you call it again."
)


async def perform(run: TurnRun, key: str, name: str, tool: Any, given: dict[str, Any]) -> Any:
    """Run a tool whose outcome is not in the journal, and journal it.

    An `unsafe` tool is run only after its intent is durable. If an earlier run left an intent
    without an outcome, the tool is not run: the outcome is unknown, and that is journaled.
    """
    is_unsafe = not _may_repeat(run, name, tool)
    if is_unsafe:
        if run.journal.get(f"{key}:started") is not None:
            return await _unknown(run, key, name)
        await run.write(f"{key}:started", {"token": run.token, "tool": name})
        # A worker that was paused during the write may have been declared dead. Another one then
        # reports the call as lost, so that this one must not begin it when it wakes up.
        await run.ensure_not_fenced()
    try:
        with inside(f"{key}/", is_unsafe=is_unsafe):
            result = valid(await execute_tool(tool, given))
    except Exception as error:
        # An error is an outcome too: a later run raises it again instead of running the tool.
        await run.write(key, {"error": plain_error(error)})
        raise
    outcome = _plain_result(result)
    await run.write(key, outcome)
    # What the loop reads now is what it would read after a crash.
    return restore_result(outcome)


def _may_repeat(run: TurnRun, name: str, tool: Any) -> bool:
    """Whether a call may be run again: declared by its tool, or by the plan for that tool."""
    if declaration_of(tool).effect != "unsafe":
        return True
    entries: list[dict[str, Any]] = run.session.config.get("tools") or []
    return any(name in (each.get("repeatable") or ()) for each in entries)


def restore_result(outcome: dict[str, Any]) -> Any:
    """Return the result that was journaled, or raise the error."""
    if "error" in outcome:
        raise build_error(outcome["error"])
    result = outcome["result"]
    if outcome["is_tool_result"]:
        return ToolResult.model_validate(result)
    return result


def _plain_result(result: Any) -> dict[str, Any]:
    if isinstance(result, ToolResult):
        return {"result": kept_model(result), "is_tool_result": True}
    return {"result": plain(result), "is_tool_result": False}


async def _unknown(run: TurnRun, key: str, name: str) -> Any:
    said = _SAID.format(name=name)
    result = ToolResult(success=False, output=said, error={"message": said, "kind": "unknown"})
    outcome = {**_plain_result(result), "is_unknown": True}
    coordinator = run.session.coordinator
    line = f"The outcome of `{name}` is unknown: its worker was lost. It was not run again."
    show(coordinator, line, source="runtime")
    await coordinator.hooks.emit(OUTCOME_UNKNOWN, {"tool_name": name, "key": key})
    # Last: once it is journaled, no later run gets here to announce it.
    await run.write(key, outcome)
    return restore_result(outcome)


DIVERGED = "turn:diverged"
NAME = "runtime"
# Innermost: the journal stores what the module really returned, and all other interposers see the
# same whether a call was made or answered from the journal.
_INNERMOST = sys.maxsize
_MODEL = "llm:"


def install_durable_steps(run: TurnRun) -> None:
    """Make every model and tool call of the run's session, and of its children, a durable step."""
    coordinator = run.session.coordinator
    wrappers: tuple[tuple[str, Any], ...] = (("providers", _Provider), ("tools", _Tool))
    for point, wrapper in wrappers:
        # `wrapper` is bound as a default: a closure would see the last one of the loop.
        def wrap(name: str, module: Any, wrapper: Any = wrapper) -> Any:
            return wrapper(name, module, run)

        coordinator.interpose(point, wrap, name=NAME, priority=_INNERMOST, inherit=True)
    known = [OUTCOME_UNKNOWN, DIVERGED, RESUMED]
    coordinator.register_contributor("observability.events", NAME, known.copy)


class _Step(Proxy):
    """A module whose calls are steps of a durable turn."""

    __slots__ = ("_name", "_run")

    def __init__(self, name: str, inner: Any, run: TurnRun) -> None:
        super().__init__(inner)
        self._name = name
        self._run = run


class _Tool(_Step):
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "preflight":
            # After a crash it would check a state that the call itself has changed.
            raise AttributeError(name)
        return super().__getattr__(name)

    async def execute(self, input: dict[str, Any]) -> Any:  # noqa: A002 - contract name
        run = self._run
        run.check()
        key = run.journal.tool_key(self._name, input)
        kept = run.journal.get(key)
        if kept is not None:
            return restore_result(kept)
        async with run.admit_call():
            return await perform(run, key, self._name, self._inner, input)


class _Provider(_Step):
    __slots__ = ()

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        run = self._run
        run.check()
        if _is_inside_model_call():
            return await self._inner.complete(request, **kwargs)
        call = run.journal.model_call(call_digest(self._name, request, kwargs))
        if call.kept is not None:
            return ChatResponse.model_validate(_outcome(call.kept)["response"])
        async with run.admit_call():
            await _tell_divergence(run, call)
            await run.ensure_not_fenced()
            try:
                with inside(f"{call.key}/"):
                    response = valid(await self._inner.complete(request, **kwargs))
            except Exception as error:
                await run.write(call.key, {**call.facts, "outcome": {"error": plain_error(error)}})
                raise
            if isinstance(response, ChatResponse):
                kept = kept_model(response)
            else:
                kept = plain(response)
            await run.write(call.key, {**call.facts, "outcome": {"response": kept}})
            return response

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "stream" and callable(found):
            return self._streaming(found)
        return found

    def _streaming(self, stream: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        # With the signature of `stream`, by which loops see the keywords it accepts.
        @functools.wraps(stream)
        async def chunks(request: Any, **kwargs: Any) -> AsyncIterator[Any]:
            run = self._run
            seen = list[Any]()
            run.check()
            if _is_inside_model_call():
                async for chunk in stream(request, **kwargs):
                    yield chunk
                return
            call = run.journal.model_call(call_digest(self._name, "stream", request, kwargs))
            if call.kept is not None:
                for chunk in _outcome(call.kept)["chunks"]:
                    yield chunk
                return
            async with run.admit_call():
                await _tell_divergence(run, call)
                await run.ensure_not_fenced()
                try:
                    async for chunk in stream(request, **kwargs):
                        _gather(seen, plain(chunk))
                        yield chunk
                except Exception as error:
                    await run.write(
                        call.key, {**call.facts, "outcome": {"error": plain_error(error)}}
                    )
                    raise
                await run.write(call.key, {**call.facts, "outcome": {"chunks": seen}})

        return chunks


def _is_inside_model_call() -> bool:
    """Whether a provider calls another one: only the outer call is journaled."""
    return scope().startswith(_MODEL)


def _outcome(kept: dict[str, Any]) -> dict[str, Any]:
    if "error" in kept:
        raise build_error(kept["error"])
    return kept


def _gather(seen: list[Any], chunk: Any) -> None:
    """Collect a chunk; consecutive pieces of one text are joined."""
    last = seen[-1] if seen else None
    if isinstance(chunk, dict) and isinstance(last, dict) and _is_same_text(last, chunk):  # pyright: ignore[reportUnknownArgumentType] - a provider's own
        seen[-1] = {**chunk, "content": last["content"] + chunk["content"]}
    else:
        seen.append(chunk)


def _is_same_text(last: dict[str, Any], chunk: dict[str, Any]) -> bool:
    plain_keys = {"content", "block_type"}
    texts = isinstance(last.get("content"), str) and isinstance(chunk.get("content"), str)
    same = last.get("block_type") == chunk.get("block_type")
    return texts and same and set(last) <= plain_keys and set(chunk) <= plain_keys


async def _tell_divergence(run: TurnRun, call: ModelCall) -> None:
    """Announce that this run makes a different request than the run before it."""
    if not call.is_divergent:
        return
    facts = call.facts
    coordinator = run.session.coordinator
    line = (
        f"After the worker was lost, model call {facts['n']} is not the one it made before; the "
        "turn continues with the new one."
    )
    show(coordinator, line, source=NAME)
    await coordinator.hooks.emit(DIVERGED, cast("dict[str, Any]", plain(facts)))
    # Last: once it is journaled, no later run gets here to announce it.
    await run.write(f"diverged:{facts['scope']}{facts['n']}:{facts['epoch']}", facts)
