"""The pages that one answer can be about: those of a domain."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/a?b=c#d", "pages of example.org"),
        ("https://EXAMPLE.org:443/", "pages of example.org"),
        ("https://docs.example.org", "pages of docs.example.org"),
        ("https://example.org.evil.net/", "pages of example.org.evil.net"),
        ("http://example.org/", "pages of http://example.org:80"),
        ("https://example.org:8443/", "pages of https://example.org:8443"),
        ("https://bücher.example/", "pages of xn--bcher-kva.example"),
    ],
)
def test_the_domain_of_a_page_is_its_scope(internet: Any, url: str, words: str) -> None:
    (scope,) = internet.tool().call_scopes({"url": url})

    assert scope.words == words
    assert scope.key == words.replace(" of ", " ")


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
def test_what_is_not_read_has_no_scope(internet: Any, url: str) -> None:
    assert internet.tool().call_scopes({"url": url}) == []
    assert internet.tool().call_scopes({"link": url}) == []
