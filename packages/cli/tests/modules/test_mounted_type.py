"""The type of a module, inferred from what it mounts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplifier_cli.module_checks import try_mounting
from contract.planted_modules import IMPORTS, PROVIDER, TOOL

LOOP = """
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks): ...
async def mount(coordinator, config):
    await coordinator.mount("session", Loop(), name="orchestrator")
"""
CONTEXT = """
class Context:
    def __len__(self): return 0
    async def add_message(self, message): ...
    async def get_messages_for_request(self, token_budget=None, provider=None): ...
    async def get_messages(self): ...
    async def set_messages(self, messages): ...
    async def clear(self): ...
async def mount(coordinator, config):
    await coordinator.mount("context", Context())
"""
HOOK = """
async def seen(event, data): ...
async def mount(coordinator, config):
    return coordinator.hooks.register("tool:pre", seen)
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """The folder of a package that is forgotten after the test."""
    folder = tmp_path / "planted_by_type"
    folder.mkdir()
    yield folder
    sys.modules.pop(folder.name, None)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (TOOL, "tool"),
        (TOOL.replace("await coordinator.mount(", "return (").replace('"tools", ', ""), "tool"),
        (PROVIDER.replace('if config.get("api_key")', "if True"), "provider"),
        (LOOP, "orchestrator"),
        (CONTEXT, "context"),
        (HOOK, "hook"),
        ("async def mount(coordinator, config):\n    return lambda: None", None),
        ("async def mount(coordinator, config):\n    raise ValueError('no')", None),
    ],
)
async def test_the_type_is_inferred_from_what_is_mounted(
    package: Path, source: str, expected: str | None
) -> None:
    (package / "__init__.py").write_text(IMPORTS + source, encoding="utf-8")

    found = await try_mounting(package)

    assert next(iter(found.types), None) == expected


async def test_a_tool_that_also_listens_is_a_tool(package: Path) -> None:
    listening = '    coordinator.hooks.register("tool:pre", lambda event, data: None)\n'
    (package / "__init__.py").write_text(IMPORTS + TOOL + listening, encoding="utf-8")

    assert (await try_mounting(package)).types[0] == "tool"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def mount(", "SyntaxError"),
        ("", "No mount() function found"),
        ("async def mount(coordinator, config):\n    raise ValueError('no key')", "no key"),
    ],
)
async def test_what_cannot_be_mounted_says_why(package: Path, source: str, fault: str) -> None:
    (package / "__init__.py").write_text(source, encoding="utf-8")

    found = await try_mounting(package)

    assert found.types == ()
    assert fault in str(found.fault)
