"""A prompt of content blocks: the model gets the blocks, hooks get and change its text."""

from __future__ import annotations

from typing import Any, cast

import pytest

from amplifier_core import AmplifierSession, events
from amplifier_core.models import HookResult
from amplifier_kit.turn_events import OUTPUT_SCHEMA

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}}
PROMPT = [{"type": "text", "text": "What is"}, IMAGE, {"type": "text", "text": "this?"}]
LOOPS = ["loop-basic", "loop-events", "loop-streaming"]


def plan_of(loop: str, *answers: str) -> dict[str, Any]:
    return {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"script": list(answers)}}],
    }


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("changed", [None, "What else?"])
async def test_hooks_read_and_change_the_text_of_a_prompt_with_images(
    loop: str, changed: str | None
) -> None:
    seen: list[str] = []

    async def change(_: str, data: dict[str, Any]) -> HookResult:
        seen.append(data["prompt"])
        if changed is None:
            return HookResult(action="continue")
        return HookResult(action="modify", data={**data, "prompt": changed})

    async with AmplifierSession(plan_of(loop, "A cat.")) as session:
        session.coordinator.hooks.register(events.PROMPT_SUBMIT, change, name="test")
        await session.execute(cast("str", PROMPT))
        context: Any = session.coordinator.get("context")
        first = (await context.get_messages())[0]

    assert seen == ["What is\nthis?"]
    if changed is None:
        assert first["content"] == PROMPT
    else:
        assert first["content"] == [{"type": "text", "text": changed}, IMAGE]


async def test_a_schema_for_one_turn_does_not_hold_for_the_next() -> None:
    plan = plan_of("loop-basic", "[1]", "plain")

    async with AmplifierSession(plan) as session:
        session.coordinator.register_capability(OUTPUT_SCHEMA, {"type": "array"})
        assert await session.execute("A list.") == "[1]"
        session.coordinator.register_capability(OUTPUT_SCHEMA, None)
        assert await session.execute("A text.") == "plain"


async def test_an_answer_that_does_not_fit_the_schema_of_the_turn_is_repaired_once() -> None:
    endings: list[dict[str, Any]] = []

    async def end(_: str, data: dict[str, Any]) -> None:
        endings.append(data)

    async with AmplifierSession(plan_of("loop-basic", "no list", "[1]")) as session:
        session.coordinator.hooks.register(events.ORCHESTRATOR_COMPLETE, end, name="test")
        session.coordinator.register_capability(OUTPUT_SCHEMA, {"type": "array"})
        await session.execute("A list.")

    assert endings[0]["stop_reason"] == "completed"
    assert endings[0]["result"] == [1]
