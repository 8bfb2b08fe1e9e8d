"""Fixtures of the wire suite: each case runs for every vendor whose format can express it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest

from wire.line import QUICK, Line
from wire.server import Scripted, WireServer
from wire.vendor import Vendor
from wire.vendors import VENDORS


class Connect(Protocol):
    """Mounts the vendor's provider, with `config` over its usual one, in front of a script."""

    async def __call__(self, *replies: Scripted, **config: Any) -> Line:
        """Return the line between the two."""
        ...


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks that say which vendors a case is for."""
    config.addinivalue_line("markers", "needs(*features): for vendors whose format has all these")
    config.addinivalue_line(
        "markers", "lacks(*features): for vendors whose format has none of them"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each case once per vendor; the quick tests make do with the first that can."""
    if "vendor" not in metafunc.fixturenames:
        return
    needed = {each for mark in metafunc.definition.iter_markers("needs") for each in mark.args}
    absent = {each for mark in metafunc.definition.iter_markers("lacks") for each in mark.args}
    able = [each for each in VENDORS if needed <= each.features and not absent & each.features]
    assert able, f"no vendor can run {metafunc.definition.nodeid}"
    first, *others = [pytest.param(each, id=each.id) for each in able]
    later = [pytest.param(*each.values, id=each.id, marks=pytest.mark.slow) for each in others]
    metafunc.parametrize("vendor", [first, *later])


@pytest.fixture
async def connect(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    """Give lines to the vendor, and close them after the test."""
    for variable in vendor.key_variables:
        monkeypatch.delenv(variable, raising=False)
    async with AsyncExitStack() as stack:

        async def connected(*replies: Scripted, **config: Any) -> Line:
            server = await stack.enter_async_context(WireServer(vendor, *replies))
            line = Line(server)
            stack.push_async_callback(line.close)
            await line.mount({**vendor.config(server.base_url), **QUICK, **config})
            return line

        yield connected
