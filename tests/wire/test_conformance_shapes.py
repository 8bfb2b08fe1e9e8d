"""An answer of any shape is an answer or a model error: nothing else, and never silence."""

from __future__ import annotations

import json
import random
from typing import Any, cast

import pytest

from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatResponse
from wire.conftest import Connect
from wire.vendor import Answer, Text, ToolUse, Vendor

_DEEP = "\u0007deep"
_WRONG: list[Any] = [[], [1, 2], {}, {"a": 1}, 5, -1, True, None, "x", "\ud800\x00", 1.5, _DEEP]
_NESTED = "[" * 20_000 + "]" * 20_000
_SEEDS = 60


class _Bent:
    """A vendor whose events have wrong values in them; everything else is the vendor's own."""

    def __init__(self, vendor: Vendor, bend: Any) -> None:
        self._vendor = vendor
        self._bend = bend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vendor, name)

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        """Return the vendor's events, bent."""
        return [self._bent(event) for event in self._vendor.stream(answer, body)]

    def body(self, answer: Answer, body: dict[str, Any]) -> Any:
        """Return the vendor's answer, bent."""
        bent = json.dumps(self._bend(self._vendor.body(answer, body)))
        # The server writes UTF-8, which has no half characters; only a stream can spell them.
        return json.loads(bent.replace("\\ud800", ""))

    def _bent(self, event: bytes) -> bytes:
        lines = event.decode().split("\n")
        for at, line in enumerate(lines):
            if line.startswith("data: {"):
                text = json.dumps(self._bend(json.loads(line.removeprefix("data: "))))
                lines[at] = "data: " + text.replace(json.dumps(_DEEP), _NESTED)
        return "\n".join(lines).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in JSON data, as what has it and the key or index of it."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        own = [(fields, key) for key in fields]
        return own + [place for each in fields.values() for place in _places(each)]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        own = [(items, index) for index in range(len(items))]
        return own + [place for each in items for place in _places(each)]
    return []


def _bend_by(seed: int) -> Any:
    """Return what puts wrong values into some events of an answer, the same for the same seed."""
    chance = random.Random(seed)

    def bend(value: Any) -> Any:
        places = _places(value)
        if places and chance.random() < 0.2:
            holder, key = chance.choice(places)
            holder[key] = chance.choice(_WRONG)
        return value

    return bend


def _nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


_ANSWER = Answer((Text("Here is the file."), ToolUse("call-1", "read_file", '{"path": "a"}')))


@pytest.mark.parametrize("streaming", [True, False])
async def test_wrong_values_are_an_answer_or_a_model_error(
    connect: Connect, vendor: Vendor, streaming: bool
) -> None:
    seen: set[str] = set()
    line = await connect(use_streaming=streaming, max_retries=0)
    for seed in range(_SEEDS):
        line.server.reply(_ANSWER)
        line.server.vendor = cast("Vendor", _Bent(vendor, _bend_by(seed)))
        said: ChatResponse | LLMError
        try:
            said = await line.ask("Read a.")
        except LLMError as error:
            said = error
        if isinstance(said, LLMError):
            assert len(str(said).splitlines()) <= 3, (seed, str(said))
        else:
            said.model_dump_json().encode()
        seen.add("error" if isinstance(said, LLMError) else "answer")

    assert seen == {"error", "answer"}


@pytest.mark.parametrize("wrong", [[1, 2], {"a": 1}, 5, _DEEP])
@pytest.mark.parametrize("streaming", [True, False])
async def test_text_that_is_no_text_is_a_model_error(
    connect: Connect, vendor: Vendor, streaming: bool, wrong: Any
) -> None:
    def bend(value: Any) -> Any:
        for holder, key in _places(value):
            if key in ("text", "content", "delta") and isinstance(holder[key], str):
                # Only a stream is nested by hand; of a list, three hundred levels do the same.
                holder[key] = wrong if streaming or wrong != _DEEP else _nested(300)
        return value

    line = await connect(Answer((Text("Only text."),)), use_streaming=streaming, max_retries=0)
    line.server.vendor = cast("Vendor", _Bent(vendor, bend))

    with pytest.raises(LLMError):
        await line.ask("Speak.")
