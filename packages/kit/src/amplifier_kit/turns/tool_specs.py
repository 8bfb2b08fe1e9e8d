"""How the mounted tools are described to the model."""

from __future__ import annotations

from typing import Any

from amplifier_core.message_models import ToolSpec


class ToolSpecs:
    """Describes tools, and describes a tool anew only when it changed."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: dict[str, ToolSpec] = {}

    def describe(self, tools: dict[str, Any]) -> list[ToolSpec]:
        """Return the description of each tool, in the order they are mounted."""
        return [self._describe(tool) for tool in tools.values()]

    def _describe(self, tool: Any) -> ToolSpec:
        name, description = tool.name, tool.description
        schema = _schema_of(tool)
        known = self._specs.get(name)
        if known is None or known.description != description or known.parameters != schema:
            known = ToolSpec(name=name, description=description, parameters=schema)
            self._specs[name] = known
        return known


def _schema_of(tool: Any) -> dict[str, Any]:
    """Return a tool's schema, which it gives as a property, by a method, or not at all."""
    schema = getattr(tool, "input_schema", None)
    if schema is None and callable(getattr(tool, "get_schema", None)):
        schema = tool.get_schema()
    return {} if schema is None else schema
