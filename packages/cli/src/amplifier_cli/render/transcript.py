"""From the records of a session's log to the conversation as it was on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

from amplifier_cli.render.items import (
    Answer,
    Ending,
    Item,
    Notice,
    Prompt,
    Question,
    Thinking,
    ToolRun,
)
from amplifier_cli.render.plain import duration
from amplifier_cli.render.tool_results import outcome_of, settle_unrun

LINES = ("provider:retry", "orchestrator:steering_injected", "hook:failed")


def event_item(name: str, data: dict[str, Any]) -> Item | None:
    """Return the line that an event puts on the screen; most put none."""
    if name == "orchestrator:steering_injected":
        return Prompt(str(data.get("text", "")), steers=True)
    if name == "provider:retry":
        delay = data.get("delay")
        if isinstance(delay, int | float):
            wait = f" in {duration(delay)}"
        else:
            wait = ""
        return Notice(f"{data.get('error_type')}: trying again{wait}.", "warning", "provider")
    if name == "hook:failed":
        line = f"{data.get('handler')} failed on {data.get('event')}: {data.get('error')}"
        return Notice(line, "warning", "hooks")
    return None


STREAM = "stream"
"""The kind of record that keeps words of an answer before they are shown."""

ASKED = "asked"
"""The kind of record that keeps a question before it is shown."""

CUT_SHORT = "The process ended here. What was said and done is kept."
ENDINGS = {
    "cancelled": "Stopped. What was said and done is kept.",
    "limit": "The turn came to its limit of steps.",
    "deadline": "The turn came to the end of its time.",
    "stuck": "The turn was ended: the model repeated itself.",
    "truncated": "The answer was cut by the provider.",
    "filtered": "The answer was filtered by the provider.",
    "invalid_output": "The answer does not have the form that was asked for.",
}


class LogRecord(Protocol):
    """One record of a log, as the store reads it."""

    @property
    def kind(self) -> str:
        """What it is about."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """What it says."""
        ...


class Transcript:
    """Reads records one after the other and says what each puts on the screen."""

    def __init__(self) -> None:
        self.runs: list[ToolRun] = []
        self._open: dict[str, ToolRun] = {}
        self._call_ids: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._stream: list[tuple[str, str]] = []
        self._request: Any = None
        self._said = ""
        self._question: Question | None = None
        self._is_open = False
        self._readers: dict[str, Callable[[dict[str, Any]], Iterable[Item]]] = {
            "prompt": self._prompt,
            STREAM: self._streamed,
            ASKED: self._asked_person,
            "session.opened": self._opened,
            "message": self._message,
            "model.result": self._model_result,
            "tool.call": self._tool_call,
            "tool.result": self._tool_result,
            "approval": self._approval,
            "display": self._display,
            "event": self._event,
            "turn.ended": self._turn_ended,
            "rewind": self._rewound,
            "fork": self._forked,
        }

    def read(self, record: LogRecord) -> list[Item]:
        """Return the items that a record completes."""
        reader = self._readers.get(record.kind)
        if reader is None:
            return []
        return list(reader(record.data))

    def rest(self) -> list[Item]:
        """Return what was under way when the log ends: half an answer, tools without a result."""
        items = list(self._flush())
        if self._question is not None:
            self._question.decision = "no answer"
            items.append(self._question)
            self._question = None
        for call_id in list(self._open):
            items += self._settle(call_id, "")
        return items

    def cut_short(self) -> list[Item]:
        """Return what belongs on the screen when the log ends, or goes on, in mid-turn."""
        items = self.rest()
        if self._is_open:
            self._is_open = False
            items.append(Ending(CUT_SHORT))
        return items

    @property
    def unfinished_text(self) -> str:
        """What the model had said of an answer that was never completed."""
        return "\n\n".join(text for kind, text in self._stream if kind == "text")

    def _opened(self, data: dict[str, Any]) -> Iterator[Item]:
        yield from self.cut_short()

    def _asked_person(self, data: dict[str, Any]) -> Iterator[Item]:
        options = [str(each) for each in data.get("options") or ()]
        self._question = Question(str(data.get("prompt", "")), options)
        yield from ()

    def _prompt(self, data: dict[str, Any]) -> Iterator[Item]:
        yield from self.rest()
        self._said = ""
        self._is_open = True
        yield Prompt(str(data.get("text", "")))

    def _streamed(self, data: dict[str, Any]) -> Iterator[Item]:
        if data.get("request_id") != self._request:
            yield from self._flush()
            self._request = data.get("request_id")
        kind = str(data.get("block_type", "text"))
        text = str(data.get("text", ""))
        if self._stream and self._stream[-1][0] == kind and not data.get("begins"):
            self._stream[-1] = (kind, self._stream[-1][1] + text)
        else:
            self._stream.append((kind, text))

    def _flush(self) -> Iterator[Item]:
        for kind, text in self._stream:
            if text.strip():
                yield Thinking(text) if kind == "thinking" else Answer(text)
        self._stream = []

    def _model_result(self, data: dict[str, Any]) -> Iterator[Item]:
        response = data.get("response")
        if not isinstance(response, dict):
            yield from self._flush()
            return
        self._stream = []
        for block in _blocks(cast("dict[str, Any]", response).get("content")):
            if block.get("type") == "thinking" and str(block.get("thinking", "")).strip():
                yield Thinking(str(block["thinking"]))
            elif block.get("type") == "text" and str(block.get("text", "")).strip():
                self._said = str(block["text"])
                yield Answer(self._said)

    def _message(self, data: dict[str, Any]) -> Iterator[Item]:
        message = data.get("message")
        if not isinstance(message, dict):
            return
        facts = cast("dict[str, Any]", message)
        if facts.get("role") == "tool":
            yield from self._settle(str(facts.get("tool_call_id")), _said(facts.get("content")))
        elif _is_interrupted(facts.get("metadata")):
            yield from self._flush()

    def _settle(self, call_id: str, said: str) -> Iterator[Item]:
        """A call without a result of its own: it was denied, or the turn ended before it."""
        run = self._open.pop(call_id, None)
        if run is not None:
            settle_unrun(run, said, self._written.pop(call_id, ""))
            yield run

    def _announced(self, facts: dict[str, Any]) -> None:
        call_id = str(facts.get("tool_call_id"))
        name = str(facts.get("tool_name"))
        run = ToolRun(len(self.runs) + 1, call_id, name, facts.get("tool_input"))
        self.runs.append(run)
        self._open[call_id] = run

    def _tool_call(self, data: dict[str, Any]) -> Iterator[Item]:
        call_id = str(data.get("tool_call_id") or data.get("call"))
        self._call_ids[str(data.get("call"))] = call_id
        if call_id not in self._open:
            self._announced({**data, "tool_call_id": call_id, "tool_name": data.get("tool")})
        self._open[call_id].arguments = data.get("input")
        yield from ()

    def _tool_result(self, data: dict[str, Any]) -> Iterator[Item]:
        run = self._open.get(self._call_ids.pop(str(data.get("call")), ""))
        if run is None or _is_cancelled(data.get("error")):
            return
        del self._open[run.call_id]
        self._written.pop(run.call_id, None)
        run.state, run.summary, run.output = outcome_of(data.get("result"), data.get("error"))
        seconds = data.get("seconds")
        if isinstance(seconds, int | float):
            run.seconds = float(seconds)
        else:
            run.seconds = None
        yield run

    def _approval(self, data: dict[str, Any]) -> Iterator[Item]:
        options = [str(each) for each in data.get("options") or ()]
        decision = str(data.get("decision") or "no answer")
        self._question = None
        yield Question(str(data.get("prompt", "")), options, decision)

    def _display(self, data: dict[str, Any]) -> Iterator[Item]:
        level = data.get("level")
        source = str(data.get("source") or "").removeprefix("hook:")
        yield Notice(
            str(data.get("message", "")),
            level if level in ("info", "warning", "error") else "info",
            source,
        )

    def _event(self, data: dict[str, Any]) -> Iterator[Item]:
        facts: dict[str, Any] = data.get("data") or {}
        name = str(data.get("name"))
        call_id = str(facts.get("tool_call_id"))
        if name == "tool:pre":
            self._announced(facts)
        elif name == "tool:output":
            self._written[call_id] = self._written.get(call_id, "") + str(facts.get("text", ""))
        elif name == "approval:denied":
            yield from self._settle(call_id, f"Denied by hook: {facts.get('reason')}")
        elif name == "llm:stream_aborted":
            yield from self._flush()
        elif (item := event_item(name, facts)) is not None:
            yield item

    def _turn_ended(self, data: dict[str, Any]) -> Iterator[Item]:
        self._is_open = False
        yield from self.rest()
        yield from ending_items(
            data.get("stop_reason"), data.get("answer"), data.get("error"), self._said
        )

    def _rewound(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Notice(f"Taken back to record {data.get('at')}: {data.get('what')}.")

    def _forked(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Notice(f"A copy of {data.get('from')} goes on here.")


def ending_items(stop_reason: Any, answer: Any, error: Any, said: str) -> Iterator[Item]:
    """Return what is to be shown when a turn ends, beyond what was shown while it ran."""
    if isinstance(answer, str) and answer.strip() and answer.strip() not in said:
        yield Answer(answer)
    if stop_reason in ENDINGS:
        yield Ending(ENDINGS[str(stop_reason)])
    elif error is not None:
        facts: Any = error
        if isinstance(error, dict):
            named = cast("dict[str, Any]", error)
            facts = f"{named.get('type', 'Error')}: {named.get('message', '')}"
        yield Ending(f"The turn failed. {facts}", "error")


def transcript(records: Iterable[LogRecord]) -> Iterator[Item]:
    """Return the conversation of a log, in the order in which it was on the screen."""
    reading = Transcript()
    for record in records:
        yield from reading.read(record)
    yield from reading.cut_short()


def _blocks(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [each for each in cast("list[Any]", value) if isinstance(each, dict)]


def _is_interrupted(metadata: Any) -> bool:
    return isinstance(metadata, dict) and bool(cast("dict[str, Any]", metadata).get("interrupted"))


def _is_cancelled(error: Any) -> bool:
    return isinstance(error, dict) and cast("dict[str, Any]", error).get("type") == "CancelledError"


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in _blocks(content))
