"""Prices in the settings: the user's are used, and what is wrong with one is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.config.model_prices import prices_of
from amplifier_foundation.errors import SettingsError
from amplifier_foundation.settings import Settings, load_settings

PRICE = {"input": 1.0, "output": 2.0}


def settings(tmp_path: Path, user: str, project: str = "") -> Settings:
    home, folder = tmp_path / "home", tmp_path / "project"
    (folder / ".amplifier").mkdir(parents=True)
    home.mkdir(mode=0o700)
    (home / "settings.yaml").write_text(user, encoding="utf-8")
    (folder / ".amplifier" / "settings.yaml").write_text(project, encoding="utf-8")
    return load_settings(folder, trusted=True, home=home)


def test_the_users_prices_are_used_and_a_projects_are_not(tmp_path: Path) -> None:
    user = "pricing: { 'p/m': { input: 1.0, output: 2.0 } }\n"
    project = "pricing: { 'p/m': { input: 0, output: 0 }, q: { input: 0, output: 0 } }\n"

    prices, notices = prices_of(settings(tmp_path, user, project))

    assert prices == {"p/m": PRICE}
    [notice] = notices
    assert "was ignored: only your own settings may say that" in notice


@pytest.mark.parametrize(
    "price", ["{ input: 1 }", "{ input: -1, output: 1 }", "cheap", "{ input: 1, ouput: 2 }"]
)
def test_a_price_that_is_not_valid_is_refused_with_an_example(tmp_path: Path, price: str) -> None:
    with pytest.raises(SettingsError) as refused:
        prices_of(settings(tmp_path, f"pricing: {{ 'p/m': {price} }}\n"))

    assert "`p/m`" in refused.value.why
    assert "pricing: {" in refused.value.fix


def test_settings_without_prices_have_none(tmp_path: Path) -> None:
    assert prices_of(settings(tmp_path, "bundle: default\n")) == ({}, [])
