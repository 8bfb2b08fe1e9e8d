"""The longest answer of a provider, whatever the SDK does with it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from amplifier_kit.calls.lazy_client import MOST_ANSWER_BYTES, bound_answer

MEGABYTE = b"x" * 1024 * 1024


class Body(httpx2.AsyncByteStream):
    """A body of so many megabytes that counts what was asked of it."""

    def __init__(self, megabytes: int) -> None:
        self.megabytes = megabytes
        self.sent = 0
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.megabytes):
            self.sent += 1
            yield MEGABYTE

    async def aclose(self) -> None:
        self.is_closed = True


async def read(body: Body) -> int:
    """Return how many bytes a client with the hook reads."""

    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=body)

    hooks = {"response": [bound_answer]}
    transport = httpx2.MockTransport(answer)
    size = 0
    client = httpx2.AsyncClient(transport=transport, event_hooks=hooks)
    async with client, client.stream("POST", "http://model.test") as response:
        async for chunk in response.aiter_bytes():
            size += len(chunk)
    return size


@pytest.mark.attack("review untried")
async def test_an_answer_without_end_is_a_broken_stream_and_is_let_go_of() -> None:
    body = Body(100_000)

    with pytest.raises(httpx2.ReadError, match="more than 67,108,864 bytes"):
        await read(body)

    assert body.sent == MOST_ANSWER_BYTES // len(MEGABYTE) + 1
    assert body.is_closed


async def test_an_answer_of_the_longest_length_is_read_whole() -> None:
    body = Body(MOST_ANSWER_BYTES // len(MEGABYTE))

    assert await read(body) == MOST_ANSWER_BYTES
    assert body.is_closed
