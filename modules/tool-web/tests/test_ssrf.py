"""No spelling, no DNS answer and no redirect leads to an address that is not public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PUBLIC = "93.184.215.14"
CORPUS = json.loads((Path(__file__).parent / "data" / "ssrf-urls.json").read_text("utf-8"))
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


def redirect_to(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


def require_refused(internet: Any, result: Any) -> None:
    """Nobody was connected to, and both the model and the user know why."""
    assert not result.success
    assert [event for event, _ in internet.events] == ["web:refused"]
    assert internet.events[0][1]["reason"] == result.error["message"]
    assert result.error["message"] in internet.lines[0]


@pytest.mark.attack("N1")
@pytest.mark.parametrize("name", CORPUS["refuse"])
async def test_no_spelling_of_a_private_address_is_connected_to(internet: Any, name: str) -> None:
    internet.dns.answers |= {
        "localhost": [["127.0.0.1", "::1"]],
        "localtest.example": [["127.0.0.1"]],
        "metadata.google.internal": [["169.254.169.254"]],
    }

    result = await internet.fetch(CORPUS["refuse"][name])

    require_refused(internet, result)
    assert internet.connections == []


@pytest.mark.parametrize("name", CORPUS["allow"])
async def test_a_public_host_is_read_whatever_its_name_looks_like(internet: Any, name: str) -> None:
    internet.dns.answers["v10.example.com"] = [[PUBLIC]]
    internet.pages["/"] = HELLO

    result = await internet.fetch(CORPUS["allow"][name])

    assert result.success
    assert internet.connections == [(PUBLIC, 80)]


@pytest.mark.attack("N2")
@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["2002:7f00:1::"],
        ["64:ff9b::7f00:1"],
        [PUBLIC, "127.0.0.1"],
        [PUBLIC, "::1"],
    ],
    ids=str,
)
async def test_a_public_name_with_any_private_address_is_refused(
    internet: Any, addresses: list[str]
) -> None:
    internet.dns.answers["inside.example"] = [addresses]

    result = await internet.fetch("http://inside.example/")

    require_refused(internet, result)
    assert internet.connections == []


@pytest.mark.attack("N3")
async def test_a_name_that_moves_to_a_private_address_is_read_where_it_was_checked(
    internet: Any,
) -> None:
    internet.dns.answers["moving.example"] = [[PUBLIC], ["127.0.0.1"]]
    internet.pages["/"] = HELLO
    port = internet.private_port

    result = await internet.fetch(f"http://moving.example:{port}/", ports={port})

    assert result.output.endswith("\n\nhello")
    assert internet.dns.questions == ["moving.example"]
    assert internet.connections == [(PUBLIC, port)]
    assert internet.private_requests == []


@pytest.mark.attack("N3")
async def test_a_name_that_moves_between_two_calls_is_checked_again(internet: Any) -> None:
    internet.dns.answers["moving.example"] = [[PUBLIC], ["127.0.0.1"]]
    internet.pages["/"] = HELLO
    port = internet.private_port
    tool = internet.tool(ports={port})
    url = f"http://moving.example:{port}/"

    first = await tool.execute({"url": url})
    second = await tool.execute({"url": url})

    assert first.success
    require_refused(internet, second)
    assert internet.private_requests == []


@pytest.mark.attack("N3")
async def test_a_name_that_moves_during_a_redirect_is_checked_again(internet: Any) -> None:
    internet.dns.answers["moving.example"] = [[PUBLIC], ["127.0.0.1"]]
    port = internet.private_port
    internet.pages["/first"] = redirect_to("/")

    result = await internet.fetch(f"http://moving.example:{port}/first", ports={port})

    require_refused(internet, result)
    assert internet.connections == [(PUBLIC, port)]


@pytest.mark.attack("N4")
@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//127.0.0.1/",
        "http://[::ffff:7f00:1]/",
        "http://2130706433/",
        "http://inside.example/",
        "http://user:pass@site.example/",
        "http://site.example:22/",
        "file:///etc/passwd",
        "ftp://site.example/",
        "gopher://127.0.0.1:6379/_INFO",
        "javascript:alert(1)",
        "data:text/html,hello",
        "http:\\\\127.0.0.1\\",
        "https:///etc/passwd",
        "http://site.example:99999999/",
        "http://[::1",
    ],
)
async def test_a_redirect_to_where_it_must_not_go_is_refused(internet: Any, location: str) -> None:
    internet.dns.answers["inside.example"] = [["10.0.0.1"]]
    internet.pages["/"] = redirect_to(location)

    result = await internet.fetch("http://site.example/")

    require_refused(internet, result)
    assert internet.connections == [(PUBLIC, 80)]


@pytest.mark.attack("N4")
async def test_the_sixth_redirect_is_refused(internet: Any) -> None:
    internet.pages |= {f"/{n}": redirect_to(f"/{n + 1}") for n in range(6)} | {"/6": HELLO}

    result = await internet.fetch("http://site.example/0")

    require_refused(internet, result)
    assert len(internet.requests) == 6


async def test_five_redirects_are_followed_to_the_page(internet: Any) -> None:
    internet.pages |= {f"/{n}": redirect_to(f"/{n + 1}") for n in range(5)} | {"/5": HELLO}

    result = await internet.fetch("http://site.example/0")

    assert "URL: http://site.example/5\n" in result.output
    assert len(internet.dns.questions) == 6


@pytest.mark.attack("N5")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1\0.site.example/",
        "http://site.example\0.evil.example/",
        "http://site.example%00.evil.example/",
        "http://127.0.0.1\t.site.example/",
        "http://site\r\n.example/",
        "http://127.0.0.1\\@site.example/",
        "http://site.example\\@127.0.0.1/",
        "http://site.example@127.0.0.1/",
        "http://127.0.0.1:80@site.example/",
        "http://127.0.0.1:80#@site.example/",
        "http://127.0.0.1?@site.example/",
        "http://site.example:80:443/",
        "http://127.0.0.1./",
        "http://site.example./",
        "http://site..example/",
        "http://127\u30020\u30020\u30021/",
        "http://127\uff0e0\uff0e0\uff0e1/",
        "http://127\uff610\uff610\uff611/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
        "http://127%2e0%2e0%2e1/",
        "http://site.example%2f@127.0.0.1/",
        "http://0x7f.0x0.0x0.0x1/",
        "http://0x/",
        "http://site.example.0x7f/",
        "http://127.0.0.1.1/",
        "http://[::1%25lo]/",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[v1.a]/",
        "http://[127.0.0.1]/",
        "http:/127.0.0.1/",
        "http:127.0.0.1",
        "//127.0.0.1/",
        " http://127.0.0.1/",
        "",
        "http://",
        f"http://{'a' * 64}.example/",
        f"http://{'a.' * 127}example/",
    ],
)
async def test_what_two_parsers_may_read_differently_is_refused(internet: Any, url: str) -> None:
    result = await internet.fetch(url)

    require_refused(internet, result)
    assert internet.connections == []


@pytest.mark.parametrize(
    "port", [22, 25, 6379, 8080, 0, -1, 65536], ids=lambda port: f"port {port}"
)
async def test_a_port_that_is_not_allowed_is_refused(internet: Any, port: int) -> None:
    result = await internet.fetch(f"http://site.example:{port}/")

    require_refused(internet, result)
    assert internet.dns.questions == []


async def test_a_host_that_the_person_allows_may_be_private(internet: Any) -> None:
    internet.dns.answers["wiki.example"] = [["127.0.0.1"]]
    port = internet.private_port

    result = await internet.fetch(
        f"http://wiki.example:{port}/", ports={port}, allow_hosts={"wiki.example"}
    )

    assert result.output.endswith("secret")


@pytest.mark.attack("N2")
@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"])
async def test_a_host_that_the_person_allows_cannot_lead_to_metadata(
    internet: Any, address: str
) -> None:
    internet.dns.answers["wiki.example"] = [[address]]

    result = await internet.fetch("http://wiki.example/", allow_hosts={"wiki.example"})

    require_refused(internet, result)
    assert internet.connections == []


@pytest.mark.attack("N2")
@pytest.mark.parametrize("addresses", [["no address"], [""], [PUBLIC, "999.1.1.1"]], ids=str)
async def test_a_check_that_fails_denies(internet: Any, addresses: list[str]) -> None:
    async def broken(host: str) -> list[str]:
        return addresses

    internet.resolve = broken

    result = await internet.fetch("http://site.example/")

    assert "ValueError" in result.error["message"]
    assert internet.connections == []


@pytest.mark.attack("N2")
async def test_a_resolver_that_fails_denies(internet: Any) -> None:
    async def broken(host: str) -> list[str]:
        raise RuntimeError("boom")

    internet.resolve = broken

    result = await internet.fetch("http://site.example/")

    assert "RuntimeError" in result.error["message"]
    assert internet.connections == []
