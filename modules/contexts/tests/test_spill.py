"""Large tool results are put aside, and can be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_core.testing import EventRecorder
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.spill import MemoryBlobs, ReadResultTool, Spill

Build = Callable[..., FittingContext]
LINES = "".join(f"line {number}\n" for number in range(1, 5_001))


def result(content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": content}


async def read(context: FittingContext, handle: str, **arguments: Any) -> Any:
    assert context.spill is not None
    tool = ReadResultTool(context.spill.blobs, context.spill.limit)
    return await tool.execute({"handle": handle, **arguments})


async def test_a_large_result_is_stored_as_head_tail_and_handle(
    build: Build, recorder: EventRecorder
) -> None:
    context = build(blob_bytes=10**6)

    await context.add_message(result(LINES))

    [message] = await context.get_messages()
    [(_, told)] = recorder.get_events("context:spilled")
    assert len(message["content"]) < 5_000
    assert message["content"].startswith(f"[{told['handle']}: a result of {len(LINES)} characters")
    assert "line 1\n" in message["content"]
    assert message["content"].endswith("line 5000\n")
    assert told["characters"] == len(LINES)
    assert (told["tool_name"], told["tool_call_id"]) == ("bash", "c1")


async def test_the_whole_can_be_read_by_lines_and_by_characters(
    build: Build, recorder: EventRecorder
) -> None:
    context = build(blob_bytes=10**6)
    await context.add_message(result(LINES))
    handle = recorder.get_events("context:spilled")[0][1]["handle"]

    by_lines = (await read(context, handle, range="2000-2001")).output
    by_chars = (await read(context, handle, range="chars:0-6")).output
    default = (await read(context, handle)).output
    one = (await read(context, handle, range="5000")).output

    assert by_lines.partition("\n")[2] == "line 2000\nline 2001\n"
    assert "lines 2000-2001 of 5000" in by_lines
    assert by_chars.partition("\n")[2] == "line 1"
    assert default.endswith("line 200\n")
    assert one.partition("\n")[2] == "line 5000\n"
    assert "next:" not in one


@pytest.mark.parametrize("spill_chars", [1_000, 20_000])
async def test_reading_on_as_told_gives_the_whole_and_is_never_put_aside_itself(
    build: Build, recorder: EventRecorder, spill_chars: int
) -> None:
    text = "long " * 6_000
    context = build(blob_bytes=10**6, spill_chars=spill_chars)
    await context.add_message(result(text))
    handle = recorder.get_events("context:spilled")[0][1]["handle"]

    pieces, wanted = "", "1-200"
    while wanted:
        output = (await read(context, handle, range=wanted)).output
        await context.add_message(result(output))
        header, _, piece = output.partition("\n")
        pieces += piece
        wanted = header.partition('range="')[2].partition('"')[0]

    assert pieces == text
    assert len(recorder.get_events("context:spilled")) == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"range": "all"}, "Cannot read the range `all`"),
        ({"range": "0-5"}, "Nothing at `0-5`: result-"),
        ({"range": "9000-9001"}, "has 5000 lines"),
        ({"range": "9-3"}, "Nothing at"),
        ({"range": "chars:999999-9999999"}, "Nothing at"),
        ({"range": 7}, "must be a text"),
        ({"handle": None}, "must be a text"),
        ({"handle": "result-000000000000"}, "no longer kept"),
        ({"handle": "../../etc/passwd"}, "There is no result"),
    ],
)
async def test_what_cannot_be_read_is_a_readable_failure(
    build: Build, recorder: EventRecorder, wrong: dict[str, Any], says: str
) -> None:
    context = build(blob_bytes=10**6)
    await context.add_message(result(LINES))
    handle = recorder.get_events("context:spilled")[0][1]["handle"]

    answer = await read(context, **{"handle": handle, **wrong})

    assert answer.success is False
    assert says in answer.get_serialized_output()


async def test_the_large_texts_of_rich_content_are_put_aside_and_the_rest_stays() -> None:
    blobs = MemoryBlobs(10**6)
    image = {"type": "image", "source": {"data": "i" * 50_000}}
    message = result([{"type": "text", "text": "small"}, image, {"type": "text", "text": LINES}])

    reduced, [spilled] = await Spill(blobs, 20_000).reduce(message)

    small, picture, large = reduced["content"]
    assert (small, picture) == (message["content"][0], image)
    assert spilled.handle in large["text"]
    assert await blobs.get(spilled.handle) == message["content"][2]["text"] == LINES


async def test_of_a_user_s_message_only_the_results_in_it_are_put_aside() -> None:
    blocks = [
        {"type": "text", "text": LINES},
        {"type": "tool_result", "tool_call_id": "c1", "output": LINES},
    ]

    reduced, spilled = await Spill(MemoryBlobs(10**6), 20_000).reduce(
        {"role": "user", "content": blocks}
    )

    assert reduced["content"][0] is blocks[0]
    assert len(reduced["content"][1]["output"]) < 5_000
    assert len(spilled) == 1


@pytest.mark.parametrize(
    "message",
    [
        result("x" * 20_000),
        {"role": "user", "content": LINES},
        {"role": "assistant", "content": [{"type": "text", "text": LINES}]},
        {"role": "tool", "content": None},
    ],
)
async def test_what_is_no_large_result_is_stored_as_it_is(message: dict[str, Any]) -> None:
    reduced, spilled = await Spill(MemoryBlobs(10**6), 20_000).reduce(message)

    assert reduced is message
    assert spilled == []


async def test_the_same_text_is_stored_once() -> None:
    blobs = MemoryBlobs(len(LINES))

    handles = {await blobs.put(LINES) for _ in range(3)}

    assert len(handles) == 1
    assert blobs.dropped == []


async def test_when_there_is_no_more_room_the_oldest_goes_and_it_is_said(
    build: Build, recorder: EventRecorder, screen: Any
) -> None:
    context = build(blob_bytes=60_000)
    for letter in "abc":
        await context.add_message(result(letter * 25_000))

    first, second, _ = (data["handle"] for _, data in recorder.get_events("context:spilled"))

    assert recorder.get_events("context:blob_dropped")[0][1] == {"handle": first}
    assert screen.lines == [
        f"warning: {first} is no longer kept whole: the results put aside outgrew `blob_bytes`."
    ]
    assert (await read(context, first)).success is False
    assert (await read(context, second)).success is True


async def test_the_handle_survives_when_the_excerpt_is_shortened_in_a_view(
    build: Build, recorder: EventRecorder
) -> None:
    context = build(blob_bytes=10**6, max_tokens=2_000)
    await context.add_message({"role": "user", "content": "go"})
    await context.add_message({"role": "assistant", "tool_calls": [{"id": "c1", "tool": "bash"}]})
    await context.add_message(result(LINES))
    for _ in range(5):
        await context.add_message({"role": "user", "content": "x" * 600})

    view = await context.get_messages_for_request()

    [shown] = [each["content"] for each in view if each["role"] == "tool"]
    assert len(shown) <= 1_000
    assert recorder.get_events("context:spilled")[0][1]["handle"] in shown


@given(st.text(min_size=1), st.integers(1, 50), st.integers(0, 60))
async def test_a_range_of_lines_is_exactly_those_lines(text: str, first: int, more: int) -> None:
    blobs = MemoryBlobs(10**6)
    handle = await blobs.put(text)
    lines = text.split("\n")
    lines = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

    answer = await ReadResultTool(blobs, 20_000).execute(
        {"handle": handle, "range": f"{first}-{first + more}"}
    )

    wanted = "".join(lines[first - 1 : first + more])
    assert answer.success is bool(wanted)
    assert not wanted or str(answer.output).partition("\n")[2] == wanted


async def test_without_a_length_nothing_is_put_aside_and_there_is_no_tool_to_read_it() -> None:
    plan = {
        "session": {
            "orchestrator": "loop-basic",
            "context": {"module": "context-simple", "config": {"spill_chars": None}},
        },
        "providers": [{"module": "provider-mock"}],
    }

    async with AmplifierSession(plan) as session:
        context: Any = session.coordinator.get("context")
        await context.add_message(result(LINES))
        [message] = await context.get_messages()
        tools: Any = session.coordinator.get("tools")

    assert message["content"] == LINES
    assert not tools
