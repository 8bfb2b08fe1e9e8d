"""The items of a session that are displayed: prompts, answers, tool calls, questions.

Items are data. Wording, widths, colours and escaping of untrusted text are left to the code that
draws them: a terminal and a page draw the same items differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

ToolState: TypeAlias = Literal["waiting", "running", "done", "failed", "denied", "interrupted"]
Level: TypeAlias = Literal["info", "warning", "error"]

STREAM = "stream"
"""The kind of record that keeps words of an answer before they are shown."""
ITEM_EVENTS = ("orchestrator:steering_injected", "provider:retry", "hook:failed")
"""The events that are items by themselves."""


@dataclass(frozen=True)
class Prompt:
    """A text of the user; `steers` if it was sent to a running turn."""

    text: str
    turn: int | None = None
    steers: bool = False


@dataclass(frozen=True)
class Answer:
    """An answer of the model, or one finished block of it, as Markdown."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """Reasoning of the model."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """One tool call; `number` counts them from 1.

    A call that ended without a result was denied or interrupted: `said` is what the model read
    instead, `written` the output of the tool up to then.
    """

    number: int
    call_id: str
    name: str
    arguments: Any
    state: ToolState = "running"
    seconds: float | None = None
    result: Any = None
    error: Any = None
    said: str = ""
    written: str = ""

    def ended(self, result: Any, error: Any, seconds: Any = None) -> ToolCall:
        """Return the call with its result or error."""
        refused = isinstance(result, dict) and cast("Any", result).get("success") is False
        return replace(
            self,
            state="failed" if refused or error is not None else "done",
            result=result,
            error=error,
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
        )

    def settled(self, said: str, written: str = "") -> ToolCall:
        """Return the call as denied or interrupted, without a result."""
        state: ToolState = "denied" if said.startswith("Denied") else "interrupted"
        return replace(self, state=state, said=said, written=written)


@dataclass(frozen=True)
class Question:
    """A question to the user, and the decision, None while it is open."""

    prompt: str
    options: tuple[str, ...]
    decision: str | None = None


@dataclass(frozen=True)
class Notice:
    """A message from a module or from the app itself."""

    text: str
    level: Level = "info"
    source: str = ""


@dataclass(frozen=True)
class Retry:
    """A model call failed and is retried after `seconds`, if that is known."""

    error_type: str
    seconds: float | None


@dataclass(frozen=True)
class HookFailure:
    """A hook failed at an event."""

    handler: str
    event: str
    error: str


@dataclass(frozen=True)
class Child:
    """A session that this one started."""

    session_id: str
    has_ended: bool = False


@dataclass(frozen=True)
class Cancellation:
    """The user stopped the turn."""

    immediate: bool


@dataclass(frozen=True)
class TurnEnd:
    """The end of a turn; its answer is an item of its own, unless it was one before."""

    stop_reason: str
    answer: str | None = None
    error: Any = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Gap:
    """The process ended in the middle of a turn."""


@dataclass(frozen=True)
class Rewind:
    """A rewind: what was rewound, and to before which record."""

    at: int
    what: str


@dataclass(frozen=True)
class Fork:
    """A fork: the items before it are those of another session, up to record `at`."""

    session_id: str
    at: int | None


Item: TypeAlias = (
    Prompt
    | Answer
    | Thinking
    | ToolCall
    | Question
    | Notice
    | Retry
    | HookFailure
    | Child
    | Cancellation
    | TurnEnd
    | Gap
    | Rewind
    | Fork
)


def is_open(item: Item) -> bool:
    """Whether an item will be returned again, changed, when it has ended."""
    if isinstance(item, ToolCall):
        return item.state in ("waiting", "running")
    if isinstance(item, Question):
        return item.decision is None
    return isinstance(item, Child) and not item.has_ended


def event_item(name: str, data: dict[str, Any]) -> Item | None:
    """Return the item for an event; None for most events."""
    if name == "orchestrator:steering_injected":
        return Prompt(str(data.get("text", "")), steers=True)
    if name == "provider:retry":
        delay = data.get("delay")
        known = isinstance(delay, int | float)
        return Retry(str(data.get("error_type")), float(delay) if known else None)
    if name == "hook:failed":
        return HookFailure(*(str(data.get(key)) for key in ("handler", "event", "error")))
    return None


def notice_of(message: str, level: Any, source: str) -> Notice:
    """Return a notice for a message of the display system."""
    return Notice(message, level if level in ("info", "warning", "error") else "info", source)


def decision_text(option: str, reason: str, edited: str | None) -> str:
    """Return the answer to a question with what the user said or changed."""
    if edited is not None:
        return f"{option}, changed to: {edited}"
    return f"{option}: {reason}" if reason else option


def question_key(data: dict[str, Any]) -> str:
    """Return the key that the record of a question shares with that of its decision."""
    return str(data.get("approval_id") or data.get("prompt", ""))


class Items:
    """The items of a session, record by record.

    `calls_before` is how many tool calls were numbered before these.
    """

    def __init__(self, calls_before: int = 0) -> None:
        self._calls = calls_before
        self._open: dict[str, ToolCall] = {}
        self._announced: set[str] = set()
        # The model's tool call ids, by the ids of the recorded calls.
        self._call_ids: dict[str, str] = {}
        self._written: dict[str, list[str]] = {}
        # Model calls inside of other calls: their answers are not for the user.
        self._inner_calls: set[str] = set()
        self._stream: list[tuple[str, list[str]]] = []
        self._request: Any = None
        # Whether the whole answer of the last model call was an item.
        self._is_answered = False
        self._said = ""
        self._questions: dict[str, list[Question]] = {}
        self._in_turn = False
        self._takers: dict[str, Callable[[dict[str, Any]], Iterable[Item]]] = {
            "session.opened": self._opened,
            "prompt": self._prompt,
            STREAM: self._streamed,
            "model.call": self._model_call,
            "model.result": self._model_result,
            "message": self._message,
            "tool.call": self._tool_call,
            "tool.result": self._tool_result,
            "approval.asked": self._asked,
            "asked": self._asked_by_chat,
            "approval": self._decided,
            "display": self._display,
            "event": self._event,
            "child": self._child,
            "child.ended": self._child_ended,
            "cancel": self._cancelled,
            "turn.ended": self._turn_ended,
            "rewind": self._rewound,
            "fork": self._forked,
        }

    def take(self, record: Any) -> list[Item]:
        """Return the items that a record adds or changes."""
        take = self._takers.get(record.kind)
        if take is None:
            return []
        return list(take(record.data))

    def finished(self, record: Any) -> list[Item]:
        """Return the items that a record completes, for output that draws each item once."""
        return [each for each in self.take(record) if not is_open(each)]

    def cut_short(self) -> list[Item]:
        """Return the items that close a turn which was cut off by the end of its process."""
        items = list(self._rest())
        if self._in_turn:
            self._in_turn = False
            items.append(Gap())
        return items

    @property
    def unfinished_text(self) -> str:
        """The text so far of an answer that was never completed."""
        return "\n\n".join("".join(words) for kind, words in self._stream if kind == "text")

    def _rest(self) -> Iterator[Item]:
        """Close what is open: a partial answer, questions, calls without a result."""
        yield from self._flush()
        for questions in self._questions.values():
            for question in questions:
                yield replace(question, decision="no answer")
        self._questions = {}
        for call_id in list(self._open):
            yield from self._settle(call_id, "")

    def _opened(self, data: dict[str, Any]) -> Iterable[Item]:
        # Opened in the middle of a turn: the process that ran it had died.
        return self.cut_short()

    def _prompt(self, data: dict[str, Any]) -> Iterator[Item]:
        yield from self._rest()
        self._announced.clear()
        self._is_answered = False
        self._said = ""
        self._in_turn = True
        yield Prompt(str(data.get("text", "")), data.get("turn"))

    def _turn_ended(self, data: dict[str, Any]) -> Iterator[Item]:
        self._in_turn = False
        yield from self._rest()
        answer = data.get("answer")
        # Most answers were items before, as the text of the last model call.
        if isinstance(answer, str) and answer.strip() and answer.strip() not in self._said:
            yield Answer(answer)
        seconds = float(data.get("seconds") or 0)
        yield TurnEnd(str(data.get("stop_reason", "?")), answer, data.get("error"), seconds)

    # --- answers of the model --------------------------------------------------------------------

    def _streamed(self, data: dict[str, Any]) -> Iterator[Item]:
        # An answer that its provider did not stream is announced, as one piece, when it is whole.
        if self._is_answered:
            return
        if data.get("request_id") != self._request:
            yield from self._flush()
            self._request = data.get("request_id")
        kind = str(data.get("block_type", "text"))
        if not self._stream or self._stream[-1][0] != kind or data.get("begins"):
            self._stream.append((kind, []))
        self._stream[-1][1].append(str(data.get("text", "")))

    def _flush(self) -> Iterator[Item]:
        for kind, words in self._stream:
            text = "".join(words)
            if text.strip():
                yield Thinking(text) if kind == "thinking" else Answer(text)
        self._stream = []

    def _model_call(self, data: dict[str, Any]) -> Iterable[Item]:
        if data.get("inside"):
            self._inner_calls.add(str(data.get("call")))
        else:
            self._is_answered = False
        return ()

    def _model_result(self, data: dict[str, Any]) -> Iterator[Item]:
        call = str(data.get("call"))
        if call in self._inner_calls:
            self._inner_calls.remove(call)
            return
        response = data.get("response")
        if not isinstance(response, dict):
            yield from self._flush()
            return
        # The whole response replaces the pieces that were streamed.
        self._stream = []
        self._is_answered = True
        for block in _blocks(cast("dict[str, Any]", response).get("content")):
            if block.get("type") == "thinking" and str(block.get("thinking", "")).strip():
                yield Thinking(str(block["thinking"]))
            elif block.get("type") == "text" and str(block.get("text", "")).strip():
                self._said = str(block["text"])
                yield Answer(self._said)

    def _message(self, data: dict[str, Any]) -> Iterator[Item]:
        message = _facts(data.get("message"))
        if message.get("role") == "tool":
            yield from self._settle(str(message.get("tool_call_id")), _text(message.get("content")))
        elif _facts(message.get("metadata")).get("interrupted"):
            yield from self._flush()

    # --- tools -----------------------------------------------------------------------------------

    def _announce(self, call_id: str, name: Any, arguments: Any) -> ToolCall:
        self._calls += 1
        self._announced.add(call_id)
        self._open[call_id] = ToolCall(self._calls, call_id, str(name), arguments)
        return self._open[call_id]

    def _tool_call(self, data: dict[str, Any]) -> Iterator[Item]:
        call_id = str(data.get("tool_call_id") or data.get("call"))
        self._call_ids[str(data.get("call"))] = call_id
        call = self._open.get(call_id) or self._announce(call_id, data.get("tool"), None)
        self._open[call_id] = replace(call, arguments=data.get("input"))
        yield self._open[call_id]

    def _tool_result(self, data: dict[str, Any]) -> Iterator[Item]:
        call_id = self._call_ids.pop(str(data.get("call")), "")
        error = data.get("error")
        # A cancelled call stays open until the message that the model reads in its place.
        if call_id not in self._open or _facts(error).get("type") == "CancelledError":
            return
        self._written.pop(call_id, None)
        yield self._open.pop(call_id).ended(data.get("result"), error, data.get("seconds"))

    def _settle(self, call_id: str, said: str) -> Iterator[Item]:
        """End a call without a result: it was denied, or the turn ended first."""
        call = self._open.pop(call_id, None)
        if call is not None:
            yield call.settled(said, "".join(self._written.pop(call_id, ())))

    # --- questions, messages and events ----------------------------------------------------------

    def _asked(self, data: dict[str, Any]) -> Iterator[Item]:
        question = _question(data)
        self._questions.setdefault(question_key(data), []).append(question)
        yield question

    def _asked_by_chat(self, data: dict[str, Any]) -> Iterable[Item]:
        """Take a question that the chat of an earlier version recorded, unless it is known."""
        if self._questions.get(question_key(data)):
            return ()
        return self._asked(data)

    def _decided(self, data: dict[str, Any]) -> Iterator[Item]:
        waiting = self._questions.get(question_key(data))
        # Equal questions are decided in the order they were asked.
        question = waiting.pop(0) if waiting else _question(data)
        option = str(data.get("decision") or "no answer")
        decision = decision_text(option, str(data.get("reason") or ""), data.get("edited"))
        yield replace(question, decision=decision)

    def _display(self, data: dict[str, Any]) -> Iterator[Item]:
        message = str(data.get("message", ""))
        yield notice_of(message, data.get("level"), str(data.get("source") or ""))

    def _event(self, data: dict[str, Any]) -> Iterator[Item]:
        name = str(data.get("name"))
        facts = _facts(data.get("data"))
        call_id = str(facts.get("tool_call_id"))
        if name == "tool:pre":
            yield self._announce(call_id, facts.get("tool_name"), facts.get("tool_input"))
        elif name == "tool:output":
            self._written.setdefault(call_id, []).append(str(facts.get("text", "")))
        elif name == "tool:error" and call_id not in self._announced:
            # It was refused before it was announced: it would have failed.
            self._announce(call_id, facts.get("tool_name"), facts.get("tool_input"))
            yield self._open.pop(call_id).ended(None, facts.get("error"), 0.0)
        elif name == "approval:denied":
            yield from self._settle(call_id, f"Denied by hook: {facts.get('reason')}")
        elif name == "llm:stream_aborted":
            yield from self._flush()
        elif (item := event_item(name, facts)) is not None:
            yield item

    def _child(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Child(str(data.get("session_id")))

    def _child_ended(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Child(str(data.get("session_id")), has_ended=True)

    def _cancelled(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Cancellation(bool(data.get("immediate")))

    def _rewound(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Rewind(data.get("at", 0), str(data.get("what")))

    def _forked(self, data: dict[str, Any]) -> Iterator[Item]:
        yield Fork(str(data.get("from")), data.get("at"))


def items_of(records: Iterable[Any]) -> Iterator[Item]:
    """Yield the finished items of a whole log, in the order in which they ended."""
    reading = Items()
    for record in records:
        yield from reading.finished(record)
    yield from reading.cut_short()


def _question(data: dict[str, Any]) -> Question:
    options = tuple(str(each) for each in data.get("options") or ())
    return Question(str(data.get("prompt", "")), options)


def _facts(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _blocks(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [each for each in cast("list[Any]", value) if isinstance(each, dict)]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in _blocks(content))
