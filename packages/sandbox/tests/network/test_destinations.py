"""Where programs may connect to, and which addresses are public."""

from __future__ import annotations

import pytest

from amplifier_sandbox.network.destinations import (
    Destination,
    DestinationError,
    pinned,
    read_destination,
)


@pytest.mark.parametrize(
    ("text", "host", "port", "is_covered"),
    [
        ("example.org", "example.org", 443, True),
        ("Example.ORG.", "example.org", 80, True),
        ("example.org", "example.org", 8443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org", "www.example.org", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
    ],
)
def test_a_destination_covers_its_host_and_ports(
    text: str, host: str, port: int, is_covered: bool
) -> None:
    assert read_destination(text).covers(host, port) is is_covered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.",
        "localhost",
        "http://example.org",
        "a..b",
        "example.org:0",
        "a b.org",
        "x.org:99999",
        "127.1",
        "10.0.0.1:80",
        "a.0x7f",
    ],
)
def test_what_is_no_domain_is_refused(text: str) -> None:
    with pytest.raises(DestinationError, match=r"example\.org"):
        read_destination(text)


async def test_a_host_that_is_not_public_is_shown_with_its_address() -> None:
    shown = await pinned(Destination("localhost", (8080,)))

    assert str(shown).startswith("localhost:8080=127.0.0.1")
    assert shown.covers("localhost", 8080)
