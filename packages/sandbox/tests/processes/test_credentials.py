"""Which paths may have keys in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_sandbox.processes.credentials import credentials_in, is_credential


@pytest.mark.parametrize("path", ["/.ssh", "/.SSH/bin", "/.Config/Gh/bin"])
def test_keys_are_known_by_name_whatever_the_case_of_its_letters(path: str) -> None:
    assert is_credential(Path(path))


def test_settings_in_an_installation_are_found_in_any_spelling(tmp_path: Path) -> None:
    for name in (".npmrc", ".Netrc", "settings"):
        (tmp_path / name).touch()

    assert {each.name for each in credentials_in(tmp_path)} == {".npmrc", ".Netrc"}
