"""Round trips: what a vendor verifies comes back byte for byte, and a prompt only ever grows."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.message_models import ToolSpec
from wire.conftest import Connect
from wire.line import LIST_FILES, PICTURE, READ_FILE, Line, results_for, stored
from wire.vendor import Answer, Block, Counts, RedactedThinking, Text, Thinking, ToolUse, Vendor

LOOK: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Look at this."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    ],
}
THOUGHT = Thinking(
    " First,\n\n the größte \U0001f44b\U0001f3fd plan…  ", "RXFRQ0NrWUlDaEFB/+8vQUJDREVGRw=="
)
CALL = ToolUse("call_1", "read_file", '{"path": "ä.txt"}')
WAYS = pytest.mark.parametrize(
    "metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"]
)


async def come_back(
    line: Line, answer: Answer, metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Get an answer, store it, send it back with its results, and return what was sent."""
    line.server.reply(answer, Answer.of("thanks"))
    response = await line.ask(LOOK, tools=[READ_FILE], metadata=metadata)
    await line.ask(LOOK, stored(response), *results_for(response), tools=[READ_FILE])
    return line.sent


@WAYS
async def test_a_transcript_with_thoughts_tools_and_pictures_comes_back_byte_for_byte(
    connect: Connect, vendor: Vendor, metadata: dict[str, Any] | None
) -> None:
    thoughts: list[Block] = [THOUGHT] if "thinking" in vendor.features else []
    second = ToolUse("call_2", "read_file", '{"path": "b"}')
    answer = Answer([*thoughts, Text("Let me see."), CALL, second], finish="tool_calls")
    line = await connect()

    sent = await come_back(line, answer, metadata)

    assert vendor.sent_checked_fields(sent) == vendor.checked_fields(answer)
    assert vendor.sent_images(sent) == [PICTURE]
    assert [call.arguments["path"] for call in vendor.sent_tool_calls(sent)] == ["ä.txt", "b"]
    assert [result.text for result in vendor.sent_tool_results(sent)] == ["done", "done"]


@pytest.mark.needs("thinking", "signature")
@WAYS
async def test_a_signed_thought_comes_back_with_its_signature(
    connect: Connect, vendor: Vendor, metadata: dict[str, Any] | None
) -> None:
    answer = Answer([THOUGHT, CALL], finish="tool_calls")
    line = await connect()

    sent = await come_back(line, answer, metadata)

    assert THOUGHT.signature in vendor.sent_checked_fields(sent)
    assert vendor.sent_checked_fields(sent) == vendor.checked_fields(answer)


@pytest.mark.needs("redacted")
@WAYS
async def test_a_redacted_thought_comes_back_untouched(
    connect: Connect, vendor: Vendor, metadata: dict[str, Any] | None
) -> None:
    redacted = RedactedThinking("EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr+w==")
    answer = Answer([redacted, CALL], finish="tool_calls")
    line = await connect()

    sent = await come_back(line, answer, metadata)

    assert redacted.data in vendor.sent_checked_fields(sent)
    assert vendor.sent_checked_fields(sent) == vendor.checked_fields(answer)


async def test_the_same_request_is_the_same_bytes(connect: Connect) -> None:
    line = await connect(Answer.of("ok"), Answer.of("ok"))

    for _ in range(2):
        await line.ask({"role": "system", "content": "Be brief."}, LOOK, tools=[READ_FILE])

    first, second = line.server.requests
    assert first.raw == second.raw


async def test_a_growing_conversation_only_adds_to_its_prefix(
    connect: Connect, vendor: Vendor
) -> None:
    thoughts: list[Block] = [THOUGHT] if "thinking" in vendor.features else []
    line = await connect(
        Answer([*thoughts, Text("Let me see."), CALL], finish="tool_calls"),
        Answer([ToolUse("call_2", "list_files", "{}")], finish="tool_calls"),
        Answer.of("That is all."),
        Answer.of("You are welcome."),
    )
    tools = [READ_FILE, LIST_FILES]
    said: list[Any] = [{"role": "system", "content": "Be brief."}, LOOK]

    for _ in range(3):
        response = await line.ask(*said, tools=tools)
        said += [stored(response), *results_for(response)]
    await line.ask(*said, "Thank you.", tools=tools)

    prefixes = [vendor.sent_prefix(each.body) for each in line.server.requests]
    for before, after in zip(prefixes, prefixes[1:], strict=False):
        assert after[: len(before)] == before
        assert len(after) > len(before)


async def test_tools_keep_the_order_they_were_mounted_in(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))
    tools = [ToolSpec(name=name, parameters={"type": "object", "properties": {}}) for name in "cab"]

    await line.ask("hi", tools=tools)

    assert [tool.name for tool in vendor.sent_tools(line.sent)] == ["c", "a", "b"]


# --- a cache that misses --------------------------------------------------------------------------


class Clock:
    """A tool of a module, as the coordinator holds it."""

    name = "list_files"


class Memory:
    """A context of a module, as the coordinator holds it."""


Clock.__module__ = "amplifier_module_tool_clock.tool"
Memory.__module__ = "amplifier_module_context_diary.memory"

CACHED = Counts(input=6_000, output=5, cache_read=5_000)
MISSED = Counts(input=6_000, output=5, cache_read=128)


async def two_calls(
    connect: Connect, first: dict[str, Any], second: dict[str, Any], usage: Counts = MISSED
) -> Line:
    line = await connect(Answer([Text("one")], CACHED), Answer([Text("two")], usage))
    line.coordinator.mount_points["tools"]["list_files"] = Clock()
    line.coordinator.mount_points["context"] = Memory()
    for call in (first, second):
        rules = {"role": "system", "content": call.get("system", "Be brief.")}
        await line.ask(rules, call.get("user", "hi"), tools=call.get("tools", [LIST_FILES]))
    return line


async def test_a_changed_system_text_is_named_when_the_cache_misses(connect: Connect) -> None:
    line = await two_calls(connect, {}, {"system": "Be brief. It is 12:01."})

    assert [(each["segment"], each["module"]) for each in line.of("provider:cache_miss")] == [
        ("system", "context-diary")
    ]
    assert any("context-diary" in shown for shown in line.display.lines)


async def test_a_changed_tool_is_named_when_the_cache_misses(connect: Connect) -> None:
    other = LIST_FILES.model_copy(update={"description": "List files. It is 12:01."})

    line = await two_calls(connect, {}, {"tools": [other]})

    assert [(each["segment"], each["module"]) for each in line.of("provider:cache_miss")] == [
        ("tool list_files", "tool-clock")
    ]


async def test_a_changed_message_is_named_when_the_cache_misses(connect: Connect) -> None:
    line = await two_calls(connect, {"user": "hi"}, {"user": "hi again"})

    missed = line.of("provider:cache_miss")
    assert [each["module"] for each in missed] == ["context-diary"]
    assert "(user)" in missed[0]["segment"]


async def test_a_miss_without_a_change_blames_nobody(connect: Connect) -> None:
    line = await two_calls(connect, {}, {})

    assert [(each["segment"], each["module"]) for each in line.of("provider:cache_miss")] == [
        (None, None)
    ]


async def test_a_cache_that_works_is_no_event(connect: Connect) -> None:
    line = await two_calls(connect, {}, {"system": "Be brief!"}, CACHED)

    assert line.of("provider:cache_miss") == []
