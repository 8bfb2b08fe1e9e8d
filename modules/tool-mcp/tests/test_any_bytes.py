"""A server may send any bytes: the call has a result that can be stored and sent on."""

from __future__ import annotations

import json
from typing import Any

import pytest

_DEEP: Any = json.loads("[" * 300 + "]" * 300)
_ANSWERS: list[Any] = [
    {"content": [], "structuredContent": {"x": _DEEP}},
    {"content": [{"type": "text", "text": _DEEP}]},
    {"content": [1, 2]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "image", "data": 5, "mimeType": []}]},
    {"content": [{"type": "resource", "resource": "x"}]},
    {"content": "x", "structuredContent": [1]},
    {"content": [], "isError": "perhaps"},
    {},
]


@pytest.mark.attack("review M5")
async def test_half_characters_and_nul_in_an_answer_are_replaced(house: Any) -> None:
    answer = {
        "content": [{"type": "text", "text": "a\ud800\x00b"}],
        "structuredContent": {"\udfff": ["\ud83d", 1]},
    }
    house.plan(does={"say": answer})
    await house.mount()

    result = await house.call(word="hello")

    assert result.success
    assert result.output["text"] == "a\ufffd\u2400b"
    assert result.output["structured"] == {"\ufffd": ["\ufffd", 1]}


@pytest.mark.attack("review L7")
@pytest.mark.parametrize("answer", _ANSWERS)
async def test_an_answer_of_any_shape_is_a_result_or_a_failure(house: Any, answer: Any) -> None:
    house.plan(does={"say": answer})
    await house.mount()

    result = await house.call(word="hello")

    assert result.success or result.error["type"] in ("server_error", "tool_error")
    json.dumps(result.model_dump(mode="json"), ensure_ascii=False).encode()


@pytest.mark.attack("review M5")
async def test_half_characters_in_a_definition_do_not_keep_a_server_away(house: Any) -> None:
    house.plan(tools=[house.tool(), house.tool("odd\ud800", "half \ud83d")])
    await house.mount()

    result = await house.call(word="hello")

    assert result.success
    for name in house.names():
        house.coordinator.get("tools", name).description.encode()
