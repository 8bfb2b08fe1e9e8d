"""The kernel's suites for providers, inherited; the vendor is a server on this machine."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator

import pytest

from amplifier_conformance import ProviderFaultTests
from amplifier_core.validation.behavioral import ProviderBehaviorTests
from amplifier_core.validation.structural import ProviderStructuralTests
from wire.server import WireServer
from wire.vendors.responses import Responses

# The rules are about requests; the first one is not to be charged with the import of the SDK.
importlib.import_module("openai")


@pytest.fixture(autouse=True)
async def vendor_next_door(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Configure the provider by its environment, as a suite that knows no vendor cannot."""
    async with WireServer(Responses()) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.base_url}/v1")
        yield


class TestStructure(ProviderStructuralTests):
    """It has the structure of a provider."""


class TestBehavior(ProviderBehaviorTests):
    """It behaves like a provider."""


class TestFaults(ProviderFaultTests):
    """It keeps the rules when things go wrong."""
