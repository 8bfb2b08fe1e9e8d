"""What is said of a provider that is not mounted."""

from __future__ import annotations

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.calls.mounting import explain_absence


class Display:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source}: {message}")


def test_an_absence_is_shown_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = MockCoordinator()
    coordinator.display_system = display = Display()

    explain_absence(coordinator, "p", "set `base_url`")

    assert display.lines == ["provider-p: not mounted: set `base_url`"]
    assert "name=p remedy=set `base_url`" in caplog.text
