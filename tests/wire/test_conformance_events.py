"""Events: who listens learns of every call, and sees a streamed answer as it arrives."""

from __future__ import annotations

from uuid import UUID

import pytest

from amplifier_core.llm_errors import InvalidRequestError
from wire.conftest import Connect
from wire.line import READ_FILE, Line
from wire.vendor import Answer, Block, Refuse, Text, Thinking, ToolUse, Vendor

STREAM = "llm:stream_"
USAGE_KEYS = {"input_tokens", "output_tokens", "cost_usd"}
OPTIONAL_USAGE_KEYS = {"cache_read_tokens", "cache_write_tokens"}
STORED_AS = {"text": {"text"}, "thinking": {"thinking", "reasoning"}, "tool_use": {"tool_call"}}


def rich_answer(vendor: Vendor) -> Answer:
    thoughts: list[Block] = [Thinking("hm hm", "c2ln")] if "thinking" in vendor.features else []
    call = ToolUse("call_1", "read_file", '{"path": "notes.txt"}')
    return Answer([*thoughts, Text("Let me see."), call], finish="tool_calls")


def stream_events(line: Line) -> list[tuple[str, int, str]]:
    return [
        (name.removeprefix(STREAM), data["block_index"], data["block_type"])
        for name, data in line.events
        if name.startswith(STREAM)
    ]


async def test_a_call_is_announced_before_and_after(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("hello"), use_streaming=False)

    await line.ask({"role": "system", "content": "Be brief."}, "hi")

    assert [event.name for event in line.events] == ["llm:request", "llm:response"]
    asked, answered = line.of("llm:request")[0], line.of("llm:response")[0]
    name = line.provider.name
    assert (asked["provider"], asked["model"], asked["message_count"]) == (name, vendor.model, 2)
    assert (answered["provider"], answered["model"]) == (name, vendor.model)
    assert answered["status"] == "ok"
    assert isinstance(answered["duration_ms"], int)
    assert answered["request_id"] == asked["request_id"]
    assert "raw" not in asked
    assert "raw" not in answered


async def test_the_usage_of_a_response_has_the_normative_keys(connect: Connect) -> None:
    line = await connect(Answer.of("hello", input=100, output=7))

    await line.ask("hi")

    usage = line.of("llm:response")[0]["usage"]
    assert usage.keys() >= USAGE_KEYS
    assert usage.keys() <= USAGE_KEYS | OPTIONAL_USAGE_KEYS
    assert (usage["input_tokens"], usage["output_tokens"]) == (100, 7)
    assert usage["cost_usd"] is None or isinstance(usage["cost_usd"], str)


async def test_a_call_that_fails_is_announced_as_failed(connect: Connect) -> None:
    line = await connect(Refuse(400, "invalid", "the number is too odd"))

    with pytest.raises(InvalidRequestError):
        await line.ask("hi")

    answered = line.of("llm:response")
    assert [each["status"] for each in answered] == ["error"]
    assert answered[0]["error"]["type"] == "InvalidRequestError"
    assert "the number is too odd" in answered[0]["error"]["msg"]


async def test_every_block_begins_and_ends_in_its_place(connect: Connect, vendor: Vendor) -> None:
    line = await connect(rich_answer(vendor))

    response = await line.ask("hi", tools=[READ_FILE])

    seen = stream_events(line)
    starts = [(index, kind) for name, index, kind in seen if name == "block_start"]
    ends = [(index, kind) for name, index, kind in seen if name == "block_end"]
    assert [index for index, _ in starts] == list(range(len(starts)))
    assert sorted(ends) == starts
    assert len(starts) == len(response.content)
    for (_, kind), block in zip(starts, response.content, strict=True):
        assert block.type in STORED_AS[kind]


async def test_fragments_come_between_start_and_end_of_their_block(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(rich_answer(vendor))

    await line.ask("hi", tools=[READ_FILE])

    began: set[int] = set()
    for name, index, _ in stream_events(line):
        if name == "block_start":
            began.add(index)
        assert index in began, f"{name} of a block that is not open"
        if name == "block_end":
            began.remove(index)
    assert began == set()


async def test_fragments_are_numbered_and_make_up_the_block(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(rich_answer(vendor))

    await line.ask("hi", tools=[READ_FILE])

    deltas = line.of(f"{STREAM}block_delta")
    texts = {"thinking": "hm hm", "text": "Let me see."}
    for index in {each["block_index"] for each in deltas}:
        mine = [each for each in deltas if each["block_index"] == index]
        assert [each["sequence"] for each in mine] == list(range(len(mine)))
        assert len(mine) > 1, "the server sent it in pieces"
        assert "".join(each["text"] for each in mine) == texts[mine[0]["block_type"]]


async def test_tool_input_is_not_announced_but_the_tool_is(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(rich_answer(vendor))

    await line.ask("hi", tools=[READ_FILE])

    starts = line.of(f"{STREAM}block_start")
    assert [each["name"] for each in starts if each["block_type"] == "tool_use"] == ["read_file"]
    assert not any("name" in each for each in starts if each["block_type"] != "tool_use")
    assert "tool_use" not in {each["block_type"] for each in line.of(f"{STREAM}block_delta")}


async def test_one_id_ties_the_events_of_a_stream_together(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(rich_answer(vendor), rich_answer(vendor))

    await line.ask("hi", tools=[READ_FILE])
    await line.ask("hi", tools=[READ_FILE])

    ids = [data["request_id"] for name, data in line.events if name.startswith(STREAM)]
    assert len(set(ids)) == 2
    assert {UUID(each).version for each in ids} == {4}
    half = len(ids) // 2
    assert (len(set(ids[:half])), len(set(ids[half:]))) == (1, 1)


async def test_an_unstreamed_answer_announces_no_blocks(connect: Connect, vendor: Vendor) -> None:
    line = await connect(rich_answer(vendor))

    await line.ask("hi", tools=[READ_FILE], metadata={"stream": False})

    assert stream_events(line) == []


async def test_an_answer_that_ends_well_is_not_aborted(connect: Connect, vendor: Vendor) -> None:
    line = await connect(rich_answer(vendor))

    await line.ask("hi", tools=[READ_FILE])

    assert line.of(f"{STREAM}aborted") == []


async def test_apps_can_learn_which_events_to_expect(connect: Connect) -> None:
    line = await connect()

    channels = await line.coordinator.collect_contributions("observability.events")

    announced = {name for channel in channels for name in channel}
    assert announced >= {
        "llm:stream_block_start",
        "llm:stream_block_delta",
        "llm:stream_block_end",
        "llm:stream_aborted",
        "provider:cache_miss",
    }
