"""Requests and messages as every vendor needs them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from amplifier_core.errors import describe_error
from amplifier_core.llm_errors import InvalidRequestError, StreamError
from amplifier_core.message_models import (
    ChatRequest,
    ContentBlockUnion,
    Degradation,
    ImageBlock,
    Message,
    RichOutput,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from amplifier_kit.history_repair import Repair, repair_history
from amplifier_kit.tools import broken_input
from amplifier_kit.valid_text import is_too_deep

W = TypeVar("W")

_RICH_OUTPUT: TypeAdapter[list[TextBlock | ImageBlock]] = TypeAdapter(RichOutput)


def repaired(messages: list[Message]) -> tuple[list[Message], list[Repair]]:
    """Return messages in which every call has its result and every result its call.

    A valid list comes back as the same object, without the cost of a repair.
    """
    if not _may_be_broken(messages):
        return messages, []
    stored = [message.model_dump() for message in messages]
    fixed, repairs = repair_history(stored)
    if repairs:
        return ([Message.model_validate(each) for each in fixed], repairs)
    return (messages, [])


def _may_be_broken(messages: list[Message]) -> bool:
    """Whether the messages need a closer look; a quick check, in which only False is certain."""
    waiting: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting or isinstance(message.content, list):
                return True
            waiting.discard(message.tool_call_id)
            continue
        if waiting:
            return True
        content = message.content
        if message.role == "assistant":
            waiting = {call.id for call in stored_calls(message)}
        elif not isinstance(content, str) and any(b.type == "tool_result" for b in content):
            return True
    return bool(waiting)


def stored_calls(message: Message) -> list[ToolCall]:
    """Return the calls an assistant message makes, in order, each once.

    Loops keep calls as blocks, in `tool_calls`, or in both. Arguments that are not a JSON object
    are kept as `{"raw": ...}`: one bad call must not make every later request fail.
    """
    found: dict[str, ToolCall] = {}
    if not isinstance(message.content, str):
        for block in message.content:
            if block.type == "tool_call":
                found[block.id] = ToolCall(id=block.id, name=block.name, arguments=block.input)
    extra: Any = (message.model_extra or {}).get("tool_calls") or ()
    for call in extra:
        fields = cast("dict[str, Any]", call if isinstance(call, dict) else call.model_dump())
        function: dict[str, Any] = fields.get("function") or {}
        arguments = _stored_arguments(fields.get("arguments", function.get("arguments")))
        name = function.get("name") or fields.get("name") or fields.get("tool")
        call_id: str = fields["id"]
        if call_id not in found:
            found[call_id] = ToolCall(id=call_id, name=str(name), arguments=arguments)
    return list(found.values())


def _stored_arguments(stored: Any) -> dict[str, Any]:
    if not stored:
        return {}
    try:
        arguments: Any = json.loads(stored) if isinstance(stored, str) else stored
    except ValueError:
        arguments = stored
    if isinstance(arguments, dict):
        return cast("dict[str, Any]", arguments)
    return {"raw": stored}


def split_system(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the system messages that open a conversation, and the rest."""
    opening = list(takewhile(lambda message: message.role == "system", messages))
    return opening, messages[len(opening) :]


def blocks_of(message: Message) -> list[ContentBlockUnion]:
    """Return the content blocks of a message; a plain text is one block."""
    content = message.content
    if isinstance(content, str):
        return [TextBlock(text=content)]
    return content


def rich_output(output: Any) -> list[TextBlock | ImageBlock] | None:
    """Return a tool's output as texts and images; None if it is anything else."""
    try:
        return _RICH_OUTPUT.validate_python(output) or None
    except ValidationError:
        return None


def output_text(output: Any) -> str:
    """Return a tool's output as the model reads it: text as it is, anything else as JSON."""
    if isinstance(output, str):
        return output
    if isinstance(output, BaseModel):
        output = output.model_dump(mode="json", exclude_none=True)
    return json.dumps(output, ensure_ascii=False, default=str)


def text_of(message: Message) -> str:
    """Return the text of a message, its text blocks joined; other blocks have none."""
    if isinstance(message.content, str):
        return message.content
    texts = [
        block.text if isinstance(block, TextBlock) else output_text(block.output)
        for block in message.content
        if isinstance(block, TextBlock | ToolResultBlock)
    ]
    return "\n\n".join(texts)


class Converted(Generic[W]):
    """Cache of the wire forms of the last request, so that only new messages are converted.

    A message that is the same object at the same place keeps its wire form. That is the same
    object too, so callers must not change it.
    """

    def __init__(self, convert: Callable[[Message], W]) -> None:
        self._convert = convert
        self._messages: list[Message] = []
        self._wire: list[W] = []

    def __call__(self, messages: list[Message]) -> list[W]:
        """Return one wire form per message."""
        known = self._messages
        wire = self._wire
        same = 0
        for old, new in zip(known, messages, strict=False):
            if old is not new:
                break
            same += 1
        self._wire = [*wire[:same], *map(self._convert, messages[same:])]
        self._messages = messages.copy()
        return self._wire.copy()


# The one known keyword that is not a field of a request: loops ask for thinking with it.
_THINKING = "extended_thinking"


def overridden(
    request: ChatRequest, arguments: Mapping[str, Any], *, provider: str
) -> tuple[ChatRequest, list[Degradation]]:
    """Return the request with keyword arguments applied, and a shortfall for each unknown one.

    Only the arguments are validated. The given request is not changed.

    Raises:
        InvalidRequestError: it is not a ChatRequest, or an argument does not fit its field.
    """
    if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not checked
        message = f"A request is a ChatRequest, not a {type(request).__name__}"
        raise InvalidRequestError(message, provider=provider)
    known = {*ChatRequest.model_fields, _THINKING}
    given = {name: value for name, value in arguments.items() if name in known}
    ignored = [
        Degradation(requested=f"`{name}`", actual="nothing", reason="no such argument is known")
        for name in arguments
        if name not in known
    ]
    if not given:
        return request, ignored
    try:
        checked = ChatRequest.model_validate({"messages": [], **given})
    except ValidationError as error:
        raise InvalidRequestError(str(error), provider=provider) from error
    return request.model_copy(update={name: getattr(checked, name) for name in given}), ignored


def with_options(
    request: ChatRequest, options: dict[str, Any]
) -> tuple[ChatRequest, dict[str, Any]]:
    """Return a request with the options that are fields of it applied, and the other options.

    For callers that pass both on to a provider, which validates them with `overridden`.
    """
    rest = dict(options)
    if "max_tokens" in rest:
        rest["max_output_tokens"] = rest.pop("max_tokens")
    fields = {key: rest.pop(key) for key in list(rest) if key in ChatRequest.model_fields}
    return request.model_copy(update=fields), rest


def extended_thinking(request: ChatRequest) -> bool | None:
    """Return whether the caller asked for thinking; None if it did not say."""
    return (request.model_extra or {}).get(_THINKING)


_LONGEST_REASON = 300


@contextmanager
def reading_answer(provider: str, model: str | None) -> Generator[None]:
    """Turn errors in parsing a server's answer into a StreamError.

    Use it only around parsing: elsewhere these exceptions are bugs of ours.
    """
    try:
        yield
    except RecursionError as error:
        message = "the server sent JSON that is nested too deep"
        raise StreamError(message, provider=provider, model=model) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(describe_error(error).split())[:_LONGEST_REASON]
        message = f"the server's answer cannot be read: it has an unknown form ({reason})"
        raise StreamError(message, provider=provider, model=model) from error


def in_one_line(error: BaseException) -> str:
    """Return the message of an error in one line; that of a validation error has many."""
    return " ".join(describe_error(error).split())[:_LONGEST_REASON]


def expected(value: Any, kind: type, name: str) -> Any:
    """Return a field of an answer if it is of this kind, or None if it is missing.

    Raises:
        TypeError: it is anything else, which must not be mistaken for an empty field.
    """
    if value is None or isinstance(value, kind):
        return value
    raise TypeError(f"`{name}` is a {type(value).__name__}")


def parse_arguments(raw: str, *, cut_off: bool = False) -> dict[str, Any]:
    """Return the arguments as a dict; an empty text is an empty dict.

    Never guesses: half an argument could name half a file. If the text is not a JSON object, the
    model reads what is wrong, and where, in the result of its call. Retrying the whole answer
    would be paid for each time, and the model would not know why.
    """
    problem = "are not a JSON object"
    try:
        arguments: Any = json.loads(raw) if raw.strip() else {}
        if is_too_deep(arguments):
            problem = "are nested too deep"
        elif isinstance(arguments, dict):
            return cast("dict[str, Any]", arguments)
    except ValueError as error:
        problem = f"are not JSON: {error}"
    except RecursionError:
        problem = "are nested too deep"
    if cut_off:
        problem = f"were cut off by the output limit, so they {problem}; give shorter ones"
    return broken_input(raw, problem)
