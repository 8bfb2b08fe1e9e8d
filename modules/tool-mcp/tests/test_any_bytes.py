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
async def test_half_characters_and_nul_in_an_answer_are_replaced(harness: Any) -> None:
    answer = {
        "content": [{"type": "text", "text": "a\ud800\x00b"}],
        "structuredContent": {"\udfff": ["\ud83d", 1]},
    }
    harness.plan(does={"say": answer})
    await harness.mount()

    result = await harness.call(word="hello")

    assert result.success
    assert result.output["text"] == "a\ufffd\u2400b"
    assert result.output["structured"] == {"\ufffd": ["\ufffd", 1]}


@pytest.mark.attack("review L7")
@pytest.mark.parametrize("answer", _ANSWERS)
async def test_an_answer_of_any_shape_is_a_result_or_a_failure(harness: Any, answer: Any) -> None:
    harness.plan(does={"say": answer})
    await harness.mount()

    result = await harness.call(word="hello")

    assert result.success or result.error["type"] in ("server_error", "tool_error")
    json.dumps(result.model_dump(mode="json"), ensure_ascii=False).encode()


@pytest.mark.attack("review M5")
async def test_half_characters_in_a_definition_do_not_keep_a_server_away(harness: Any) -> None:
    harness.plan(tools=[harness.tool(), harness.tool("odd\ud800", "half \ud83d")])
    await harness.mount()

    result = await harness.call(word="hello")

    assert result.success
    for name in harness.names():
        harness.coordinator.get("tools", name).description.encode()
