"""What the fault suites of all module types share: their markers and how long they wait."""

from __future__ import annotations

from typing import ClassVar

import pytest

__all__ = ["FaultTests"]


@pytest.mark.asyncio
@pytest.mark.module_validation
class FaultTests:
    """What the fault suites of all types have in common; all times in seconds."""

    # How long a call may get under way before it is cancelled, or before its deadline passes.
    start_seconds: ClassVar[float] = 0.2
    # How soon it must then have ended.
    cancel_seconds: ClassVar[float] = 2.0
    # How long anything else may take.
    patience_seconds: ClassVar[float] = 30.0

    def nothing_to_judge(self, why: str) -> None:
        """End the test without a verdict."""
        pytest.skip(why)
