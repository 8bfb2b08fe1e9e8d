"""What a page needs beyond the sandbox: its origin, and no other one by a redirect."""

from __future__ import annotations

from typing import Any

import pytest

PUBLIC = "93.184.215.14"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


def redirect_to(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/a?b=c#d", "reading pages of example.org"),
        ("https://EXAMPLE.org:443/", "reading pages of example.org"),
        ("https://docs.example.org", "reading pages of docs.example.org"),
        ("https://example.org.evil.net/", "reading pages of example.org.evil.net"),
        ("http://example.org/", "reading pages of http://example.org:80"),
        ("https://example.org:8443/", "reading pages of https://example.org:8443"),
        ("https://bücher.example/", "reading pages of xn--bcher-kva.example"),
    ],
)
async def test_a_page_needs_the_pages_of_its_origin(internet: Any, url: str, words: str) -> None:
    (widening,) = await internet.tool().widenings({"url": url})

    assert str(widening) == words
    assert (widening.kind, widening.target) == ("pages", words.rpartition(" ")[2])


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "url",
    [
        "https://example.org@evil.net/",
        "https://evil.net\\@example.org/",
        "file:///etc/passwd",
        "example.org",
        "https://",
        "",
    ],
)
async def test_what_is_not_read_needs_nothing(internet: Any, url: str) -> None:
    assert await internet.tool().widenings({"url": url}) == []
    assert await internet.tool().widenings({"link": url}) == []
    result = await internet.fetch(url)
    assert not result.success
    assert internet.connections == []


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "location",
    [
        "http://other.example/secret",
        "//other.example/secret",
        "http://site.example.other.example/secret",
        "http://site.example:8080/secret",
        "https://site.example:8443/secret",
        "https://other.example/secret",
    ],
)
async def test_a_redirect_to_another_site_is_named_and_not_followed(
    internet: Any, location: str
) -> None:
    names = ("other.example", "site.example.other.example")
    internet.dns.answers |= {name: [[PUBLIC]] for name in names}
    internet.pages |= {"/": redirect_to(location), "/secret": HELLO}

    result = await internet.fetch("http://site.example/", ports={80, 443, 8080, 8443})

    target = location if "://" in location else f"http:{location}"
    assert result.error["message"].endswith(f"Read that if you need it: {target}")
    assert [event for event, _ in internet.events] == ["web:refused"]
    assert internet.connections == [(PUBLIC, 80)]


async def test_a_redirect_from_http_to_https_of_the_same_host_is_followed(internet: Any) -> None:
    internet.pages["/"] = redirect_to("https://site.example/page")

    await internet.fetch("http://site.example/")

    assert internet.connections == [(PUBLIC, 80), (PUBLIC, 443)]
