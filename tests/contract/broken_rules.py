"""What the tests of the fault suites share: modules that misbehave, and rules that are reported."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Any

import pytest

from amplifier_conformance import RECOMMENDED, RULES, RecommendationWarning


def reported(rule: str) -> AbstractContextManager[Any]:
    """Return what expects a broken rule by its name: as a failure, or if recommended a warning."""
    words = f"^Rule {rule}.*: {RULES[rule]}; "
    if rule in RECOMMENDED:
        return pytest.warns(RecommendationWarning, match=words)
    return pytest.raises(AssertionError, match=words)


async def ignore_cancellation(seconds: float) -> None:
    """Run on for so long, however often it is cancelled."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue
