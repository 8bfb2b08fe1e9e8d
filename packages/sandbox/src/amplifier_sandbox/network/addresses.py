"""Which internet addresses are public, and the addresses of a host."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

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
_SECONDS = 10.0


class LookUpError(Exception):
    """A host has no address."""


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


async def look_up(host: str) -> list[str]:
    """Return the addresses of `host`, each once and at least one.

    Raises:
        LookUpError: there is none, or it was not found in time.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(
                host, None, type=socket.SOCK_STREAM
            )
    # UnicodeError: a label that is empty or too long.
    except (OSError, UnicodeError, TimeoutError) as error:
        raise LookUpError(f"`{host}` was not found") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
