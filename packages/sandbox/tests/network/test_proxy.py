"""The proxy of confined programs: what it connects to, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncGenerator

import pytest

from amplifier_sandbox.network.destinations import Destination
from amplifier_sandbox.network.proxy import OWN_PROXY_UNUSED, Proxy

LOCAL = ("127.0.0.1", "::1")


@pytest.fixture
async def origin() -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A server that answers every connection once, and what it was sent."""
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received


@pytest.fixture
async def proxy() -> AsyncGenerator[tuple[Proxy, int]]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with listener:
        yield Proxy(listener), listener.getsockname()[1]


async def ask(port: int, head: str, token: str = "") -> str:
    """Send a request to the proxy and return all of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    credentials = base64.b64encode(f"{token}:-".encode()).decode()
    lines = [head, f"Proxy-Authorization: Basic {credentials}", "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    answer = await reader.read()
    writer.close()
    return answer.decode("latin-1")


def local(port: int) -> Destination:
    return Destination("localhost", (port,), addresses=LOCAL)


@pytest.mark.parametrize("has_proxy", [True, False])
async def test_a_host_that_is_not_reached_is_explained_by_the_proxy_of_the_user(
    proxy: tuple[Proxy, int], monkeypatch: pytest.MonkeyPatch, has_proxy: bool
) -> None:
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.corp.example:3128" if has_proxy else "")
    with socket.socket() as unused:
        # Bound and not listening, so that nobody answers.
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        place = Destination("127.0.0.1", (port,), addresses=LOCAL)
        async with proxy[0].admit([place]) as given:
            answer = await ask(proxy[1], f"CONNECT 127.0.0.1:{port} HTTP/1.1", given.token)

    assert answer.startswith("HTTP/1.1 502")
    expected = {f"127.0.0.1:{port}": OWN_PROXY_UNUSED} if has_proxy else {}
    assert given.refused == expected


async def test_a_url_is_requested_and_its_answer_returned(
    origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int]
) -> None:
    port, received = origin
    async with proxy[0].admit([local(port)]) as given:
        answer = await ask(
            proxy[1],
            f"GET http://localhost:{port}/a?b HTTP/1.1\r\nHost: other.example\r\nX-Kept: 1",
            given.token,
        )

    assert answer.endswith("hello")
    head = received[0].decode()
    assert head.startswith(f"GET /a?b HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n")
    assert "X-Kept: 1" in head
    assert "other.example" not in head
    assert "Proxy-Authorization" not in head


async def test_a_tunnel_is_made(origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int]) -> None:
    port, _ = origin
    async with proxy[0].admit([local(port)]) as given:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy[1])
        secret = base64.b64encode(f"{given.token}:-".encode()).decode()
        writer.write(
            f"CONNECT localhost:{port} HTTP/1.1\r\n"
            f"Proxy-Authorization: Basic {secret}\r\n\r\n".encode()
        )
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"hello")
        writer.close()


@pytest.mark.attack("W1")
async def test_a_place_that_was_not_given_is_refused_and_noted(
    origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int]
) -> None:
    port, received = origin
    async with proxy[0].admit([Destination("example.org")]) as given:
        answer = await ask(proxy[1], f"GET http://localhost:{port}/ HTTP/1.1", given.token)
        tunnel = await ask(proxy[1], "CONNECT pypi.org:443 HTTP/1.1", given.token)

    assert answer.startswith("HTTP/1.1 403")
    assert "outside of the sandbox" in tunnel
    assert given.refused == {
        f"localhost:{port}": "it was not asked for",
        "pypi.org:443": "it was not asked for",
    }
    assert received == []


@pytest.mark.attack("W2")
async def test_a_host_with_a_private_address_is_refused_unless_that_address_was_shown(
    origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int]
) -> None:
    port, received = origin
    other = Destination("localhost", (port,), addresses=("127.0.0.2",))
    for destination in (Destination("localhost", (port,)), other):
        async with proxy[0].admit([destination]) as given:
            answer = await ask(proxy[1], f"CONNECT localhost:{port} HTTP/1.1", given.token)
        assert answer.startswith("HTTP/1.1 403")
        assert "not a public one" in answer
        assert f"localhost:{port}" in given.refused

    assert received == []


@pytest.mark.attack("W3")
@pytest.mark.parametrize("token", ["", "guessed"])
async def test_without_a_valid_pass_nothing_is_connected_to(
    origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int], token: str
) -> None:
    port, received = origin
    async with proxy[0].admit([local(port)]):
        answer = await ask(proxy[1], f"CONNECT localhost:{port} HTTP/1.1", token)

    assert answer.startswith("HTTP/1.1 407")
    assert received == []


@pytest.mark.attack("W3")
async def test_a_pass_ends_with_its_program(
    origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int]
) -> None:
    port, received = origin
    async with proxy[0].admit([local(port)]) as given:
        pass

    async with proxy[0].admit([]):
        answer = await ask(proxy[1], f"CONNECT localhost:{port} HTTP/1.1", given.token)

    assert answer.startswith("HTTP/1.1 407")
    assert received == []


@pytest.mark.attack("W3")
@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1",
        "GET https://localhost/ HTTP/1.1",
        "GET http://user@localhost/ HTTP/1.1",
        "GET ftp://localhost/ HTTP/1.1",
        "GET http://localhost:x/ HTTP/1.1",
        "CONNECT localhost HTTP/1.1",
        "CONNECT localhost:0 HTTP/1.1",
        "CONNECT localhost:443@example.org:443 HTTP/1.1",
        "BREW",
        "GET http://localhost/ HTTP/1.1\r\n folded: line",
        "GET http://localhost/ HTTP/1.1\r\nX: a\nHost: other",
        "GET http://localhost/ HTTP/1.1\r\nX\x00: a",
    ],
)
async def test_a_malformed_request_is_refused(proxy: tuple[Proxy, int], head: str) -> None:
    async with proxy[0].admit([local(80), local(443)]) as given:
        answer = await ask(proxy[1], head, given.token)

    assert answer.startswith("HTTP/1.1 400")


async def test_a_head_that_is_too_long_is_refused(proxy: tuple[Proxy, int]) -> None:
    async with proxy[0].admit([]) as given:
        answer = await ask(
            proxy[1], "GET http://localhost/ HTTP/1.1\r\nX: " + "y" * 40_000, given.token
        )

    assert answer.startswith("HTTP/1.1 431")


PUBLIC = "1.1.1.1"


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "target",
    [
        "example.org:22",
        "www.example.org:443",
        "example.org.evil.example:443",
        "evil-example.org:443",
        "1.1.1.1:443",
        "[::ffff:1.1.1.1]:443",
    ],
)
async def test_a_pass_for_a_host_leads_nowhere_else(
    proxy: tuple[Proxy, int], monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    looked_up: list[str] = []

    async def look_up(host: str) -> list[str]:
        looked_up.append(host)
        return [PUBLIC]

    monkeypatch.setattr("amplifier_sandbox.network.proxy.look_up", look_up)
    async with proxy[0].admit([Destination("example.org")]) as given:
        answer = await ask(proxy[1], f"CONNECT {target} HTTP/1.1", given.token)

    assert answer.startswith("HTTP/1.1 403")
    assert looked_up == []


@pytest.mark.attack("W2")
async def test_a_name_server_that_changes_its_answer_leads_nowhere_else(
    origin: tuple[int, list[bytes]], proxy: tuple[Proxy, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public address for the check and a private one for the connection, or both at once."""
    port, received = origin
    inward = LOCAL[0]
    answers = [[PUBLIC, inward], [inward, PUBLIC], [inward]]

    async def look_up(host: str) -> list[str]:
        return [*answers.pop(0)]

    monkeypatch.setattr("amplifier_sandbox.network.proxy.look_up", look_up)
    async with proxy[0].admit([Destination("example.org", (port,))]) as given:
        for _ in range(3):
            answer = await ask(proxy[1], f"CONNECT example.org:{port} HTTP/1.1", given.token)
            assert answer.startswith("HTTP/1.1 403")

    assert (received, answers) == ([], [])
