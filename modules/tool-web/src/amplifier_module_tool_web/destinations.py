"""Where a URL leads: the addresses of its host, if all of them may be connected to."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from amplifier_module_tool_web.addresses import is_public, may_be_allowed
from amplifier_module_tool_web.config import WebConfig

if TYPE_CHECKING:
    import httpx2

Resolve = Callable[[str], Awaitable[list[str]]]

# The last label is no number: systems read such names as IPv4 addresses, each in its own way.
_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_-]{1,63}\.)*(?!(?:\d+|0x[0-9a-f]*)$)[a-z0-9_-]{1,63}")
_PORTS = {"http": 80, "https": 443}


class FetchError(Exception):
    """A page that could not be read; the text says why and what to do."""


class RefusedError(FetchError):
    """A URL that leads where this tool does not go."""


async def look_up(host: str) -> list[str]:
    """Return the addresses of `host`, at least one, or raise `FetchError`."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise FetchError(f"`{host}` was not found. Check how it is spelled.") from error
    return [str(entry[4][0]) for entry in found]


def parse(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Return the URL, which may be relative to `base`, or raise `RefusedError`."""
    import httpx2  # noqa: PLC0415 - heavy, and most sessions read no page

    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except httpx2.InvalidURL as error:
        raise RefusedError(f"This is not a URL: {error}") from error
    if url.scheme not in _PORTS or not url.raw_host:
        raise RefusedError("Only URLs that start with http:// or https:// can be read.")
    # Browsers read a backslash as a slash, so what stands before it may not be the host.
    if url.userinfo or "\\" in text:
        raise RefusedError("A URL must not have a user name, a password or a backslash.")
    return url


def host_and_port(url: httpx2.URL) -> tuple[str, int]:
    """Return the host as it is looked up, and the port as it is connected to."""
    return url.raw_host.decode("ascii"), _PORTS[url.scheme] if url.port is None else url.port


async def addresses_of(url: httpx2.URL, settings: WebConfig, resolve: Resolve) -> list[str]:
    """Look the host up, once; return its addresses, or raise `RefusedError` or `FetchError`."""
    host, port = host_and_port(url)
    if port not in settings.ports:
        raise RefusedError(f"Port {port} is not allowed. Use the site's usual address.")
    try:
        addresses = [str(ip_address(host))]
    except ValueError:
        if not _NAME.fullmatch(host):
            raise RefusedError(f"`{host}` is not a host name like www.example.com.") from None
        addresses = await resolve(host)
    for address in addresses:
        is_allowed = host in settings.allow_hosts and may_be_allowed(address)
        if not is_allowed and not is_public(address):
            raise RefusedError(f"`{host}` leads to {address}, which is not on the public internet.")
    return addresses
