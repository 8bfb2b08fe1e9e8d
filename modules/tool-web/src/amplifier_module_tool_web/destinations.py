"""Resolve a URL to addresses, and refuse those that are not public (SSRF protection)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from amplifier_module_tool_web.config import WebConfig
from amplifier_sandbox.network import addresses
from amplifier_sandbox.network.addresses import LookUpError, is_public, may_be_allowed

if TYPE_CHECKING:
    import httpx2

Resolve = Callable[[str], Awaitable[list[str]]]

# The last label must not be a number: systems parse such names as IPv4 addresses in different
# ways, so that `2130706433` or `0x7f.1` could be 127.0.0.1.
_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_-]{1,63}\.)*(?!(?:\d+|0x[0-9a-f]*)$)[a-z0-9_-]{1,63}")
_PORTS = {"http": 80, "https": 443}


class FetchError(Exception):
    """A page could not be read; the message says why and what to do."""


class RefusedError(FetchError):
    """A URL is not allowed."""


async def look_up(host: str) -> list[str]:
    """Return the addresses of `host`, at least one; raises `FetchError`."""
    try:
        return await addresses.look_up(host)
    except LookUpError as error:
        raise FetchError(f"{error}. Check how it is spelled.") from error


def parse(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Parse a URL, which may be relative to `base`; raises `RefusedError`."""
    import httpx2  # noqa: PLC0415 - heavy, and most sessions read no page

    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except httpx2.InvalidURL as error:
        raise RefusedError(f"This is not a URL: {error}") from error
    if url.scheme not in _PORTS or not url.raw_host:
        raise RefusedError("Only URLs that start with http:// or https:// can be read.")
    # Parsers disagree here: browsers read a backslash as a slash, so the host may be another one.
    if url.userinfo or "\\" in text:
        raise RefusedError("A URL must not have a user name, a password or a backslash.")
    return url


def host_and_port(url: httpx2.URL) -> tuple[str, int]:
    """Return the host to resolve and the port to connect to."""
    return url.raw_host.decode("ascii"), _PORTS[url.scheme] if url.port is None else url.port


def origin_of(url: httpx2.URL) -> str:
    """Return what a user is asked about: the host, with scheme and port if they are unusual."""
    host, port = host_and_port(url)
    # A port is another server, and http is read by everybody on the way.
    return host if (url.scheme, port) == ("https", 443) else f"{url.scheme}://{host}:{port}"


def is_same_site(first: httpx2.URL, url: httpx2.URL) -> bool:
    """Whether a redirect from one to the other stays at the server that was asked about."""
    host, port = host_and_port(first)
    if (first.scheme, port) == ("http", 80) and (host, 443) == host_and_port(url):
        # Most sites answer http with a redirect to https.
        return url.scheme == "https"
    return origin_of(first) == origin_of(url)


async def addresses_of(url: httpx2.URL, settings: WebConfig, resolve: Resolve) -> list[str]:
    """Resolve the host once and check its addresses; raises `RefusedError` or `FetchError`.

    One address that is not public refuses them all: a name may have a public and a private one.
    """
    host, port = host_and_port(url)
    if port not in settings.ports:
        raise RefusedError(f"Port {port} is not allowed. Use the site's usual address.")
    try:
        found = [str(ip_address(host))]
    except ValueError:
        if not _NAME.fullmatch(host):
            raise RefusedError(f"`{host}` is not a host name like www.example.com.") from None
        found = await resolve(host)
    for address in found:
        is_allowed = host in settings.allow_hosts and may_be_allowed(address)
        if not is_allowed and not is_public(address):
            raise RefusedError(f"`{host}` leads to {address}, which is not on the public internet.")
    return found
