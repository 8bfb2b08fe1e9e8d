"""Tests of answers that have to fit a schema."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, ProviderInfo
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import MockTool
from amplifier_module_loops.structured import OutputSchema
from contract.doubles import Display, Listener, broken_pairs, deny
from contract.installer import ScriptedProvider
from contract.turns import Turn, calls, loop

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('{"name": "Ada", "age": 36}', '{"age":36,"name":"Ada"}'),
        ('  ```json\n{"name": "Ada"}\n```\n', '{"name":"Ada"}'),
        ('```\n{"name": "Žofie"}```', '{"name":"Žofie"}'),
    ],
)
def test_json_is_read_plain_or_fenced_and_written_in_one_way(answer: str, text: str) -> None:
    checked = OutputSchema(SCHEMA).check(answer)

    assert checked.errors == []
    assert checked.text == text


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("Ada is 36.", "It is not JSON"),
        ('{"name": NaN}', "NaN is not a JSON number"),
        ('{"age": 36}', '"name" is a required property'),
        ('{"name": "Ada", "age": "36"}', "(at `age`)"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(answer: str, error: str) -> None:
    (found,) = OutputSchema(SCHEMA).check(answer).errors

    assert error in found


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "https://example.org/elsewhere.json"}]
)
async def test_a_schema_that_is_none_stops_the_mount(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="output_schema is not a JSON Schema"):
        await loop(output_schema=schema)


async def turn_of(*answers: Any, tools: Any = (), **config: Any) -> Turn:
    turn = Turn(await loop(output_schema=SCHEMA, **config), *answers, tools=tools)
    turn.coordinator.display_system = Display()
    turn.hooks.register("orchestrator:invalid_output", turn.heard)
    return turn


def ended(turn: Turn) -> tuple[str, Any]:
    (complete,) = turn.told("orchestrator:complete")
    return complete["stop_reason"], complete.get("result")


async def test_an_answer_that_fits_comes_back_as_data_too() -> None:
    turn = await turn_of(calls("t"), '{"name": "Ada"}', tools=[MockTool("t")])

    assert await turn.run() == '{"name":"Ada"}'

    assert ended(turn) == ("completed", {"name": "Ada"})
    assert all(request.response_format is None for request in turn.provider.requests)


async def test_an_answer_that_does_not_fit_is_asked_for_once_more_without_tools() -> None:
    turn = await turn_of("Her name is Ada.", '{"name": "Ada"}', tools=[MockTool("t")])

    assert await turn.run() == '{"name":"Ada"}'

    repair = turn.provider.requests[1]
    assert repair.tools is None
    assert isinstance(repair.response_format, ResponseFormatJsonSchema)
    assert repair.response_format.json_schema == SCHEMA
    assert "It is not JSON" in str(repair.messages[-1].content)
    assert [message["role"] for message in turn.context.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert ended(turn) == ("completed", {"name": "Ada"})


async def test_an_answer_that_does_not_fit_twice_is_returned_as_it_is_and_told_of() -> None:
    turn = await turn_of("Ada.", "Still Ada.")

    assert await turn.run() == "Still Ada."

    assert len(turn.provider.requests) == 2
    assert ended(turn) == ("invalid_output", None)
    assert "It is not JSON" in turn.told("orchestrator:invalid_output")[0]["errors"][0]
    assert "does not fit its schema" in turn.coordinator.display_system.shown[0][0]


async def test_a_model_that_calls_tools_instead_of_repairing_is_refused() -> None:
    tool = MockTool("t")
    turn = await turn_of("Ada.", calls("t"), tools=[tool])

    await turn.run()

    assert tool.call_count == 0
    assert broken_pairs(turn.context.messages) == []
    assert ended(turn) == ("invalid_output", None)


async def test_a_repair_can_be_denied() -> None:
    turn = await turn_of("Ada.")
    second = Listener(deny("enough"))

    async def once(event: str, data: dict[str, Any]) -> Any:
        return await second(event, data) if data["iteration"] == 2 else None

    turn.hooks.register("provider:request", once)

    assert await turn.run() == "Operation denied: enough"
    assert ended(turn) == ("denied", None)


@pytest.mark.parametrize(
    ("answer", "result"), [('{"name": "Ada"}', {"name": "Ada"}), ("Ada.", None)]
)
async def test_at_a_limit_the_answer_is_checked_and_not_repaired(answer: str, result: Any) -> None:
    turn = await turn_of(answer, max_iterations=0)

    await turn.run()

    assert len(turn.provider.requests) == 1
    assert ended(turn) == ("limit", result)
    assert len(turn.told("orchestrator:invalid_output")) == (result is None)


class InForm(ScriptedProvider):
    """A provider that can be asked for JSON."""

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="test", display_name="Test", capabilities=["json_mode"])


@pytest.mark.parametrize("tools", [[], [MockTool("t")]])
async def test_a_provider_that_knows_forms_is_asked_for_one_unless_there_are_tools(
    tools: list[MockTool],
) -> None:
    turn = await turn_of(tools=tools)
    turn.provider = InForm('{"name": "Ada"}')

    await turn.run()

    (request,) = turn.provider.requests
    assert (request.response_format is None) is bool(tools)
    assert isinstance(request, ChatRequest)
