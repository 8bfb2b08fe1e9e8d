"""The server itself: it misbehaves exactly as it was told to, and never otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from amplifier_core.testing import wait_for
from wire.server import Scripted, WireServer
from wire.vendor import (
    Answer,
    Cut,
    Drop,
    ErrorEvent,
    Garble,
    HalfOpen,
    Hold,
    Refuse,
    Stall,
    Text,
    ToolUse,
    Vendor,
)
from wire.vendors.chat_completions import ChatCompletions

WORDS = Answer.of("alpha beta gamma")
END = b"0\r\n\r\n"


class Client:
    """A connection, and everything that came over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.got = b""

    def ask(self, **fields: object) -> None:
        body = json.dumps({"model": "m", "messages": [], "stream": True, **fields}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def read_to(self, end: bytes) -> None:
        async with asyncio.timeout(120):
            while not self.got.endswith(end):
                piece = await self.reader.read(65_536)
                if not piece:
                    raise EOFError
                self.got += piece

    def events(self) -> list[bytes]:
        return [line[6:] for line in self.got.split(b"\n") if line.startswith(b"data: ")]


@asynccontextmanager
async def client_of(server: WireServer) -> AsyncGenerator[Client]:
    host, port = server.base_url.removeprefix("http://").split(":")
    client = Client(*await asyncio.open_connection(host, int(port)))
    try:
        yield client
    finally:
        client.writer.close()


async def exchange(*replies: Scripted) -> list[bytes]:
    """Ask once, read the answer to its end, and return its events."""
    async with WireServer(ChatCompletions(), *replies) as server, client_of(server) as client:
        client.ask()
        await client.read_to(END)
        return client.events()


async def test_an_answer_is_served_to_its_end() -> None:
    assert (await exchange(WORDS))[-1] == b"[DONE]"


async def test_a_cut_ends_in_good_order_and_too_early() -> None:
    events = await exchange(Cut(WORDS, "beta"))

    assert b"beta" in events[-1]


async def test_half_an_event_is_no_json_and_the_rest_is_served() -> None:
    whole, garbled = await exchange(WORDS), await exchange(Garble(WORDS, "alpha"))

    different = [pair for pair in zip(whole, garbled, strict=True) if pair[0] != pair[1]]
    assert len(different) == 1
    with pytest.raises(ValueError, match="Unterminated|Expecting"):
        json.loads(different[0][1])


async def test_an_error_event_is_the_last() -> None:
    events = await exchange(ErrorEvent(WORDS, "alpha", Refuse(529, "overloaded", "too busy")))

    assert b"too busy" in events[-1]


async def test_a_drop_is_a_reset() -> None:
    async with (
        WireServer(ChatCompletions(), Drop(WORDS, "alpha")) as server,
        client_of(server) as client,
    ):
        client.ask()

        with pytest.raises(ConnectionResetError):
            await client.read_to(END)


@pytest.mark.parametrize("reply", [Stall(WORDS, "alpha"), HalfOpen()], ids=["stall", "half-open"])
async def test_a_silent_server_notices_who_leaves(reply: Scripted) -> None:
    async with WireServer(ChatCompletions(), reply) as server, client_of(server) as client:
        client.ask()
        if isinstance(reply, Stall):
            await client.read_to(b"\n\n\r\n")
        assert await wait_for(lambda: bool(server.requests), timeout=120)
        assert not server.requests[0].disconnected.is_set()

        client.writer.close()

        async with asyncio.timeout(120):
            await server.requests[0].disconnected.wait()


async def test_a_held_answer_goes_on_when_it_may() -> None:
    gate = asyncio.Event()
    async with (
        WireServer(ChatCompletions(), Hold(WORDS, "alpha", gate)) as server,
        client_of(server) as client,
    ):
        client.ask()
        while b"alpha" not in client.got:
            await client.read_to(b"\n\n\r\n")
        assert b"beta" not in client.got

        gate.set()

        await client.read_to(END)
        assert b"beta" in client.got


async def test_one_connection_serves_many_requests() -> None:
    async with (
        WireServer(ChatCompletions(), WORDS, WORDS, Refuse(400, "invalid")) as server,
        client_of(server) as client,
    ):
        for _ in range(3):
            client.ask()
            await client.read_to(END)
            client.got += b"|"

        assert server.open_connections == 1
        assert len(server.requests) == 3
        assert client.got.count(b"[DONE]") == 2


async def test_a_request_without_a_reply_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="no reply for this request: POST /v1/chat"):
        await exchange()


async def test_a_script_that_fails_is_not_taken_for_a_fault() -> None:
    with pytest.raises(AssertionError, match="no event contains 'omega'"):
        await exchange(Cut(WORDS, "omega"))


def test_every_vendor_streams_whole_events_word_by_word(vendor: Vendor) -> None:
    answer = Answer([Text("alpha beta gamma"), ToolUse("call_1", "read_file", "{}")])

    frames = vendor.stream(answer, {"model": vendor.model, "stream_options": {"include_usage": 1}})

    assert all(frame.endswith((b"\n\n", b"\r\n\r\n")) and b"data: " in frame for frame in frames)
    places = [next(n for n, frame in enumerate(frames) if word in frame) for word in
              (b"alpha", b"beta", b"gamma", b"read_file")]  # fmt: skip
    assert places == sorted(set(places)), "one event each, in order"
    assert vendor.terminal_events < len(frames)
