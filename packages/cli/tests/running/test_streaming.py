"""`amplifier run` writes the answer while it comes, each word once, and nothing else beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_cli.answer_stream import AnswerStream
from amplifier_core.hooks import HookRegistry
from amplifier_kit.calls.block_stream import BlockStream

# Each starts the command, some of them often.
pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

LOOKING: dict[str, Any] = {
    "text": "Let me look.",
    "tool_calls": [{"name": "list_directory", "arguments": {}}],
}


def scripted(home: Path, script: list[Any]) -> None:
    """Have the mock provider stream a script."""
    home.mkdir(exist_ok=True)
    entry = {"module": "provider-mock", "config": {"script": script, "stream": True}}
    (home / "settings.yaml").write_text(json.dumps({"providers": [entry]}), encoding="utf-8")


def test_words_are_there_while_the_turn_goes_on(
    environment: dict[str, str], home: Path, project: Path
) -> None:
    scripted(home, [LOOKING, {"text": "never", "delay_seconds": 60}])
    process = subprocess.Popen(
        [sys.executable, "-m", "amplifier_cli", "run", "look"],
        env=environment,
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(len("Let me look.")) == "Let me look."
    assert any("list_directory" in line for line in process.stderr)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=120)

    assert (process.returncode, rest) == (130, "\n")


def test_a_pipe_gets_what_the_model_says_and_a_file_the_answer(
    amplifier: Command, environment: dict[str, str], home: Path, project: Path
) -> None:
    scripted(home, [LOOKING, "It is\nempty."])

    assert amplifier("run", "look").stdout == "Let me look.\n\nIt is\nempty.\n"
    assert json.loads(amplifier("run", "--json", "look").stdout)["answer"] == "It is\nempty."
    with (project / "answer.txt").open("wb") as file:
        subprocess.run(
            [sys.executable, "-m", "amplifier_cli", "run", "look"],
            env=environment,
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=file,
            timeout=60,
            check=True,
        )
    assert (project / "answer.txt").read_text("utf-8") == "It is\nempty.\n"


async def streamed(hooks: HookRegistry, *texts: str) -> None:
    """Announce one answer of a model, each text a block in pieces of two characters."""
    stream = BlockStream(hooks)
    for index, text in enumerate(texts):
        await stream.start(index, "text")
        for at in range(0, len(text), 2):
            await stream.delta(index, text[at : at + 2])
        await stream.end(index)


async def broken_off(hooks: HookRegistry, text: str) -> None:
    """Announce an answer that breaks off."""
    stream = BlockStream(hooks)
    await stream.start(0, "text")
    await stream.delta(0, text)
    await stream.abort(ConnectionError("gone"))


@pytest.fixture
def hooks() -> HookRegistry:
    """The events of one session."""
    return HookRegistry()


@pytest.fixture
def stream(hooks: HookRegistry) -> AnswerStream:
    """The answer on stdout, which hears them."""
    listening = AnswerStream()
    listening.listen(hooks)
    return listening


async def test_what_has_streamed_is_not_written_again(
    hooks: HookRegistry, stream: AnswerStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await hooks.emit("provider:request", {})
    await streamed(hooks, "One.", "Two.")
    stream.finish("One.\n\nTwo.")

    assert capsys.readouterr().out == "One.\n\nTwo.\n"


async def test_an_answer_that_the_loop_gives_is_written_below(
    hooks: HookRegistry, stream: AnswerStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await hooks.emit("provider:request", {})
    await streamed(hooks, "Let me look.")
    await BlockStream(hooks).start(1, "tool_use", "look")
    await hooks.emit("provider:request", {})
    stream.finish("The budget is used up.")

    assert capsys.readouterr().out == "Let me look.\n\nThe budget is used up.\n"


async def test_what_comes_again_after_a_break_is_not_written_twice(
    hooks: HookRegistry, stream: AnswerStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await hooks.emit("provider:request", {})
    await broken_off(hooks, "The answer")
    await broken_off(hooks, "The")
    await streamed(hooks, "The answer is four.")
    stream.finish("The answer is four.")

    assert capsys.readouterr().out == "The answer is four.\n"


async def test_other_words_after_a_break_are_told_apart(
    hooks: HookRegistry, stream: AnswerStream, capsys: pytest.CaptureFixture[str]
) -> None:
    await hooks.emit("provider:request", {})
    await broken_off(hooks, "The answer")
    await streamed(hooks, "Four.")
    stream.finish("Four.")

    told = capsys.readouterr()
    assert told.out == "The answer\n\nFour.\n"
    assert "begins again with other words" in told.err


async def test_an_answer_that_did_not_stream_is_written_whole(
    stream: AnswerStream, capsys: pytest.CaptureFixture[str]
) -> None:
    stream.finish("Four.")
    stream.finish(None)

    assert capsys.readouterr().out == "Four.\n"
