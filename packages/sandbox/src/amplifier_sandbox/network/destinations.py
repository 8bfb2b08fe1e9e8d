"""Where a confined program may connect to: hosts, domains, and the package registries."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from amplifier_sandbox.network.addresses import LookUpError, is_public, look_up, may_be_allowed
from amplifier_sandbox.network.package_settings import PackageSettings, package_settings

PACKAGES = "packages"
"""The name of all package registries together."""

_REGISTRIES = (
    "crates.io",
    "files.pythonhosted.org",
    "index.crates.io",
    "proxy.golang.org",
    "pypi.org",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "rubygems.org",
    "static.crates.io",
    "static.rust-lang.org",
    "sum.golang.org",
)
_WEB = (80, 443)
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# The last label is not a number: `127.1` is an address for some systems.
_NAME = re.compile(
    rf"(?P<any>\*\.)?(?P<host>(?:{_LABEL}\.)+(?!(?:\d+|0x[0-9a-f]*)(?:$|:)){_LABEL})"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class DestinationError(ValueError):
    """A text that names no place to connect to; the message says what it should be."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A host, or with `with_subdomains` all hosts below a domain, and its ports.

    A host whose addresses are not public has to have them in `addresses`.
    """

    host: str
    ports: tuple[int, ...] = _WEB
    with_subdomains: bool = False
    addresses: tuple[str, ...] = ()

    def covers(self, host: str, port: int) -> bool:
        """Whether this is the place that a program wants to connect to."""
        if port not in self.ports:
            return False
        if self.with_subdomains:
            return host.endswith(f".{self.host}")
        return host == self.host

    def __str__(self) -> str:
        text = f"*.{self.host}" if self.with_subdomains else self.host
        if self.ports != _WEB:
            text += f":{self.ports[0]}"
        if self.addresses:
            text += f"={'/'.join(self.addresses)}"
        return text


def read_destination(text: str) -> Destination:
    """Return the destination that `example.org`, `*.example.org` or `example.org:8443` names.

    Raises:
        DestinationError: it is none of them.
    """
    found = _NAME.fullmatch(text.strip().lower().rstrip("."))
    port = int(found["port"]) if found is not None and found["port"] else None
    if found is None or (port is not None and not 0 < port < 65_536):
        raise DestinationError(
            f"`{text[:80]}` is no domain; write `example.org`, `*.example.org`, "
            f"`example.org:8443`, or `{PACKAGES}` for the package registries"
        )
    ports = _WEB if port is None else (port,)
    return Destination(found["host"], ports, with_subdomains=found["any"] is not None)


async def pinned(destination: Destination) -> Destination:
    """Return a host with its addresses if these are not public, so that they are shown.

    One that nobody may allow is left out, and so the host stays out of reach.
    """
    try:
        # It waits longer than the five seconds after which resolvers ask again: a host without its
        # address would be another widening, and refused.
        addresses = await look_up(destination.host)
    except LookUpError:
        return destination
    private = sorted(each for each in addresses if not is_public(each) and may_be_allowed(each))
    return replace(destination, addresses=tuple(private))


def registries(settings: PackageSettings | None = None) -> list[Destination]:
    """Return the public registries, and those that the user's package managers are set to."""
    found = {Destination(host) for host in _REGISTRIES}
    for url in (settings or package_settings()).addresses():
        if url.hostname:
            ports = _WEB if url.port is None else (url.port,)
            found.add(Destination(url.hostname.rstrip("."), ports))
    return sorted(found, key=str)
