"""Real sessions around what a block of the contracts defines: its mount, its tool."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core import AmplifierSession, ToolResult
from contract.installer import Installer

__all__ = ["LOGGER", "ShownTool", "failures", "session_with"]

# The logger that blocks take for granted; pytest captures what they log.
LOGGER = logging.getLogger("seeds")
LOGGER.setLevel(logging.INFO)


class ShownTool:
    """The `MyTool` of the contracts, with every method that their blocks call."""

    def __init__(self, setting: str = "none") -> None:
        self.setting = setting
        self.shutdowns = 0
        self.inputs: list[Any] = []

    @property
    def name(self) -> str:
        """The name it mounts under."""
        return "my-tool"

    @property
    def description(self) -> str:
        """What a model reads."""
        return "The tool of the contracts."

    @property
    def input_schema(self) -> dict[str, Any]:
        """Any object."""
        return {"type": "object"}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Keep the input and give it back."""
        self.inputs.append(input)
        return ToolResult(output=input)

    async def analyze(self) -> str:
        """Be something to offer as a capability."""
        return "analyzed"

    def validate(self) -> bool:
        """Be something to offer as a capability."""
        return True

    def get_config(self) -> dict[str, str]:
        """Be something to offer as a capability."""
        return {"setting": self.setting}

    async def shutdown(self) -> None:
        """Count."""
        self.shutdowns += 1


def session_with(
    installed: Installer,
    mount: Any,
    config: dict[str, Any] | None = None,
    *,
    module_id: str = "tool-shown",
    **options: Any,
) -> AmplifierSession:
    """Make a session with a loop, a context, a provider and one module with this mount.

    A module id that starts with `hook` puts the module into the section of the hooks.
    """
    installed.add(module_id, mount)
    section = "hooks" if module_id.startswith("hook") else "tools"
    entry = {"module": module_id, "config": config or {}}
    return AmplifierSession(installed.basics(**{section: [entry]}), **options)


def failures(session: AmplifierSession) -> list[str]:
    """Give the errors of the modules that did not mount."""
    return [each.error for each in session.status.modules if each.error is not None]
