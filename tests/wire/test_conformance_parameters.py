"""Parameters: what is asked for reaches the wire, or somebody is told that it did not."""

from __future__ import annotations

import pytest

from amplifier_core.message_models import ChatResponse, ResponseFormatJsonSchema
from wire.conftest import Connect
from wire.line import Line, request
from wire.vendor import Answer, Vendor

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


def was_told(line: Line, response: ChatResponse) -> bool:
    """Whether the caller and the user learn that something was not done as asked."""
    return response.degradation is not None and line.display.lines != []


@pytest.mark.parametrize("metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"])
async def test_a_schema_reaches_the_wire(
    connect: Connect, vendor: Vendor, metadata: dict[str, bool] | None
) -> None:
    line = await connect(Answer.of('{"city": "Bern", "people": 2}'))

    await line.ask(
        "Which?", response_format=ResponseFormatJsonSchema(json_schema=SCHEMA), metadata=metadata
    )

    sent = vendor.sent_schema(line.sent)
    assert sent is not None
    assert sent["properties"].keys() == {"city", "people"}
    assert set(sent["required"]) == {"city", "people"}


async def test_without_a_schema_none_is_sent(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("Bern"))

    await line.ask("Which?")

    assert vendor.sent_schema(line.sent) is None


async def test_the_limit_of_an_answer_reaches_the_wire(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("a"), Answer.of("b"), max_output_tokens=2_222)

    await line.ask("hi")
    configured = vendor.sent_max_tokens(line.sent)
    await line.ask("hi", max_output_tokens=3_333)

    assert (configured, vendor.sent_max_tokens(line.sent)) == (2_222, 3_333)


async def test_a_temperature_reaches_the_wire(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))

    response = await line.ask("hi", temperature=0.25)

    assert vendor.sent_temperature(line.sent) == 0.25 or was_told(line, response)


async def test_what_the_caller_says_wins_over_the_request(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))

    await line.provider.complete(request("hi", max_output_tokens=2_000), max_output_tokens=3_000)

    assert vendor.sent_max_tokens(line.sent) == 3_000


@pytest.mark.needs("stop")
async def test_stop_sequences_reach_the_wire(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("ok"))

    await line.ask("hi", stop=["END", "\n\n#"])

    assert vendor.sent_stop(line.sent) == ["END", "\n\n#"]


@pytest.mark.lacks("stop")
async def test_stop_sequences_that_cannot_be_sent_are_not_dropped_in_silence(
    connect: Connect,
) -> None:
    line = await connect(Answer.of("ok"))

    assert was_told(line, await line.ask("hi", stop=["END"]))


async def test_an_effort_reaches_the_wire(connect: Connect, vendor: Vendor) -> None:
    line = await connect(Answer.of("a"), Answer.of("b"))

    await line.ask("hi", reasoning_effort="low")
    low = vendor.sent_effort(line.sent)
    response = await line.ask("hi", reasoning_effort="high")
    high = vendor.sent_effort(line.sent)

    assert (low is not None and high not in (None, low)) or was_told(line, response)


async def test_an_answer_to_a_plain_request_is_not_degraded(connect: Connect) -> None:
    line = await connect(Answer.of("ok"))

    response = await line.ask({"role": "system", "content": "Be brief."}, "hi")

    assert response.degradation is None
    assert line.display.lines == []
