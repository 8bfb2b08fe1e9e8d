"""Resolve a URL to addresses, and refuse those that are not public (SSRF protection)."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from amplifier_module_tool_web.config import WebConfig

if TYPE_CHECKING:
    import httpx2

# Metadata services of clouds, which hand out credentials. The last address is Azure's host agent,
# although it looks public.
_METADATA = "0.0.0.0/8 169.254.0.0/16 ::/128 fe80::/10 fd00:ec2::/32 168.63.129.16/32"
# Listed here, because `is_global` of `ipaddress` differs between releases of Python.
_PRIVATE = """10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
    240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20"""
# Only this part of IPv6 is allocated for global unicast, so the rest needs no list.
_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether `address` is on the public internet."""
    ip = _reached(address)
    is_handed_out = ip.version == 4 or ip in _GLOBAL_UNICAST
    return is_handed_out and not _is_in(ip, _METADATA) and not _is_in(ip, _PRIVATE)


def may_be_allowed(address: str) -> bool:
    """Whether the user may allow `address`: never one of a metadata service."""
    ip = _reached(address)
    return not ip.is_multicast and not _is_in(ip, _METADATA)


def _is_in(ip: IPv4Address | IPv6Address, networks: str) -> bool:
    return any(ip in ip_network(network) for network in networks.split())


def _reached(address: str) -> IPv4Address | IPv6Address:
    """Return the address, or the IPv4 address that the system or a NAT64 gateway maps it to."""
    ip = ip_address(address)
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return (ip.ipv4_mapped if isinstance(ip, IPv6Address) else None) or ip


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
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise FetchError(f"`{host}` was not found. Check how it is spelled.") from error
    return [str(entry[4][0]) for entry in found]


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


async def addresses_of(url: httpx2.URL, settings: WebConfig, resolve: Resolve) -> list[str]:
    """Resolve the host once and check its addresses; raises `RefusedError` or `FetchError`.

    One address that is not public refuses them all: a name may have a public and a private one.
    """
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
