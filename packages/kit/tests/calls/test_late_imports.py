"""What an HTTP client would load with its first request, on the loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from amplifier_kit.calls.lazy_client import LazyClient

CODE = """
import asyncio, sys
from amplifier_kit.calls.lazy_client import LazyClient

async def main():
    client = LazyClient(object)
    assert "anyio" not in sys.modules
    await client.get()
    print("anyio._backends._asyncio" in sys.modules)

asyncio.run(main())
"""


def test_what_http_clients_load_late_is_loaded_with_the_client() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], check=True, stdout=subprocess.PIPE, text=True,
        encoding="utf-8", timeout=60,
    )  # fmt: skip

    assert done.stdout == "True\n"


async def test_a_client_is_made_where_there_is_nothing_to_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How Python notes a library that cannot be imported.
    monkeypatch.setitem(sys.modules, "anyio", None)
    monkeypatch.delitem(sys.modules, "anyio._backends._asyncio", raising=False)

    async with asyncio.timeout(120):
        assert await LazyClient(lambda: "client").get() == "client"
