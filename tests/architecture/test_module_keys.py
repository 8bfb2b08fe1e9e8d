"""Every configuration key of our modules is declared: an address, a path, or harmless."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from amplifier_foundation.config.addresses import is_address_key
from amplifier_foundation.config.project_rules import MODULE_KEYS, MODULE_VARIABLES, key_of
from attacks.module_config import MODULES, ConfigKey, keys_of
from modules_on_disk import Module, modules

ROOT = Path(__file__).parents[2]
KEYS = [key for module in MODULES for key in keys_of(module)]
NUMBERS = {"integer", "number", "null"}
OF_THE_LIBRARY = {"hooks-functions", "provider-functions", "tool-functions"}
PATH_WORDS = ("path", "dir", "file", "cwd")


def declared(key: ConfigKey) -> str | None:
    found = key_of(key.module, key.path)
    return None if found is None else found.kind


def test_the_table_has_our_modules_and_no_others() -> None:
    assert sorted(MODULE_KEYS) == MODULES
    on_disk = {each.module_id for each in modules(ROOT)}
    assert on_disk | OF_THE_LIBRARY == set(MODULES)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.module} {key.name}")
def test_a_key_that_is_not_only_a_number_is_declared(key: ConfigKey) -> None:
    if not key.types <= NUMBERS and "number" not in key.types:
        assert declared(key) is not None, f"declare `{key.name}` in config/module_keys.py"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.module} {key.name}")
def test_a_key_that_is_named_like_an_address_or_a_path_is_declared_as_one(key: ConfigKey) -> None:
    last = next(part for part in reversed(key.path) if part not in ("*", "[]"))
    if not key.takes_text:
        return
    if is_address_key(last):
        assert declared(key) in ("address", "user")
    if "path" in key.types or any(word in last.split("_") for word in PATH_WORDS):
        assert declared(key) in ("path", "user")


def test_the_table_declares_no_key_that_is_not_there() -> None:
    there = {
        (key.module, ".".join(parts[:length]))
        for key in KEYS
        for parts in [[part for part in key.path if part != "[]"]]
        for length in range(1, len(parts) + 1)
    }
    listed = {(module, name) for module, keys in MODULE_KEYS.items() for name in keys}

    assert listed <= there


@pytest.mark.parametrize("module", modules(ROOT), ids=lambda each: each.module_id)
def test_the_variables_that_a_module_reads_belong_to_it(module: Module) -> None:
    config = importlib.import_module(f"{module.package}.config")
    read: set[str] = set()
    for name, value in vars(config).items():
        if name.endswith(("_VARIABLE", "_VARIABLES")):
            read.update([value] if isinstance(value, str) else value)

    assert read == set(MODULE_VARIABLES.get(module.module_id, ()))
