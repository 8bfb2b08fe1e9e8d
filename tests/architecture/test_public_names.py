"""The public names of the kernel: adding or dropping one is a visible line in a committed list."""

from __future__ import annotations

import tomllib
from pathlib import Path

import amplifier_core

LIST = Path(__file__).with_name("public_names.txt")
CORE = Path(__file__).parents[2] / "packages/core"


def committed_names() -> list[str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_public_names_are_the_committed_ones() -> None:
    assert sorted(amplifier_core.__all__) == committed_names()


def test_every_public_name_can_be_had() -> None:
    missing = [name for name in amplifier_core.__all__ if not hasattr(amplifier_core, name)]

    assert missing == []


def test_no_name_is_public_twice() -> None:
    assert len(set(amplifier_core.__all__)) == len(amplifier_core.__all__)


def test_the_version_in_the_code_is_the_version_of_the_distribution() -> None:
    metadata = tomllib.loads((CORE / "pyproject.toml").read_text(encoding="utf-8"))

    assert amplifier_core.__version__ == metadata["project"]["version"]
