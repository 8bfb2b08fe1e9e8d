"""The sources of answers: one class for each mode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from pydantic import ValidationError

from amplifier_core.llm_errors import ConfigurationError
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
)
from amplifier_module_provider_mock.config import MockConfig, ScriptedCall, Step


def text_of(message: Message) -> str:
    """Return the text of a message, without thinking, calls, results and pictures."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def results_in(message: Message) -> list[str]:
    """Return the tool results in a message as text."""
    if isinstance(message.content, str):
        blocks = []
    else:
        blocks = message.content
    found = [_as_text(block.output) for block in blocks if isinstance(block, ToolResultBlock)]
    return found or ([text_of(message)] if message.role == "tool" else [])


def calls_in(message: Message) -> list[str]:
    """Return the names of the tools that an assistant message calls.

    Loops also store calls beside the content, in a field that `Message` does not declare.
    """
    if message.role != "assistant":
        return []
    if isinstance(message.content, str):
        blocks = []
    else:
        blocks = message.content
    found = [block.name for block in blocks if isinstance(block, ToolCallBlock)]
    listed: Any = (message.model_extra or {}).get("tool_calls") or []
    return found or [str(call.get("tool") or call.get("name") or "a tool") for call in listed]


class Turn(NamedTuple):
    """The running turn: its prompt, the tools that were called and their results."""

    prompt: str
    called: list[str]
    results: list[str]


def running_turn(request: ChatRequest) -> Turn:
    """Return the turn since the last answer without a tool call."""
    # Only the first prompt counts: hooks may add user messages after the results.
    prompt = ""
    called = list[str]()
    results = list[str]()
    for message in request.messages:
        calls = calls_in(message)
        found = results_in(message)
        if message.role == "assistant" and not calls:
            prompt = ""
            called = []
            results = []
        called += calls
        results += found
        if message.role == "user" and not found:
            prompt = prompt or text_of(message)
    return Turn(prompt, called, results)


def last_words(request: ChatRequest) -> str:
    """Return the last text of the user."""
    said = (m for m in reversed(request.messages) if m.role == "user" and not results_in(m))
    return next((text_of(message) for message in said), "")


def _as_text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return json.dumps(output, default=str)


_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_PATH = re.compile(r"[\w.~-]*/[\w./~-]*|\b[\w-]+\.[A-Za-z]\w{0,4}\b")
_URL = re.compile(r"https?://\S+")
# Arguments are searched only in the beginning of a prompt, which may contain a whole file.
_READ_CHARS = 2_000
# Words that do not indicate a tool.
_FILLERS = frozenset(
    _WORD.findall(
        "a about all an and any are as at be been but by can could do does for from get give "
        "good great has have hello here hey hi how i if in is it just like me more morning my "
        "no not now of ok on one or please say see so some tell thank thanks that the them then "
        "there they this to up us use used using want was we well what when where which who why "
        "will with would yes you your"
    )
)


def pick_tool(prompt: str, tools: list[ToolSpec]) -> ToolSpec | None:
    """Return the tool that shares the most words with the prompt, in its name or description.

    Words in the name count first; the first tool wins a tie. Of several tools of which none shares
    a word with the prompt, none is called: `hello` must not write a file.
    """
    # A path means a file; its own words mean nothing: `todo.py` is not about a list of to-dos.
    begun = prompt[:_READ_CHARS]
    wanted = _words(_PATH.sub(" file ", begun))

    def shared(tool: ToolSpec) -> tuple[int, int]:
        in_name = len(wanted & _words(tool.name))
        return in_name, len(wanted & _words(tool.description or ""))

    best = max(tools, key=shared)
    if len(tools) > 1 and shared(best) == (0, 0):
        return None
    return best


def fill_arguments(prompt: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a value for every required property of `schema`, taken from the prompt if possible."""
    return _Filler(prompt[:_READ_CHARS]).fill_object(schema)


def _words(text: str) -> set[str]:
    # Names are written in several styles: read_file, read-file, readFile.
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return set(_WORD.findall(spaced.lower())) - _FILLERS


class _Filler:
    """Uses each number of a prompt once, in order, and its texts as often as needed."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._numbers: Iterator[str] = iter(_NUMBER.findall(prompt))

    def fill_object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties") or {}
        required: Any = schema.get("required")
        if isinstance(required, list):
            names = cast("list[str]", required)
        else:
            names = []
        return {name: self._fill(name, properties.get(name) or {}) for name in names}

    def _fill(self, name: str, schema: dict[str, Any]) -> Any:
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if schema.get(key):
                return schema[key][0]
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self._fill(name, schema[key][0])
        return self._fill_type(name, schema)

    def _fill_type(self, name: str, schema: dict[str, Any]) -> Any:
        kind: Any = schema.get("type", "string")
        if isinstance(kind, list):
            kind = next((each for each in cast("list[Any]", kind) if each != "null"), "null")
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        if kind == "object":
            return self.fill_object(schema)
        if kind == "array":
            items = range(schema.get("minItems") or 0)
            return [self._fill(name, schema.get("items") or {}) for _ in items]
        if kind in ("boolean", "null"):
            return False if kind == "boolean" else None
        return self._text(name)

    def _number(self, schema: dict[str, Any], *, whole: bool) -> int | float:
        number = float(next(self._numbers, schema.get("minimum", 1)))
        number = max(number, schema.get("minimum", number))
        number = min(number, schema.get("maximum", number))
        if whole or number.is_integer():
            return int(number)
        return number

    def _text(self, name: str) -> str:
        named = _words(name)
        if named & {"path", "file", "filename", "dir", "directory", "folder"}:
            found = _PATH.search(self._prompt)
            return found[0] if found else "."
        if named & {"url", "uri", "link"}:
            found = _URL.search(self._prompt)
            if found:
                return found[0]
            return "https://example.com"
        return self._prompt


_QUOTED = 500


class Answers(Protocol):
    """Returns one answer after another."""

    def next(self, request: ChatRequest) -> Step | ChatResponse:
        """Return the next answer; raises ConfigurationError if there is none."""
        ...


class Echo:
    """Repeats what the user said."""

    def next(self, request: ChatRequest) -> Step:
        """Return the last text of the user."""
        return Step(text=f"[mock] You said: {last_words(request)}")


class ToolCaller:
    """Calls one tool per turn and reports its result; echoes if no tool fits."""

    def next(self, request: ChatRequest) -> Step:
        """Return a call, or a sentence about the result of the last one."""
        turn = running_turn(request)
        if turn.results:
            called = ", ".join(dict.fromkeys(turn.called)) or "the tool"
            quoted = "; ".join(result[:_QUOTED] for result in turn.results)
            return Step(text=f"[mock] I called {called} and got: {quoted}")
        if not request.tools or request.tool_choice == "none":
            return Echo().next(request)
        tool = pick_tool(turn.prompt, request.tools)
        if tool is None:
            return Echo().next(request)
        arguments = fill_arguments(turn.prompt, tool.parameters)
        return Step(tool_calls=[ScriptedCall(name=tool.name, arguments=arguments)])


class Script:
    """Plays the configured steps."""

    def __init__(self, config: MockConfig) -> None:
        self._steps = config.script
        self._after = config.after_script
        self._played = 0

    def next(self, request: ChatRequest) -> Step:
        """Return the next step; after the last one, do what `after_script` says.

        The first request may be in the middle of a turn that another process began: the steps that
        were played there are skipped.
        """
        at = self._played or _answers_in_turn(request)
        self._played = at + 1
        if at < len(self._steps):
            return self._steps[at]
        if self._after == "repeat":
            return self._steps[-1]
        if self._after == "echo":
            return Echo().next(request)
        raise ConfigurationError(
            f"The script has {len(self._steps)} steps, and this is call {at + 1}. "
            f"Add a step, or set `after_script` to `repeat` or `echo`.",
            provider="mock",
        )


def _answers_in_turn(request: ChatRequest) -> int:
    """Return how many answers follow the last words of the user."""
    answers = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        answers += message.role == "assistant"
    return answers


class Recording:
    """Plays recorded responses, each exactly as it was recorded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._responses = list(_read(path))
        self._played = 0

    def next(self, request: ChatRequest) -> ChatResponse:
        """Return the next recorded response."""
        at = self._played
        self._played = self._played + 1
        if at < len(self._responses):
            # A copy: a caller may change its response, and the recording must stay the same.
            return self._responses[at].model_copy(deep=True)
        raise ConfigurationError(
            f"The recording {self._path} has {len(self._responses)} responses, "
            f"and this is call {at + 1}.",
            provider="mock",
        )


def answers_for(config: MockConfig) -> Answers:
    """Return the source of answers for the configured mode."""
    if config.replay_file is not None:
        return Recording(config.replay_file)
    if config.mode == "scripted":
        return Script(config)
    if config.mode == "echo":
        return Echo()
    return ToolCaller()


def _read(path: Path) -> list[ChatResponse]:
    """Read a recording: one dumped ChatResponse per line; empty lines are ignored."""
    responses: list[ChatResponse] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            responses.append(ChatResponse.model_validate_json(line))
        except ValidationError as error:
            raise ValueError(f"{path}:{number} is no recorded response: {error}") from error
    return responses
