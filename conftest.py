"""What holds for every test: no network, and the same examples on every run."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from amplifier_kit.valid_text import valid
from linux_masks import mask_path_resolution

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which suites run as on a system that is not Linux."""
    parser.addoption(
        "--mask-linux", action="store_true", help="hide `openat2` and O_PATH from the file tools"
    )


@pytest.fixture(autouse=True)
def linux_calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what only Linux has, if the run is asked to."""
    if request.config.getoption("--mask-linux"):
        mask_path_resolution(monkeypatch)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands that tests start keep compiled files, as where the command is installed.

    All workers of a run share the folder: the first start takes three times as long as the next.
    """
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent
    folder = run / "compiled"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let the report of a test that failed on half a character reach whoever prints it."""
    report = yield
    return valid(report)
