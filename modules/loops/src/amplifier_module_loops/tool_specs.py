"""How the mounted tools are described to the model."""

from __future__ import annotations

from typing import Any

from amplifier_core.interfaces import input_schema_of
from amplifier_core.message_models import ToolSpec


class ToolSpecs:
    """Describes tools, and describes a tool anew only when it changed."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By name: the description and schema, and the whole made of them.
        self._known: dict[str, tuple[str, dict[str, Any], ToolSpec]] = {}

    def describe(self, tools: dict[str, Any]) -> list[ToolSpec]:
        """Return the description of each tool, in the order they are mounted."""
        specs: list[ToolSpec] = []
        for tool in tools.values():
            name = tool.name
            description = tool.description
            schema = input_schema_of(tool)
            known = self._known.get(name)
            if known is None or known[0] != description or known[1] != schema:
                spec = ToolSpec(name=name, description=description, parameters=schema)
                known = self._known[name] = (description, spec.parameters, spec)
            specs.append(known[2])
        return specs
