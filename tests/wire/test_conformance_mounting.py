"""Mounting: the SDK stays off the event loop, mistakes are named, and nothing is left open."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys

import pytest

from amplifier_core.testing import MockCoordinator, wait_for
from wire.conftest import Connect
from wire.line import LIMIT_SECONDS, Display, module_of
from wire.server import WireServer
from wire.vendor import Answer, Vendor

# Ticks while the SDK is imported, by the provider or in the loop itself, and prints the longest
# time that passed between two ticks.
TICKER = """
import asyncio, importlib, json, sys, time
from amplifier_core import ModuleCoordinator

async def main(module, sdk, config, mounted):
    longest, last, done = 0.0, time.perf_counter(), False

    async def tick():
        nonlocal longest, last
        while not done:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    provider_module = importlib.import_module(module)
    assert sdk not in sys.modules
    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    longest, last = 0.0, time.perf_counter()
    if mounted:
        coordinator = ModuleCoordinator()
        cleanup = await provider_module.mount(coordinator, config)
        await next(iter(coordinator.mount_points["providers"].values())).client.get()
        await cleanup()
    else:
        importlib.import_module(sdk)
        await asyncio.sleep(0.01)
    assert sdk in sys.modules
    done = True
    await ticker
    print(longest)

asyncio.run(main(*json.loads(sys.argv[1])))
"""
KNOWN_KEY = "sk-0123456789abcdef"


def python(code: str, *arguments: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, text=True,
        encoding="utf-8", timeout=120,
    )  # fmt: skip
    return done.stdout


def package_of(vendor: Vendor) -> str:
    return f"amplifier_module_{vendor.module_id.replace('-', '_')}"


def test_importing_the_module_does_not_import_the_sdk(vendor: Vendor) -> None:
    code = f"import {package_of(vendor)}, sys; print(*sys.modules, sep='\\n')"

    loaded = set(python(code).split())

    assert loaded.isdisjoint({vendor.sdk, "httpx", "httpx2", "genai_prices"})


@pytest.mark.slow
def test_the_loop_runs_while_the_sdk_is_imported(vendor: Vendor) -> None:
    config = vendor.config("http://127.0.0.1:9")

    def longest_gap(*, mounted: bool) -> float:
        asked = json.dumps([package_of(vendor), vendor.sdk, config, mounted])
        return float(python(TICKER, asked))

    blocked = longest_gap(mounted=False)
    free = longest_gap(mounted=True)
    for _ in range(2):
        # The machine may have been busy with something else for a moment.
        free = free if free < blocked / 2 else longest_gap(mounted=True)

    assert free < blocked / 2, f"{free:.3f} s without a tick, {blocked:.3f} s for the plain import"


async def test_an_unknown_setting_is_refused_by_name(connect: Connect) -> None:
    with pytest.raises(Exception, match="no_such_setting"):
        await connect(no_such_setting=1)


async def test_a_setting_out_of_range_is_refused_by_name(connect: Connect) -> None:
    with pytest.raises(Exception, match="max_retries"):
        await connect(max_retries=-1)


async def test_without_a_key_nothing_is_mounted_and_the_person_is_told(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for variable in vendor.key_variables:
        monkeypatch.delenv(variable, raising=False)
    coordinator = MockCoordinator()
    coordinator.display_system = display = Display()

    with caplog.at_level(logging.INFO):
        cleanup = await module_of(vendor).mount(coordinator, {})

    assert cleanup is None
    assert coordinator.mount_points["providers"] == {}
    assert any(vendor.key_variables[0] in shown for shown in display.lines)


async def test_a_key_from_the_environment_is_used(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in vendor.key_variables[1:]:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(vendor.key_variables[0], KNOWN_KEY)
    async with WireServer(vendor) as server:
        config = {**vendor.config(server.base_url)}
        del config["api_key"]
        coordinator = MockCoordinator()
        cleanup = await module_of(vendor).mount(coordinator, config)
        async with asyncio.timeout(LIMIT_SECONDS):
            await next(iter(coordinator.mount_points["providers"].values())).list_models()
        await cleanup()

        assert KNOWN_KEY in str(server.side_requests[0].headers)


async def test_cleaning_up_closes_the_connections(connect: Connect) -> None:
    line = await connect(Answer.of("hello"))
    await line.ask("hi")
    assert line.server.open_connections == 1

    await line.close()

    assert await wait_for(lambda: line.server.open_connections == 0, timeout=120)


async def test_cleaning_up_at_once_is_no_error(connect: Connect) -> None:
    line = await connect()

    async with asyncio.timeout(LIMIT_SECONDS):
        await line.close()


async def test_two_mounts_do_not_share_a_client(connect: Connect) -> None:
    first, second = await connect(Answer.of("one")), await connect(Answer.of("two"))
    await first.ask("hi")
    await first.close()

    assert (await second.ask("hi")).content != []
