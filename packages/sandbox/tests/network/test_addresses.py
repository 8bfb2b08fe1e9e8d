"""Which addresses count as public."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis.strategies import ip_addresses

from amplifier_sandbox.network.addresses import is_public, may_be_allowed


@pytest.mark.parametrize(
    "address",
    ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::808:808"],
)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.attack("N1")
@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.192",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "100::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_not_public_is_not_public(address: str) -> None:
    assert not is_public(address)


@given(ip_addresses())
def test_nothing_is_public_that_python_does_not_call_global(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert not is_public(str(ip)) or (ip.is_global and not ip.is_multicast)


@given(ip_addresses(v=4))
def test_an_ipv4_address_stays_what_it_is_inside_an_ipv6_address(ip: ipaddress.IPv4Address) -> None:
    assert is_public(f"::ffff:{ip}") == is_public(f"64:ff9b::{ip}") == is_public(str(ip))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "fd12::1"])
def test_a_person_may_allow_a_private_address(address: str) -> None:
    assert may_be_allowed(address)


@pytest.mark.attack("N1")
@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "fe80::1", "0.0.0.0", "ff02::1"],
)
def test_nobody_can_allow_an_address_of_metadata(address: str) -> None:
    assert not may_be_allowed(address)
