"""A whole session: the model calls `bash`, the user is asked, and the answer counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession

COMMAND = "echo ran > ran; echo seen"


class Person:
    """Answers every question alike, and remembers what was asked."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        self.asked.append(prompt)
        return self.answer


async def told_to_the_model(workspace: Path, person: Person | None, **config: Any) -> str:
    """Let the model call `bash` once and return the result it was given."""
    call = {"name": "bash", "arguments": {"command": COMMAND}}
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [
            {"module": "provider-mock", "config": {"script": [{"tool_calls": [call]}, "Done."]}}
        ],
        "tools": [
            {"module": "tool-bash", "config": {"working_dir": str(workspace), **config}},
        ],
    }
    async with asyncio.timeout(120), AmplifierSession(plan, approval_system=person) as session:
        await session.execute("Run it.")
        context: Any = session.coordinator.get("context")
        messages = await context.get_messages()
    return next(str(message["content"]) for message in messages if message["role"] == "tool")


@pytest.mark.parametrize("answer", ["Allow once", "Deny", "hm"])
async def test_a_command_runs_only_after_a_yes(workspace: Path, answer: str) -> None:
    person = Person(answer)

    result = await told_to_the_model(workspace, person)

    assert [question.splitlines()[-1] for question in person.asked] == [f"1 | {COMMAND}"]
    assert (workspace / "ran").exists() == (answer == "Allow once")
    assert ("exit_code" in result) == (answer == "Allow once")


async def test_without_a_person_what_no_rule_allows_does_not_run(workspace: Path) -> None:
    result = await told_to_the_model(workspace, None)

    assert result == "Denied by hook: No approval system available"
    assert not (workspace / "ran").exists()


async def test_without_a_person_what_needs_no_question_runs(workspace: Path) -> None:
    result = await told_to_the_model(workspace, None, ask=False)

    assert '"stdout": "seen\\n"' in result
    assert (workspace / "ran").exists()
