"""What `web_fetch` makes of a page, and what it says when there is none."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from amplifier_core.effects import declaration_of

PUBLIC = "93.184.215.14"
PAGE = b"""<!doctype html><html><head><title> A &amp;  B </title><style>p {}</style></head>
<body><script>alert(1)</script><h1>Heading</h1>
<p>See <a href="/next">the next page</a>.<img src="data:image/png;base64,AAAA" alt="a cat"></p>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<pre><code>x = 1</code></pre></body></html>"""


def page(body: bytes, content_type: str = "text/html", headers: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return (head + headers + "\r\n").encode() + body


async def test_a_page_comes_as_markdown_with_its_title_and_address(internet: Any) -> None:
    internet.pages["/page"] = page(PAGE)

    result = await internet.fetch("http://site.example/page#part")

    head, _, text = result.output.partition("\n\n")
    assert head.startswith("URL: http://site.example/page#part\nTitle: A & B\nCharacters 0 to ")
    assert text.startswith("# Heading\n\nSee [the next page](http://site.example/next).")
    assert "| 1 | 2 |" in text
    assert "x = 1" in text
    assert "alert" not in text
    assert "base64" not in text


async def test_the_request_says_who_asks_and_brings_no_cookie_of_the_redirect(
    internet: Any,
) -> None:
    internet.pages["/"] = (
        b"HTTP/1.1 301 Moved\r\nLocation: /page\r\nSet-Cookie: id=1\r\nContent-Length: 0\r\n\r\n"
    )
    internet.pages["/page"] = page(PAGE)

    await internet.fetch("http://site.example/")

    first, second = internet.requests
    assert "Host: site.example\r\n" in first
    assert "User-Agent: amplifier-tool-web\r\n" in first
    assert "cookie" not in second.lower()


async def test_no_proxy_of_the_environment_is_used(
    internet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    internet.pages["/"] = page(PAGE)

    result = await internet.fetch("http://site.example/")

    assert result.success
    assert internet.connections == [(PUBLIC, 80)]


async def test_a_long_page_is_read_in_parts_that_fit_together(internet: Any) -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    internet.pages["/"] = page(text.encode(), "text/plain")
    tool = internet.tool(page_characters=4000)
    read, start = "", 0

    while start < len(text):
        result = await tool.execute({"url": "http://site.example/", "start": start})
        head, _, part = result.output.partition("\n\n")
        read += part
        start += len(part)
        assert (f"use start={start}" in head) == (start < len(text))

    assert read == text
    assert len(internet.requests) == 1


async def test_a_start_behind_the_end_is_explained(internet: Any) -> None:
    internet.pages["/"] = page(b"hello", "text/plain")

    result = await internet.fetch("http://site.example/", start=6)

    assert result.error["message"] == "The page has 5 characters. Use a smaller `start`."


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("text/plain", "gr\u00fcn".encode(), "gr\u00fcn"),
        ("text/plain; charset=iso-8859-1", "gr\u00fcn".encode("latin-1"), "gr\u00fcn"),
        ("text/plain; charset=no-such", b"green", "green"),
        ("text/plain; charset=zip", b"green", "green"),
        ("text/html", b'<meta charset="iso-8859-1"><p>gr\xfcn', "gr\u00fcn"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json", b"[]", "[]"),
        ("application/xhtml+xml", b"<p>x</p>", "x"),
        ("text/plain", b"", ""),
    ],
)
async def test_a_page_is_read_in_its_charset(
    internet: Any, content_type: str, body: bytes, expected: str
) -> None:
    internet.pages["/"] = page(body, content_type)

    result = await internet.fetch("http://site.example/")

    assert result.output.partition("\n\n")[2] == expected


async def test_a_compressed_page_is_read(internet: Any) -> None:
    internet.pages["/"] = page(gzip.compress(PAGE), headers="Content-Encoding: gzip\r\n")

    result = await internet.fetch("http://site.example/")

    assert "# Heading" in result.output
    assert "Incomplete" not in result.output


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page(b"\x89PNG", "image/png"), "`image/png`"),
        (page(b"x", headers="Content-Encoding: br\r\n"), "`br`"),
        (page(b"no gzip", headers="Content-Encoding: gzip\r\n"), "not compressed"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "status 404"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "status 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "could not be read"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "could not be read"),
        (b"", "could not be read"),
    ],
)
async def test_an_answer_that_is_no_page_is_explained(
    internet: Any, answer: bytes, reason: str
) -> None:
    internet.pages["/"] = answer

    result = await internet.fetch("http://site.example/")

    assert reason in result.error["message"]
    assert internet.events == []


async def test_a_compressed_page_that_breaks_off_is_called_incomplete(internet: Any) -> None:
    half = gzip.compress(b"hello " * 1000, mtime=0)[:-10]
    headers = "Content-Encoding: gzip\r\n"
    internet.pages["/"] = page(half, "text/plain", headers)

    result = await internet.fetch("http://site.example/")

    assert "\nIncomplete: " in result.output


async def test_the_next_address_is_tried_when_one_does_not_answer(internet: Any) -> None:
    internet.dns.answers["two.example"] = [["93.184.215.99", PUBLIC]]
    internet.pages["/"] = page(PAGE)

    result = await internet.fetch("http://two.example/")

    assert result.success
    assert internet.connections == [("93.184.215.99", 80), (PUBLIC, 80)]


async def test_a_host_that_does_not_answer_is_named(internet: Any) -> None:
    internet.dns.answers["two.example"] = [["93.184.215.99"]]

    result = await internet.fetch("http://two.example/")

    assert "`two.example` could not be reached" in result.error["message"]


async def test_a_host_that_nobody_knows_is_named(internet: Any) -> None:
    result = await internet.fetch("http://nobody.example/")

    assert "`nobody.example` was not found" in result.error["message"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "`url`"),
        ({"url": 7}, "`url`"),
        ({"url": "http://site.example/", "start": -1}, "`start`"),
        ({"url": "http://site.example/", "startt": 1}, "`startt`"),
        ({"url": "x" * 8001}, "`url`"),
        (None, "`input`"),
    ],
)
async def test_an_input_that_is_not_valid_is_explained(
    internet: Any, given: Any, named: str
) -> None:
    result = await internet.tool().execute(given)

    assert named in result.error["message"]
    assert "xxx" not in json.dumps(result.error)


def test_it_declares_a_network_read_that_is_not_to_be_believed(internet: Any) -> None:
    tool = internet.tool(timeout_seconds=7)

    assert declaration_of(tool) == ("idempotent", 12.0, False)
    assert tool.network is True


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Write a certificate for `host` that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return paths


@pytest.mark.parametrize(("host", "is_read"), [("site.example", True), ("other.example", False)])
async def test_a_certificate_is_checked_against_the_name_and_not_the_address(
    internet: Any, tmp_path: Path, host: str, is_read: bool
) -> None:
    internet.dns.answers["other.example"] = [[PUBLIC]]
    internet.pages["/"] = page(PAGE)
    paths = certificate(tmp_path, "site.example")
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(*paths)
    server = await asyncio.start_server(internet.serve_public, "127.0.0.1", 0, ssl=own)
    internet.public_port = server.sockets[0].getsockname()[1]

    tool = internet.tool(tls=ssl.create_default_context(cafile=paths[0]))
    result = await tool.execute({"url": f"https://{host}/"})

    server.close()
    assert result.success == is_read
    assert internet.connections == [(PUBLIC, 443)]
