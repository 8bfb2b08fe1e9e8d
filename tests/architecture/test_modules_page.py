"""The page about all modules says what the modules say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from modules_on_disk import Module, modules

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_modules_say() -> None:
    result = subprocess.run(
        [sys.executable, "tools/describe_modules.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("module", modules(ROOT), ids=lambda each: each.module_id)
def test_the_readme_of_a_module_names_every_setting(module: Module) -> None:
    page = (ROOT / "modules/README.md").read_text(encoding="utf-8")
    readme = module.readme.read_text(encoding="utf-8")
    section = page.partition(f"\n## {module.module_id}\n")[2].partition("\n## ")[0]
    settings = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)

    configuration = readme.partition("\n## Configuration\n")[2].partition("\n## ")[0]
    assert [key for key in settings if f"`{key}`" not in configuration] == []
