"""What the doctor says about the sandbox of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_cli.checkup import CHECKS, Finding
from amplifier_sandbox.processes import seatbelt
from linux_masks import mask_as_macos


def about_the_sandbox() -> Finding:
    [finding] = [each for each in CHECKS["sandbox"]() if each.what == "sandbox"]
    return finding


def test_the_doctor_names_the_sandbox_of_macos(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mask_as_macos(monkeypatch, tmp_path)

    finding = about_the_sandbox()

    assert (finding.level, finding.fix) == ("ok", "")
    assert finding.told.startswith("Seatbelt of macOS")


def test_the_doctor_says_why_macos_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mask_as_macos(monkeypatch, tmp_path)
    monkeypatch.setattr(seatbelt, "find_seatbelt", lambda: None)

    finding = about_the_sandbox()

    assert (finding.level, finding.fix) == ("error", "")
    assert "`/usr/bin/sandbox-exec`" in finding.told
