"""The tools `load_skill` and `read_skill_file`."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.tools import problems_in, tool_failure
from amplifier_module_tool_skills.library import Library, Skill
from amplifier_sandbox.files.names import RefusedError, decoded, shown

LOADED = "skill:loaded"

# Contexts move results above 20,000 characters out of the conversation; these stay below.
_MOST_CHARS = 18_000
_FILE_BYTES = 1_000_000


class LoadSkill(BaseModel):
    """The skill to read."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str = Field(max_length=64, description="Name of the skill.")
    start: int = Field(default=0, ge=0, description="Character to read on from.")


class ReadSkillFile(LoadSkill):
    """The file to read."""

    path: str = Field(max_length=4_096, description="The file, relative to the skill's folder.")


class SkillTool:
    """Base of both tools: their declarations and their error handling."""

    name: str
    asked: type[LoadSkill]
    effect: Effect = "pure"
    deadline_seconds = 30.0
    output_trusted = False
    network = False

    def __init__(self, coordinator: ModuleCoordinator, library: Library) -> None:
        self._coordinator = coordinator
        self._library = library
        self.input_schema = self.asked.model_json_schema()

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Return the requested text, or a part of it."""
        try:
            asked = self.asked.model_validate(input)
        except ValidationError as error:
            return tool_failure(f"The input does not fit: {problems_in(error)}.")
        skill = self._library.skills.get(asked.name)
        if skill is None:
            names = ", ".join(self._library.skills) or "none"
            return tool_failure(
                f"There is no skill `{shown(asked.name)}`. There are: {names[:2_000]}."
            )
        try:
            what, text = await self.read(skill, asked)
        except RefusedError as error:
            return tool_failure(str(error), rule=error.rule)
        except OSError as error:
            return tool_failure(f"The skill has no such file that can be read: {error.strerror}.")
        return ToolResult(output=_part(what, text, asked.start))

    async def read(self, skill: Skill, asked: Any) -> tuple[str, str]:
        """Return a title and the text."""
        raise NotImplementedError


class LoadSkillTool(SkillTool):
    """Shows the instructions of a skill, as they were when the session began."""

    name = "load_skill"
    asked = LoadSkill
    # Trusted: the user put it there or trusts the project, and later changes are not read.
    output_trusted = True

    @property
    def description(self) -> str:
        """The purpose of the tool, and the list of skills."""
        lines, more = self._library.listed()
        if more:
            lines.append(f"- and {more} more, for which there is no room here.")
        return "\n".join(
            ("Read the instructions of a skill before you do what it is for. Skills:", *lines)
            if lines
            else ("Read the instructions of a skill. There are none in this session.",)
        )

    async def read(self, skill: Skill, asked: LoadSkill) -> tuple[str, str]:
        """Return the body."""
        if not asked.start:
            data = {"name": skill.name, "path": str(skill.folder.path)}
            await self._coordinator.hooks.emit(LOADED, data)
        return f"skill {skill.name}", skill.body


class ReadSkillFileTool(SkillTool):
    """Shows a file that a skill mentions."""

    name = "read_skill_file"
    description = "Read a text file in the folder of a skill that its instructions mention."
    asked = ReadSkillFile

    async def read(self, skill: Skill, asked: ReadSkillFile) -> tuple[str, str]:
        """Return the file."""
        data = await asyncio.to_thread(skill.folder.read, asked.path, _FILE_BYTES)
        return f"skill {skill.name}: {shown(asked.path)}", decoded(asked.path, data)


def _part(what: str, text: str, start: int) -> str:
    end = min(start + _MOST_CHARS, len(text))
    more = f"; next: start={end}" if end < len(text) else ""
    return f"[{what}: characters {min(start, end)}-{end} of {len(text)}{more}]\n{text[start:end]}"
