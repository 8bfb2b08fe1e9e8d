"""Projects of module authors, written to a folder for one test of the pytest plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

TOOL = """
from amplifier_core.testing import MockTool
undone = []
async def mount(coordinator, config):
    await coordinator.mount("tools", MockTool("planted"))
    return lambda: undone.append("cleanup")
"""
USES_TOOL = """
import pytest
@pytest.mark.asyncio
async def test_the_tool_is_there(tool_module, coordinator, module_path, module_type):
    assert tool_module is coordinator.get("tools")["planted"]
    assert (await tool_module.execute({})).success
    assert (module_path.name, module_type) == ("amplifier_module_tool_planted", "tool")
"""
NO_PYTEST_ASYNCIO = ("-p", "no:asyncio")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def project(
    folder: pytest.Pytester,
    source: str = TOOL,
    test: str = USES_TOOL,
    *,
    at: str = ".",
    package: str = "amplifier_module_tool_planted",
) -> Path:
    """Write a module's project with one test file and return its folder."""
    root = folder.path / at
    write(root / package / "__init__.py", source)
    write(root / "tests" / "test_planted.py", test)
    return root
