"""Where answers come from: one class for each mode."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from amplifier_core.llm_errors import ConfigurationError
from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_module_provider_mock.config import MockConfig, ScriptedCall, Step
from amplifier_module_provider_mock.reading import last_words, running_turn
from amplifier_module_provider_mock.tool_picking import fill_arguments, pick_tool

_QUOTED = 500


class Answers(Protocol):
    """Gives the answer to each request in turn."""

    def next(self, request: ChatRequest) -> Step | ChatResponse:
        """Return the next answer; raise ConfigurationError when there is none."""
        ...


class Echo:
    """Says what the user said."""

    def next(self, request: ChatRequest) -> Step:
        """Return the user's last words."""
        return Step(text=f"[mock] You said: {last_words(request)}")


class ToolCaller:
    """Calls one tool per turn and reports what it returned; echoes when it is offered none."""

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
        arguments = fill_arguments(turn.prompt, tool.parameters)
        return Step(tool_calls=[ScriptedCall(name=tool.name, arguments=arguments)])


class Script:
    """Plays the steps it was given."""

    def __init__(self, config: MockConfig) -> None:
        self._steps = config.script
        self._after = config.after_script
        self._played = 0

    def next(self, request: ChatRequest) -> Step:
        """Return the next step; at the end do what the configuration says."""
        at = self._played
        self._played = self._played + 1
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
            return self._responses[at].model_copy(deep=True)
        raise ConfigurationError(
            f"The recording {self._path} has {len(self._responses)} responses, "
            f"and this is call {at + 1}.",
            provider="mock",
        )


def answers_for(config: MockConfig) -> Answers:
    """Return the answers that the configured mode gives."""
    if config.replay_file is not None:
        return Recording(config.replay_file)
    if config.mode == "scripted":
        return Script(config)
    if config.mode == "echo":
        return Echo()
    return ToolCaller()


def _read(path: Path) -> list[ChatResponse]:
    """Read a recording: one dumped ChatResponse per line; empty lines do not count."""
    responses: list[ChatResponse] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            responses.append(ChatResponse.model_validate_json(line))
        except ValidationError as error:
            raise ValueError(f"{path}:{number} is no recorded response: {error}") from error
    return responses
