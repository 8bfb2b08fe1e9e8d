"""tool-skills: folders of instructions that the model reads when it needs them."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.notices import show
from amplifier_module_tool_skills.config import SkillsConfig
from amplifier_module_tool_skills.library import Library
from amplifier_module_tool_skills.tools import LOADED, LoadSkillTool, ReadSkillFileTool
from amplifier_sandbox.files.workspace import working_dir

__amplifier_module_type__ = "tool"
__all__ = ["Library", "mount", "on_session_ready"]

_NAME = "tool-skills"
_LEFT_OUT = "skill:left_out"
_CAPABILITY = "skills.library"


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the tools and the capability `skills.library`. Config: see `SkillsConfig`."""
    settings = SkillsConfig.model_validate(config or {})
    working = working_dir(coordinator, settings.working_dir)
    # Compared with `is True`, because a text such as "false" is truthy.
    told: Any = coordinator.get_capability("project.trusted")
    library = Library()
    await asyncio.to_thread(
        library.collect,
        settings.paths,
        working,
        trust_project=settings.trust_project or told is True,
    )
    coordinator.register_capability(_CAPABILITY, library)
    coordinator.register_contributor("observability.events", _NAME, lambda: [LOADED, _LEFT_OUT])
    await coordinator.mount("tools", LoadSkillTool(coordinator, library))
    await coordinator.mount("tools", ReadSkillFileTool(coordinator, library))


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Announce what was left out."""
    library = coordinator.get_capability(_CAPABILITY)
    if not isinstance(library, Library):
        return
    for each in library.left_out:
        show(coordinator, f"Left out: {each.path}: {each.reason}.", source=_NAME)
        await coordinator.hooks.emit(_LEFT_OUT, each._asdict())
    without_room = library.listed()[1]
    if without_room:
        reason = f"{without_room} skills are not named to the model, there are too many"
        show(coordinator, f"{reason}.", source=_NAME)
        await coordinator.hooks.emit(_LEFT_OUT, {"kind": "beyond", "path": "", "reason": reason})
