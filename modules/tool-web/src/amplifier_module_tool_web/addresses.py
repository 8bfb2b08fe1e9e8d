"""Which IP addresses belong to the public internet."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

# Where clouds keep credentials; the last one looks public, and is the host agent of one.
_METADATA = "0.0.0.0/8 169.254.0.0/16 ::/128 fe80::/10 fd00:ec2::/32 168.63.129.16/32"
# Written out, because what `ipaddress` calls global differs between releases of Python.
_PRIVATE = """10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
    240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20"""
# Only this part of IPv6 is handed out, so that the rest of it needs no list.
_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Tell whether a packet to `address` ends up on the public internet."""
    ip = _reached(address)
    is_handed_out = ip.version == 4 or ip in _GLOBAL_UNICAST
    return is_handed_out and not _is_in(ip, _METADATA) and not _is_in(ip, _PRIVATE)


def may_be_allowed(address: str) -> bool:
    """Tell whether a person may allow `address`: never one where clouds keep credentials."""
    ip = _reached(address)
    return not ip.is_multicast and not _is_in(ip, _METADATA)


def _is_in(ip: IPv4Address | IPv6Address, networks: str) -> bool:
    return any(ip in ip_network(network) for network in networks.split())


def _reached(address: str) -> IPv4Address | IPv6Address:
    """Return the address itself, or the IPv4 address that the system or a gateway makes of it."""
    ip = ip_address(address)
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFF_FFFF)
    return (ip.ipv4_mapped if isinstance(ip, IPv6Address) else None) or ip
