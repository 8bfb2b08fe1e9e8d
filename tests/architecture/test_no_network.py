"""The network guard: a test reaches its own machine and nothing else."""

from __future__ import annotations

import asyncio
import socket

import pytest


@pytest.mark.parametrize("host", ["packages.example", "192.0.2.1", "2001:db8::1"])
async def test_a_test_cannot_reach_another_machine(host: str) -> None:
    with pytest.raises(PermissionError, match="do not use the network"):
        await asyncio.open_connection(host, 80)


def test_not_even_without_a_name_lookup() -> None:
    with socket.socket() as probe, pytest.raises(PermissionError):
        probe.connect(("192.0.2.1", 80))


async def test_a_test_can_reach_a_server_of_its_own() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with asyncio.timeout(120), server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b"here"
        writer.close()
        await writer.wait_closed()
