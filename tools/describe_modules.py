"""Write modules/README.md from the modules themselves: what each mounts, its events, its settings.

Every module is mounted for real, each with nothing else around it. Without `--write` the file is
only compared, and a difference is an error.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from amplifier_core.testing import MockCoordinator
from modules_on_disk import Module, modules

ROOT = Path(__file__).parents[1]
TARGET = Path("modules/README.md")
# What a module cannot be mounted without. Nobody listens there, and nothing is sent on mounting.
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "none",
    "GEMINI_API_KEY": "none",
    "OPENAI_API_KEY": "none",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
}
SETTINGS: dict[str, dict[str, Any]] = {"provider-failover": {"providers": ["anthropic", "openai"]}}

INTRODUCTION = """\
# Modules

One folder is one distribution, `amplifier-module-<folder>`: one module, or a family of modules that
share code (`contexts`, `files`, `loops`). Each module has a page that says more. This page is made
from the modules themselves by `make modules-readme`.
"""


@dataclass
class Description:
    """What is said about one module."""

    module: Module
    mounts: list[str]
    events: list[str]
    settings: list[tuple[str, str, str, str]]


async def describe(module: Module) -> Description:
    """Mount a module and return what it shows of itself."""
    readme = module.readme.read_text(encoding="utf-8")
    coordinator = MockCoordinator()
    settings = SETTINGS.get(module.module_id, {})
    cleanup = await importlib.import_module(module.package).mount(coordinator, settings)
    mounts = list(_mounted(coordinator.mount_points))
    if callable(cleanup):
        closing = cleanup()
        if inspect.isawaitable(closing):
            await closing
    config = importlib.import_module(f"{module.package}.config")
    return Description(
        module,
        mounts,
        list(_events(readme)),
        list(_settings(config, readme, set(settings))),
    )


def _mounted(mount_points: dict[str, Any]) -> Iterator[str]:
    for point, value in mount_points.items():
        if isinstance(value, dict) and value:
            names = ", ".join(f"`{name}`" for name in value)  # pyright: ignore[reportUnknownVariableType] - named slots
            yield f"{point}: {names}"
        elif value is not None and point in ("orchestrator", "context"):
            yield point


def _events(readme: str) -> Iterator[str]:
    """Yield the names in the first column of the tables under `## Events`."""
    section = readme.partition("\n## Events\n")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| *(`[^|]+`) *\|", section, re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", row)


def _settings(
    config: ModuleType, readme: str, required: set[str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of each setting, in the JSON a mount plan is made of."""
    for name, model in inspect.getmembers(config, inspect.isclass):
        if not name.endswith("Config") or model.__module__ != config.__name__:
            continue
        assert issubclass(model, BaseModel)
        schema = model.model_json_schema(by_alias=False)
        for key, field in schema["properties"].items():
            default = "required" if key in required else _default(field)
            yield key, _type_name(field), default, field.get("description") or _said(readme, key)


def _type_name(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type_name, schema["anyOf"])))
    return schema.get("type", "object")


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "none" if value is None else f"`{json.dumps(value)}`"


def _said(readme: str, key: str) -> str:
    """Return the last cell of the row that begins with `key` in a table of the README."""
    row = re.search(rf"^\| *`{key}` *\|.*\|([^|]*)\|$", readme, re.MULTILINE)
    return row[1].strip() if row else ""


def render(descriptions: list[Description]) -> str:
    """Return the page."""
    lines = [INTRODUCTION, "| module | what it is | mounts |", "|---|---|---|"]
    for each in descriptions:
        page = each.module.readme.relative_to(ROOT / TARGET.parent)
        link = f"[`{each.module.module_id}`]({page})"
        lines.append(f"| {link} | {each.module.summary} | {'; '.join(each.mounts)} |")
    for each in descriptions:
        events = ", ".join(f"`{name}`" for name in each.events) or "none of its own"
        lines += ["", f"## {each.module.module_id}", "", f"Events: {events}.", ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        for key, kind, default, meaning in each.settings:
            cells = (f"`{key}`", f"`{kind}`", default, meaning)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


async def page() -> str:
    """Describe every module on disk."""
    return render([await describe(module) for module in modules(ROOT)])


def main() -> int:
    """Write the page, or say whether it is up to date."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {**ENVIRONMENT, "HOME": home}
        text = asyncio.run(page())
    if "--write" in sys.argv:
        (ROOT / TARGET).write_text(text, encoding="utf-8")
        return 0
    if (ROOT / TARGET).read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET} is not what the modules say; run `make modules-readme`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
