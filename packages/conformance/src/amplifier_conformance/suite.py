"""The base of all fault suites: their markers and their time limits."""

from __future__ import annotations

from typing import ClassVar

import pytest

__all__ = ["FaultTests"]


@pytest.mark.asyncio
@pytest.mark.module_validation
class FaultTests:
    """The base of the fault suites of all types; all times in seconds."""

    # How long a call runs before it is cancelled, or before its deadline passes.
    start_seconds: ClassVar[float] = 0.2
    # How soon it must end after that.
    cancel_seconds: ClassVar[float] = 2.0
    # The limit for everything else.
    patience_seconds: ClassVar[float] = 30.0

    def nothing_to_judge(self, why: str) -> None:
        """Skip the test: the module does nothing that its rule is about."""
        pytest.skip(why)
