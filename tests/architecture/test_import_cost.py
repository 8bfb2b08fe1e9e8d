"""What importing the kernel loads: next to nothing, then pydantic and ourselves; never the kit."""

from __future__ import annotations

import os
import subprocess
import sys

FLOOR = """
import asyncio, json, uuid, logging, datetime
from pydantic import BaseModel, ConfigDict, Field
from pydantic import field_validator, field_serializer, model_serializer
"""
NEVER = (
    "amplifier_core.pytest_plugin",
    "amplifier_core.testing",
    "amplifier_core.validation",
    "click",
    "httpx",
    "importlib.metadata",
    "pytest",
    "unittest",
    "yaml",
)
MAX_MODULES_BEYOND_THE_FLOOR = 60


def modules_loaded_by(code: str) -> set[str]:
    """Run `code` in a fresh interpreter, unwatched, and return the names in its `sys.modules`."""
    script = f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={key: value for key, value in os.environ.items() if not key.startswith("COV")},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    return set(result.stdout.split())


def test_importing_the_package_loads_no_part_of_the_kernel() -> None:
    loaded = modules_loaded_by("import amplifier_core")

    assert {name for name in loaded if name.startswith("amplifier_core.")} == set()
    assert "pydantic" not in loaded


def test_using_the_kernel_loads_little_beyond_pydantic() -> None:
    beyond = modules_loaded_by("from amplifier_core import *") - modules_loaded_by(FLOOR)
    kernel = modules_loaded_by("from amplifier_core import AmplifierSession") - modules_loaded_by(
        FLOOR
    )

    assert "amplifier_core.session" in kernel
    assert len(kernel) <= MAX_MODULES_BEYOND_THE_FLOOR, sorted(kernel)
    assert kernel.intersection(NEVER) == set()
    assert "amplifier_core.testing" in beyond


def test_the_doubles_can_still_be_had_from_the_top() -> None:
    loaded = modules_loaded_by("from amplifier_core import MockTool")

    assert "amplifier_core.testing" in loaded


def test_importing_the_foundation_loads_none_of_the_names_that_published_modules_ask_for() -> None:
    loaded = modules_loaded_by("import amplifier_foundation")
    asked = modules_loaded_by("from amplifier_foundation import ProviderPreference")

    assert {"amplifier_foundation.spawn_utils", "pydantic", "yaml"}.isdisjoint(loaded)
    assert "amplifier_foundation.spawn_utils" in asked
    assert {"amplifier_foundation.live", "pydantic", "yaml"}.isdisjoint(asked)
