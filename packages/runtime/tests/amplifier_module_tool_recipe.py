"""A tool that has agents do steps in sequence, as recipe tools do, and stops at a gate.

Config: `before` and `after` are the steps on each side of the gate, `folder` is where it keeps how
far it is. It declares no effect, and draws ids anew in every run.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from amplifier_core.models import ToolResult

__amplifier_module_type__ = "tool"


class Recipe:
    name = "recipe"
    description = "Runs a recipe, or continues one that waits for an approval."
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {"operation": {"type": "string"}},
    }

    def __init__(self, coordinator: Any, config: dict[str, Any]) -> None:
        self._coordinator = coordinator
        self._config = config
        self._folder = Path(config["folder"])

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        if input["operation"] == "approve":
            [waiting, *_] = sorted(self._folder.glob("recipe-*"))
            found = json.loads(waiting.read_text(encoding="utf-8"))
            said = await self._do(self._config["after"])
            return ToolResult(output=" ".join([*found, *said]))
        said = await self._do(self._config["before"])
        kept = self._folder / f"recipe-{secrets.token_hex(8)}"
        kept.write_text(json.dumps(said), encoding="utf-8")
        return ToolResult(output="It waits for an approval.")

    async def _do(self, steps: list[str]) -> list[str]:
        spawn = self._coordinator.get_capability("session.spawn")
        said: list[str] = []
        for step in steps:
            result = await spawn(
                agent_name="worker",
                instruction=step,
                parent_session=self._coordinator.session,
                agent_configs=self._coordinator.config.get("agents", {}),
                sub_session_id=f"step-{secrets.token_hex(8)}",
                session_metadata={"agent_name": "worker", "drawn": secrets.token_hex(8)},
            )
            said.append(result["output"])
        return said


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("tools", Recipe(coordinator, config or {}), name="recipe")
