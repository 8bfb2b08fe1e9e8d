"""Answers: what the server says is what the caller gets, streamed or not."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import ContentFilterError
from amplifier_core.message_models import ChatResponse
from contract.requirements import requirement
from wire.conftest import Connect
from wire.line import READ_FILE, request, text_of
from wire.vendor import Answer, Counts, Shred, Text, Thinking, ToolUse, Vendor

UNSTREAMED = {"stream": False}


def as_data(response: ChatResponse) -> dict[str, Any]:
    return response.model_dump(mode="json", include={"content", "tool_calls", "usage"})


async def test_a_text_arrives(connect: Connect) -> None:
    line = await connect(Answer.of("Hello, world."))

    response = await line.ask("hi")

    assert text_of(response) == "Hello, world."
    assert response.finish_reason == "stop"
    assert not response.tool_calls


@pytest.mark.parametrize("metadata", [None, UNSTREAMED], ids=["streamed", "unstreamed"])
@pytest.mark.parametrize(
    "text",
    [
        "  lead and trail \n\n",
        "Grüße, 世界 \U0001f44b\U0001f3fd — done",
        'a "quoted" \\ back\tslash',
        "x" * 20_000,
    ],
    ids=["spaces", "unicode", "escapes", "long"],
)
async def test_a_text_arrives_to_the_letter(
    connect: Connect, text: str, metadata: dict[str, Any] | None
) -> None:
    line = await connect(Answer.of(text))

    assert text_of(await line.ask("hi", metadata=metadata)) == text


@pytest.mark.parametrize(
    "blocks",
    [
        [Text("Let me look at it.")],
        [ToolUse("call_1", "read_file", '{"path": "a"}')],
        [Text("Both of them."), ToolUse("call_1", "read_file", '{"path": "a"}'),
         ToolUse("call_2", "read_file", '{"path": "b"}')],
    ],
    ids=["text", "call", "text-and-calls"],
)  # fmt: skip
async def test_a_streamed_answer_equals_the_unstreamed_one(
    connect: Connect, blocks: list[Text | ToolUse]
) -> None:
    finish = "tool_calls" if isinstance(blocks[-1], ToolUse) else "stop"
    answer = Answer(blocks, Counts(2_000, 50, cache_read=500), finish)
    line = await connect(answer, answer)

    streamed = await line.ask("hi", tools=[READ_FILE])
    whole = await line.ask("hi", tools=[READ_FILE], metadata=UNSTREAMED)

    assert as_data(streamed) == as_data(whole)
    assert streamed.finish_reason == whole.finish_reason == finish


@pytest.mark.needs("thinking")
async def test_a_streamed_thought_equals_the_unstreamed_one(connect: Connect) -> None:
    answer = Answer([Thinking("First this, then that.", "c2lnbmVk"), Text("Done.")])
    line = await connect(answer, answer)

    streamed = await line.ask("hi")
    whole = await line.ask("hi", metadata=UNSTREAMED)

    assert [block.type for block in streamed.content] == ["thinking", "text"]
    assert as_data(streamed) == as_data(whole)


async def test_a_thought_is_never_taken_for_text(connect: Connect, vendor: Vendor) -> None:
    thoughts = [Thinking("secret plan")] if "thinking" in vendor.features else []
    line = await connect(Answer([*thoughts, Text("the answer")]))

    assert text_of(await line.ask("hi")) == "the answer"


@requirement("PROV-10")
async def test_an_answer_at_its_limit_says_so(connect: Connect) -> None:
    line = await connect(Answer([Text("It was a dark and")], finish="length"))

    response = await line.ask("tell me a story")

    assert (text_of(response), response.finish_reason) == ("It was a dark and", "length")


@pytest.mark.parametrize("metadata", [None, UNSTREAMED], ids=["streamed", "unstreamed"])
async def test_an_answer_that_was_filtered_away_is_an_error(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    line = await connect(Answer([], finish="filter"))

    with pytest.raises(ContentFilterError):
        await line.ask("hi", metadata=metadata)

    assert len(line.server.requests) == 1


@pytest.mark.parametrize("metadata", [None, UNSTREAMED], ids=["streamed", "unstreamed"])
async def test_what_was_said_before_the_filter_struck_is_kept(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    line = await connect(Answer([Text("The recipe is")], finish="filter"))

    response = await line.ask("hi", metadata=metadata)

    assert (text_of(response), response.finish_reason) == ("The recipe is", "content_filter")


@pytest.mark.parametrize("metadata", [None, UNSTREAMED], ids=["streamed", "unstreamed"])
async def test_a_model_may_have_nothing_to_say(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    line = await connect(Answer([]))

    response = await line.ask("hi", metadata=metadata)

    assert (text_of(response), response.finish_reason) == ("", "stop")


@pytest.mark.parametrize("metadata", [None, UNSTREAMED], ids=["streamed", "unstreamed"])
async def test_it_does_not_matter_how_the_bytes_are_cut_up(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    call = ToolUse("call_1", "read_file", '{"path": "Grüße/世界.txt"}')
    line = await connect(
        Shred(Answer([Text("Grüße, 世界 \U0001f44b\U0001f3fd!"), call], finish="tool_calls"))
    )

    response = await line.ask("hi", tools=[READ_FILE], metadata=metadata)

    assert text_of(response) == "Grüße, 世界 \U0001f44b\U0001f3fd!"
    assert [each.arguments for each in response.tool_calls or ()] == [{"path": "Grüße/世界.txt"}]


@pytest.mark.needs("comments")
async def test_a_comment_in_a_stream_is_not_an_answer(connect: Connect) -> None:
    line = await connect(Shred(Answer.of("Hello, world."), comment=b": PROCESSING\n\n"))

    assert text_of(await line.ask("hi")) == "Hello, world."


async def test_the_server_is_asked_for_a_stream_unless_somebody_said_no(
    connect: Connect, vendor: Vendor
) -> None:
    plain = await connect(Answer.of("a"), Answer.of("b"))
    quiet = await connect(Answer.of("c"), use_streaming=False)

    await plain.ask("hi")
    await plain.ask("hi", metadata=UNSTREAMED)
    await quiet.ask("hi")

    received = [*plain.server.requests, *quiet.server.requests]
    asked = [vendor.wants_stream(each.path, each.body) for each in received]
    assert asked == [True, False, False]


async def test_the_model_is_the_default_unless_the_request_or_the_caller_names_another(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(*[Answer.of("hello")] * 3)

    await line.ask("hi")
    await line.ask("hi", model="model-of-the-request")
    await line.provider.complete(request("hi", model="ignored"), model="model-of-the-caller")

    asked = [vendor.sent_model(each.path, each.body) for each in line.server.requests]
    assert asked == [vendor.model, "model-of-the-request", "model-of-the-caller"]


async def test_the_key_reaches_the_server_and_no_event(connect: Connect) -> None:
    line = await connect(Answer.of("hello"), api_key="sk-0123456789abcdef", raw=True)

    await line.ask("hi")

    assert "sk-0123456789abcdef" in str(line.server.requests[0].headers)
    assert "sk-0123456789abcdef" not in str(line.events)
    assert "raw" in line.of("llm:request")[0]
    assert "raw" in line.of("llm:response")[0]
