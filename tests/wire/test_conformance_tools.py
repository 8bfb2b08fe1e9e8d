"""Tools: what is offered, what is called, and never a call with half of its arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amplifier_core.history import INTERRUPTED
from amplifier_kit.tools import broken_problem
from contract.requirements import requirement
from wire.conftest import Connect
from wire.line import LIST_FILES, PICTURE, READ_FILE, calling, results_for, stored, text_of
from wire.vendor import Answer, SentCall, Text, ToolUse, Vendor

WITH_PICTURE: list[dict[str, Any]] = [
    {"type": "text", "text": "a cat"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
]


def calls(*uses: ToolUse, text: str = "") -> Answer:
    return Answer([*([Text(text)] if text else []), *uses], finish="tool_calls")


@pytest.mark.parametrize("metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"])
async def test_a_call_arrives_with_its_id_and_arguments(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    line = await connect(calls(ToolUse("call_1", "read_file", '{"path": "notes.txt"}')))

    response = await line.ask("read it", tools=[READ_FILE], metadata=metadata)

    found = line.provider.parse_tool_calls(response)
    assert [(each.id, each.name, each.arguments) for each in found] == [
        ("call_1", "read_file", {"path": "notes.txt"})
    ]
    assert response.finish_reason == "tool_calls"


async def test_parallel_calls_stay_apart_and_in_order(connect: Connect) -> None:
    uses = [ToolUse(f"call_{n}", "read_file", json.dumps({"path": f"{n}.txt"})) for n in range(4)]
    line = await connect(calls(*uses, text="All four."))

    response = await line.ask("read them", tools=[READ_FILE])

    assert [(each.id, each.arguments["path"]) for each in response.tool_calls or ()] == [
        ("call_0", "0.txt"), ("call_1", "1.txt"), ("call_2", "2.txt"), ("call_3", "3.txt"),
    ]  # fmt: skip


async def test_the_blocks_of_an_answer_hold_its_calls(connect: Connect) -> None:
    line = await connect(calls(ToolUse("call_1", "read_file", '{"path": "a"}'), text="Well."))

    response = await line.ask("read it", tools=[READ_FILE])

    assert [block.type for block in response.content] == ["text", "tool_call"]
    without_list = response.model_copy(update={"tool_calls": None})
    assert line.provider.parse_tool_calls(without_list) == response.tool_calls


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "Grüße/世界 \U0001f44b\U0001f3fd.txt"},
        {"path": 'a "b" \\ c\nd\te'},
        {"deep": {"list": [1, 2.5, None, True, {"x": ["y"]}]}, "path": ""},
        {"path": "x" * 5_000},
    ],
    ids=["unicode", "escapes", "nested", "long"],
)
async def test_arguments_arrive_as_the_model_wrote_them(
    connect: Connect, arguments: dict[str, Any]
) -> None:
    line = await connect(calls(ToolUse("call_1", "read_file", json.dumps(arguments))))

    response = await line.ask("read it", tools=[READ_FILE])

    assert [each.arguments for each in response.tool_calls or ()] == [arguments]


@pytest.mark.parametrize("metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"])
async def test_a_call_without_arguments_has_an_empty_dict(
    connect: Connect, metadata: dict[str, Any] | None
) -> None:
    line = await connect(calls(ToolUse("call_1", "list_files", "{}")))

    response = await line.ask("list", tools=[LIST_FILES], metadata=metadata)

    assert [each.arguments for each in response.tool_calls or ()] == [{}]


@pytest.mark.needs("argument_text")
async def test_a_streamed_call_whose_arguments_are_an_empty_text_has_an_empty_dict(
    connect: Connect,
) -> None:
    line = await connect(calls(ToolUse("call_1", "list_files", "")))

    response = await line.ask("list", tools=[LIST_FILES])

    assert [each.arguments for each in response.tool_calls or ()] == [{}]


@pytest.mark.needs("argument_text")
async def test_arguments_cut_off_by_the_limit_are_no_arguments(connect: Connect) -> None:
    half = ToolUse("call_1", "read_file", '{"path": "/etc/pass')
    line = await connect(Answer([Text("Reading."), half], finish="length"))

    response = await line.ask("read it", tools=[READ_FILE])

    [call] = response.tool_calls or []
    assert call.name == "read_file"
    assert "path" not in call.arguments
    assert "cut off by the output limit" in (broken_problem(call.arguments) or "")
    assert len(line.server.requests) == 1, "the same limit would cut it off again"


@pytest.mark.needs("argument_text")
@pytest.mark.parametrize("garbage", ['{"path": "/etc', "[1, 2]", "sorry"])
async def test_arguments_that_are_no_object_are_a_call_that_nobody_pays_for_again(
    connect: Connect, garbage: str
) -> None:
    good = calls(ToolUse("call_2", "read_file", '{"path": "a"}'))
    line = await connect(calls(ToolUse("call_1", "read_file", garbage)), good)

    response = await line.ask("read it", tools=[READ_FILE])

    [call] = response.tool_calls or []
    assert (call.id, call.name) == ("call_1", "read_file")
    assert broken_problem(call.arguments) is not None
    assert response.usage is not None
    assert line.of("provider:retry") == []
    assert len(line.server.requests) == 1


@pytest.mark.needs("argument_text")
async def test_a_call_that_could_not_be_read_goes_back_with_the_error_in_its_result(
    connect: Connect,
) -> None:
    line = await connect(calls(ToolUse("call_1", "read_file", '{"path": ')), Answer.of("Sorry."))
    response = await line.ask("read it", tools=[READ_FILE])

    said = [stored(response), *results_for(response, "not JSON")]
    answer = await line.ask("read it", *said, tools=[READ_FILE])

    assert text_of(answer) == "Sorry."


async def test_tools_are_offered_as_they_were_given(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("hello"))

    await line.ask("hi", tools=[READ_FILE, LIST_FILES])

    sent = vendor.sent_tools(line.sent)
    assert [(each.name, each.description) for each in sent] == [
        ("read_file", "Read a file."),
        ("list_files", "List files."),
    ]
    assert set(sent[0].schema["properties"]) == {"path"}
    assert sent[0].schema["required"] == ["path"]


@pytest.mark.parametrize("choice", ["auto", "none", "required", "read_file"])
async def test_a_choice_of_tool_reaches_the_wire(
    connect: Connect, vendor: Vendor, choice: str
) -> None:
    line = await connect(Answer.of("hello"))

    await line.ask("hi", tools=[READ_FILE, LIST_FILES], tool_choice=choice)

    assert vendor.sent_tool_choice(line.sent) == choice


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain text", "plain text"),
        ("  spaces\n", "  spaces\n"),
        ([{"type": "text", "text": "a block"}], "a block"),
        ([{"type": "tool_result", "tool_call_id": "call_1", "output": {"größe": 1}}],
         '{"größe": 1}'),
        ([{"type": "tool_result", "tool_call_id": "call_1", "output": [1, "two"]}], '[1, "two"]'),
        ([{"type": "tool_result", "tool_call_id": "call_1", "output": "as text"}], "as text"),
    ],
    ids=["text", "spaces", "block", "dict", "list", "text-block"],
)  # fmt: skip
async def test_a_result_reaches_the_wire_as_text(
    connect: Connect, vendor: Vendor, content: Any, expected: str
) -> None:
    line = await connect(Answer.of("thanks"))
    result = {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": content}

    await line.ask("read", calling("call_1"), result, tools=[READ_FILE])

    assert [(each.id, each.text) for each in vendor.sent_tool_results(line.sent)] == [
        ("call_1", expected)
    ]


@pytest.mark.needs("tool_result_images")
async def test_a_picture_in_a_result_reaches_the_wire(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("a cat"))
    result = {"role": "tool", "tool_call_id": "call_1", "content": WITH_PICTURE}

    response = await line.ask("look", calling("call_1"), result, tools=[READ_FILE])

    sent = vendor.sent_tool_results(line.sent)
    assert [(each.id, each.text, each.images) for each in sent] == [("call_1", "a cat", [PICTURE])]
    assert response.degradation is None


@pytest.mark.lacks("tool_result_images")
async def test_a_picture_that_cannot_be_in_a_result_is_not_dropped_in_silence(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Answer.of("a cat"))
    result = {"role": "tool", "tool_call_id": "call_1", "content": WITH_PICTURE}

    response = await line.ask("look", calling("call_1"), result, tools=[READ_FILE])

    assert "a cat" in vendor.sent_tool_results(line.sent)[0].text
    assert response.degradation is not None
    assert line.display.lines != []


async def test_several_results_answer_their_own_calls(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("thanks"))
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": f"r{n}"} for n in range(3)]

    await line.ask("read", calling("call_0", "call_1", "call_2"), *results, tools=[READ_FILE])

    sent = vendor.sent_tool_results(line.sent)
    assert [(each.id, each.text) for each in sent] == [
        ("call_0", "r0"), ("call_1", "r1"), ("call_2", "r2"),
    ]  # fmt: skip


@pytest.mark.parametrize("call_id", ["functions.read:0/é", "with spaces", "x" * 100])
async def test_a_call_with_the_id_of_another_vendor_keeps_its_result(
    connect: Connect, vendor: Vendor, call_id: str
) -> None:
    line = await connect(Answer.of("thanks"))
    result = {"role": "tool", "tool_call_id": call_id, "content": "text"}

    await line.ask("read", calling(call_id), result, tools=[READ_FILE])

    [call], [answer] = vendor.sent_tool_calls(line.sent), vendor.sent_tool_results(line.sent)
    assert (call.id, answer.text) == (answer.id, "text")


async def test_a_call_that_is_stored_twice_is_sent_once(connect: Connect, vendor: Vendor) -> None:
    answer = calls(ToolUse("call_1", "read_file", '{"path": "a"}'), text="Well.")
    line = await connect(answer, Answer.of("thanks"))
    response = await line.ask("read", tools=[READ_FILE])

    await line.ask("read", stored(response), *results_for(response), tools=[READ_FILE])

    assert vendor.sent_tool_calls(line.sent) == [SentCall("call_1", "read_file", {"path": "a"})]


async def test_a_call_that_is_stored_beside_the_content_is_sent(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Answer.of("thanks"))
    call = {"id": "call_1", "tool": "read_file", "arguments": {"path": "a"}}
    message = {"role": "assistant", "content": "Well.", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "text"}

    await line.ask("read", message, result, tools=[READ_FILE])

    assert vendor.sent_tool_calls(line.sent) == [SentCall("call_1", "read_file", {"path": "a"})]


@requirement("PROV-10")
async def test_a_missing_result_is_filled_in_and_reported(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("thanks"))
    result = {"role": "tool", "tool_call_id": "call_1", "content": "r1"}

    await line.ask("read", calling("call_1", "call_2"), result, "go on", tools=[READ_FILE])

    sent = vendor.sent_tool_results(line.sent)
    assert [(each.id, each.text) for each in sent] == [("call_1", "r1"), ("call_2", INTERRUPTED)]
    repaired = line.of("provider:tool_sequence_repaired")
    assert [(each["provider"], each["repair_count"]) for each in repaired] == [
        (line.provider.name, 1)
    ]


@requirement("PROV-10")
async def test_a_result_without_a_call_is_dropped_and_reported(
    connect: Connect, vendor: Vendor
) -> None:
    line = await connect(Answer.of("thanks"))

    await line.ask("read", {"role": "tool", "tool_call_id": "lost", "content": "r"}, "go on")

    assert vendor.sent_tool_results(line.sent) == []
    assert [each["repair_count"] for each in line.of("provider:tool_sequence_repaired")] == [1]


async def test_a_sound_history_needs_no_repair(connect: Connect) -> None:
    line = await connect(Answer.of("thanks"))
    result = {"role": "tool", "tool_call_id": "call_1", "content": "r1"}

    await line.ask("read", calling("call_1"), result, tools=[READ_FILE])

    assert line.of("provider:tool_sequence_repaired") == []
