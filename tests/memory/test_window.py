"""No request is larger than the model's window, by the provider's own count."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from amplifier_core import ChatRequest, ChatResponse, ContextLengthError, ProviderInfo, TextBlock
from amplifier_kit.history_repair import repair_history

Message = dict[str, Any]
Mount = Callable[..., Awaitable[tuple[Any, Callable[[], Awaitable[None]]]]]
# Tokens of the answer, which must fit beside the request.
ANSWER = 500


class CountingProvider:
    """A provider with a tokenizer of its own that refuses what is larger than its window."""

    def __init__(self, window: int, chars_per_token: float) -> None:
        self._window, self._chars_per_token = window, chars_per_token
        self.summaries = 0

    def get_info(self) -> ProviderInfo:
        defaults = {"context_window": self._window, "max_output_tokens": ANSWER}
        return ProviderInfo(id="counting", display_name="Counting", defaults=defaults)

    def tokens(self, request: ChatRequest) -> int:
        sizes = [len(_text(message.model_dump())) for message in request.messages]
        return sum(4 + math.ceil(size / self._chars_per_token) for size in sizes)

    def fits(self, request: ChatRequest) -> bool:
        return self.tokens(request) + (request.max_output_tokens or ANSWER) <= self._window

    async def count_tokens(self, request: ChatRequest) -> int:
        return self.tokens(request)

    async def complete(self, request: ChatRequest, **_: Any) -> ChatResponse:
        assert self.fits(request)
        self.summaries += 1
        return ChatResponse(content=[TextBlock(text=f"summary {self.summaries} " * 200)])


def _text(message: Message) -> str:
    content = message["content"]
    calls = message.get("tool_calls")
    return (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)) + (
        json.dumps(calls, ensure_ascii=False) if calls else ""
    )


DENSE = st.sampled_from(
    ["0123456789", "漢字仮名交じり文", "{};=()[]\n\t", "word and ", "\U0001f642"]
)


def _repeated(piece: str, times: int) -> str:
    return piece * times


def _saying(role: str, text: str) -> list[Message]:
    return [{"role": role, "content": text}]


def _step(text: str, result: str) -> list[Message]:
    call = {"id": "c", "tool": "f", "arguments": {"text": text[:100]}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result * 4},
    ]


TEXTS = st.builds(_repeated, DENSE, st.integers(0, 120))
TURN = st.one_of(
    st.builds(_saying, st.sampled_from(["user", "user", "assistant"]), TEXTS),
    st.builds(_step, TEXTS, TEXTS),
)
TURNS = st.lists(TURN, min_size=1, max_size=30)
# Persistent files make an example dear.
THRIFTY = settings(max_examples=60)


@THRIFTY
@given(
    turns=TURNS,
    window=st.integers(2_000, 6_000),
    chars_per_token=st.sampled_from([1.0, 1.5, 2.5, 4.0]),
)
def test_no_request_is_larger_than_the_window(
    module_id: str,
    mount_context: Mount,
    turns: list[list[Message]],
    window: int,
    chars_per_token: float,
) -> None:
    provider = CountingProvider(window, chars_per_token)

    async def check(folder: Path) -> None:
        context, close = await mount_context(module_id, folder)
        for message in (message for turn in turns for message in turn):
            await context.add_message(message)
            try:
                view = await context.get_messages_for_request(provider=provider)
            except ContextLengthError:
                # Loud, and before the vendor says it: that is the other way to keep the promise.
                continue
            request = ChatRequest.model_validate({"messages": repair_history(view)[0]})
            assert provider.fits(request)
        await close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


async def test_a_long_dense_conversation_is_fitted_and_not_refused(
    module_id: str, mount_context: Mount, tmp_path: Path
) -> None:
    provider = CountingProvider(window=7_500, chars_per_token=1.0)
    context, close = await mount_context(module_id, tmp_path)
    view: list[Message] = []
    for number in range(100):
        await context.add_message({"role": "user", "content": f"{number} " + "字" * 150})
        view = await context.get_messages_for_request(provider=provider)

        assert provider.fits(ChatRequest.model_validate({"messages": view}))
    assert len(view) > 10
    await close()
