"""Turn a session's events into items on the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from time import monotonic
from typing import Any, cast

from amplifier_cli.chat.live_view import Keep, LiveText, RunningTool, Scene
from amplifier_cli.render.plain import counted, one_line
from amplifier_core.models import HookResult
from amplifier_journal.readings.items import (
    ITEM_EVENTS,
    Answer,
    Item,
    Thinking,
    ToolCall,
    event_item,
)

NAME = "terminal"
# Before every guard, so that a call is on the screen when the user is asked about it.
_FIRST = -1_000_000
_CONTINUE = HookResult()

Put = Callable[[Item], None]
Handle = Callable[[dict[str, Any]], None]
Results = Callable[[], Awaitable[dict[str, str]]]


class Usage:
    """The tokens that the model calls of this conversation used."""

    def __init__(self) -> None:
        self.calls = self.input = self.output = self.cached = 0
        self.context: int | None = None
        self.model = ""

    def add(self, model: str, usage: dict[str, Any]) -> None:
        """Add the usage that a provider reports for one call."""
        self.calls += 1
        self.model = model or self.model
        read = _number(usage, "input_tokens")
        written = _number(usage, "output_tokens")
        self.input += read
        self.output += written
        self.cached += _number(usage, "cache_read_tokens")
        self.context = read + written

    def take(self, response: dict[str, Any]) -> None:
        """Add the usage of an `llm:response`."""
        if response.get("status") == "ok":
            self.add(str(response.get("model") or ""), _facts(response.get("usage")))


class Observer:
    """Observes the events of one session; always answers `continue`."""

    def __init__(self, scene: Scene, put: Put, keep: Keep, results: Results, usage: Usage) -> None:
        """`results` reads the results of calls from the context, by call id."""
        self.usage = usage
        self.said = ""
        self.partial = ""
        self._scene = scene
        self._put = put
        self._keep = keep
        self._results = results
        self._announced: set[str] = set()
        self._streamed = False
        self._handles: dict[str, Handle] = {
            "provider:request": self._request,
            "llm:stream_block_start": self._block_start,
            "llm:stream_block_delta": self._block_delta,
            "llm:stream_block_end": self._block_end,
            "llm:stream_aborted": self._aborted,
            "content_block:end": self._content_block,
            "llm:response": self._response,
            "tool:pre": self._tool_pre,
            "tool:output": self._tool_output,
            "tool:post": self._tool_post,
            "tool:error": self._tool_error,
            "approval:denied": self._denied,
            "task:progress": self._task,
        }

    def attach(self, hooks: Any) -> Callable[[], None]:
        """Register for the events of a session; the returned function unregisters."""
        heard = (*self._handles, *ITEM_EVENTS)
        undo = [hooks.register(event, self._hear, _FIRST, NAME) for event in heard]

        def detach() -> None:
            for each in undo:
                each()

        return detach

    def begin_turn(self) -> None:
        """Reset the text of the last turn."""
        self.said = self.partial = ""
        self._announced.clear()
        self._streamed = False
        self._scene.begin("thinking")

    async def end_turn(self) -> None:
        """Show the unfinished text and the calls without a result."""
        self._finish_text()
        await self._settle_all()
        self._scene.begin("")

    async def _hear(self, event: str, data: dict[str, Any]) -> HookResult:
        # The next request means that all calls of the step have a result in the context.
        if event == "provider:request":
            await self._settle_all()
        if event in ITEM_EVENTS:
            self._line(event, data)
        else:
            self._handles[event](data)
        return _CONTINUE

    # --- the answer ------------------------------------------------------------------------------

    def _request(self, data: dict[str, Any]) -> None:
        self._streamed = False
        self._scene.begin("thinking")

    def _block_start(self, data: dict[str, Any]) -> None:
        self._streamed = True
        self._finish_text()
        kind = str(data.get("block_type"))
        if kind == "tool_use":
            self._scene.begin(f"preparing {one_line(str(data.get('name') or 'a tool'))}")
            return
        self._scene.text = LiveText(kind, str(data.get("request_id")), self._keep)
        self._scene.begin("answering" if kind == "text" else "thinking")

    def _block_delta(self, data: dict[str, Any]) -> None:
        text = self._scene.text
        if text is not None:
            text.add(str(data.get("text", "")))
            self._scene.changed()

    def _block_end(self, data: dict[str, Any]) -> None:
        self._finish_text()

    def _aborted(self, data: dict[str, Any]) -> None:
        self._finish_text()

    def _finish_text(self) -> None:
        text = self._scene.text
        self._scene.text = None
        if text is None:
            return
        self._show(text.finish())
        if text.kind == "text" and text.text.strip():
            self.said = text.text
            self.partial += ("\n\n" if self.partial else "") + text.text

    def _content_block(self, data: dict[str, Any]) -> None:
        """Show a block of an answer that did not stream."""
        self.partial = ""
        block = _facts(data.get("block"))
        if self._streamed:
            return
        if block.get("type") == "text" and str(block.get("text", "")).strip():
            self.said = str(block["text"])
            self._put(Answer(self.said))
        elif block.get("type") == "thinking" and str(block.get("thinking", "")).strip():
            self._put(Thinking(str(block["thinking"])))

    def _response(self, data: dict[str, Any]) -> None:
        if data.get("status") == "ok":
            self.partial = ""
        self.usage.take(data)

    def _line(self, name: str, data: dict[str, Any]) -> None:
        item = event_item(name, data)
        if item is not None:
            self._finish_text()
            self._put(item)

    # --- tools -----------------------------------------------------------------------------------

    def _tool_pre(self, data: dict[str, Any]) -> None:
        name = str(data.get("tool_name"))
        call_id = str(data.get("tool_call_id"))
        self._announced.add(call_id)
        self._scene.begin_call(call_id, name, data.get("tool_input"))
        self._scene.begin(f"running {one_line(name)}")

    def _tool_output(self, data: dict[str, Any]) -> None:
        running = self._scene.tools.get(str(data.get("tool_call_id")))
        if running is not None:
            running.write(str(data.get("text", "")))
            self._scene.changed()

    def _task(self, data: dict[str, Any]) -> None:
        steps = counted(int(data.get("steps") or 0), "step")
        line = f"{data.get('agent')}: {steps}, last {data.get('last_tool')}\n"
        # None for what an agent of an agent does, and for a background task whose call has ended.
        running = self._scene.tools.get(str(data.get("parent_tool_call_id")))
        if running is not None:
            running.write(line)
            self._scene.changed()

    def _tool_post(self, data: dict[str, Any]) -> None:
        self._finish_tool(data, data.get("result"), None)

    def _tool_error(self, data: dict[str, Any]) -> None:
        # A call that would fail is refused without `tool:pre`: a path that no tool writes, an
        # unknown tool, arguments that do not fit.
        if str(data.get("tool_call_id")) not in self._announced:
            self._tool_pre(data)
        self._finish_tool(data, None, data.get("error"))

    def _finish_tool(self, data: dict[str, Any], result: Any, error: Any) -> None:
        running = self._scene.tools.get(str(data.get("tool_call_id")))
        if running is None:
            return
        call = replace(running.call, arguments=data.get("tool_input", running.call.arguments))
        self._end_call(call.ended(result, error, monotonic() - running.began))
        self._scene.begin("thinking" if not self._scene.tools else self._scene.activity)

    def _denied(self, data: dict[str, Any]) -> None:
        running = self._scene.tools.get(str(data.get("tool_call_id")))
        if running is not None:
            self._settle(running, f"Denied by hook: {data.get('reason')}")

    async def _settle_all(self) -> None:
        """Finish calls that emitted neither `tool:post` nor an error: denied or interrupted."""
        if not self._scene.tools:
            return
        results = await self._results()
        for running in list(self._scene.tools.values()):
            self._settle(running, results.get(running.call.call_id, ""))

    def _settle(self, running: RunningTool, said: str) -> None:
        self._end_call(running.call.settled(said, running.written))

    def _end_call(self, call: ToolCall) -> None:
        self._scene.end_call(call)
        self._put(call)

    def _show(self, items: Iterable[Item]) -> None:
        for item in items:
            self._put(item)


def _facts(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {}


def _number(facts: dict[str, Any], name: str) -> int:
    value = facts.get(name)
    if isinstance(value, int):
        return value
    return 0
