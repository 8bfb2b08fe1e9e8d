"""The kernel's suites for providers, inherited, in front of a server of the vendor's format."""

from __future__ import annotations

import importlib

import pytest

from amplifier_conformance import ProviderFaultTests
from amplifier_core.validation.behavioral import ProviderBehaviorTests
from amplifier_core.validation.structural import ProviderStructuralTests

pytestmark = pytest.mark.usefixtures("server")

# The rules are about requests; the first one is not to be charged with the import of the SDK.
importlib.import_module("google.genai")


class TestStructure(ProviderStructuralTests):
    """It has the structure of a provider."""


class TestBehavior(ProviderBehaviorTests):
    """It behaves like a provider."""


class TestFaults(ProviderFaultTests):
    """It keeps the rules when things go wrong."""
