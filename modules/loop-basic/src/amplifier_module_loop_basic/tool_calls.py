"""Running the tools a model asked for: in parallel, with their results in call order."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

from amplifier_core import events
from amplifier_core.errors import describe_error
from amplifier_core.history import interrupted_result
from amplifier_core.message_models import ToolCall
from amplifier_core.models import HookResult, ToolResult
from amplifier_module_loop_basic.announcer import Announcer

logger = logging.getLogger(__name__)

# How long cancelled tools may take to let go before the turn ends without them.
_GRACE_SECONDS = 1.0


class ToolCalls:
    """Runs tool calls and stores one result for each, whatever happens."""

    __slots__ = ("_announcer", "_context", "_groups", "_token", "_tools")

    def __init__(
        self, tools: dict[str, Any], context: Any, announcer: Announcer, token: Any
    ) -> None:
        self._tools = tools
        self._context = context
        self._announcer = announcer
        self._token = token
        self._groups = 0

    async def run(self, calls: list[ToolCall]) -> None:
        """Run `calls` and add their results to the context, in call order.

        When the turn is cancelled, what is finished by then is kept and the rest is marked as
        interrupted before the cancellation goes on.
        """
        self._groups += 1
        group = f"group-{self._groups}"
        results: list[dict[str, Any] | None] = [None] * len(calls)
        try:
            if len(calls) == 1:
                results[0] = await self._run_one(calls[0], group)
            else:
                await self._run_together(calls, group, results)
        finally:
            for call, result in zip(calls, results, strict=True):
                message = interrupted_result(call.id, call.name) if result is None else result
                await self._context.add_message(message)

    async def refuse(self, calls: list[ToolCall], reason: str) -> None:
        """Answer `calls` without running them."""
        for call in calls:
            await self._context.add_message(_message(call, reason))

    async def _run_together(
        self, calls: list[ToolCall], group: str, results: list[dict[str, Any] | None]
    ) -> None:
        async def run(index: int) -> None:
            results[index] = await self._run_one(calls[index], group)

        tasks = [asyncio.ensure_future(run(index)) for index in range(len(calls))]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            _, stuck = await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
            if stuck:
                logger.warning("tools ignore their cancellation count=%d", len(stuck))
            raise
        for task in tasks:
            task.result()

    async def _run_one(self, call: ToolCall, group: str) -> dict[str, Any]:
        """Return the message with the result of one call."""
        announcer = self._announcer
        facts: dict[str, Any] = {
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_call_id": call.id,
            "parallel_group_id": group,
        }
        if announcer.hears(events.TOOL_PRE):
            before = await announcer.ask(events.TOOL_PRE, facts)
            if before.action == "deny":
                return _message(call, f"Denied by hook: {before.reason}")
            if before.data is not None:
                facts["tool_input"] = before.data.get("tool_input", call.arguments)
        try:
            result = await self._execute(call, facts["tool_input"])
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            logger.exception("tool failed name=%s", call.name)
            failure = {"type": type(error).__name__, "msg": str(error)}
            await announcer.tell(events.TOOL_ERROR, {**facts, "error": failure})
            return _message(call, f"Error executing tool: {describe_error(error)}")
        if announcer.hears(events.TOOL_POST):
            results = {"result": result, "tool_result": result}
            after = await announcer.ask(events.TOOL_POST, {**facts, **results})
            if after.action == "deny":
                return _message(call, f"Denied by hook: {after.reason}")
            result = _as_left_by_hooks(result, after)
        return _message(call, _content(result))

    async def _execute(self, call: ToolCall, tool_input: dict[str, Any]) -> Any:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise LookupError(f"there is no tool `{call.name}`; available: {known}")
        if self._token is None:
            return await tool.execute(tool_input)
        self._token.register_tool_start(call.id, call.name)
        try:
            return await tool.execute(tool_input)
        finally:
            self._token.register_tool_complete(call.id)


def _as_left_by_hooks(result: Any, after: HookResult) -> Any:
    """Return the result, or what a hook put in its place under either of its names."""
    for name in ("result", "tool_result"):
        left = (after.data or {}).get(name, result)
        if left is not result:
            return left
    return result


def _content(result: Any) -> Any:
    """Return what the model reads of a result: rich content if it has some, else its text."""
    if isinstance(result, ToolResult):
        if result.content:
            return [block.model_dump() for block in result.content]
        try:
            return result.get_serialized_output()
        except (TypeError, ValueError):
            return _text(result.output)
    if isinstance(result, dict) and "success" in result:
        # A hook saw the result as plain data and changed it there.
        fields = cast("dict[str, Any]", result)
        output = fields.get("output")
        return _text(fields.get("error") if output is None else output)
    return _text(cast("Any", result))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):
        return str(value)


def _is_being_cancelled() -> bool:
    """Whether somebody wants this task to stop; a tool may leak a CancelledError of its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _message(call: ToolCall, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}
