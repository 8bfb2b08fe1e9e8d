"""What holds for every test: no network, and the same examples on every run."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from amplifier_kit.valid_text import valid

LOOPBACK = ("127.", "::1", "localhost")


def refuse_the_network(event: str, args: tuple[Any, ...]) -> None:
    """Raise when this process looks for, or connects to, a host other than its own."""
    if event == "socket.connect":
        address = args[1]
        host = None if isinstance(address, str | bytes) else address[0]
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if host and not str(host).startswith(LOOPBACK):
        raise PermissionError(f"A test tried to reach `{host}`; tests do not use the network.")


sys.addaudithook(refuse_the_network)

settings.register_profile("quick", derandomize=True, deadline=None)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=300)
settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let the report of a test that failed on half a character reach whoever prints it."""
    report = yield
    return valid(report)
