"""Convert the options of a request to the vendor's parameters, as far as the model has them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from amplifier_core.message_models import (
    ChatRequest,
    Degradation,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ToolSpec,
)
from amplifier_kit.calls.messages import extended_thinking
from amplifier_module_provider_gemini.config import GeminiConfig

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "any": "ANY"}
# Google's own equivalents, for models with a token budget instead of levels.
_BUDGETS = {"none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192, "high": 24_576}
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}


class Model:
    """What is known about a model by its name; one without a version counts as current."""

    def __init__(self, name: str) -> None:
        self.name = name.removeprefix("models/")
        number = re.search(r"gemini-(\d+(?:\.\d+)?)", name)
        version = 2.0 if "gemma" in name else float(number[1]) if number else 3.0
        self.is_current = version >= 3
        self.thinks = version >= 2.5
        self.context_window = 131_072 if "gemma" in name else 1_048_576
        self.max_output_tokens = 65_536 if self.thinks else 8_192


@dataclass
class Options:
    """The options of one request; `shortfalls` lists what the model cannot do."""

    request: ChatRequest
    config: GeminiConfig
    model: Model
    shortfalls: list[Degradation] = field(default_factory=list[Degradation])

    def fall_short(self, requested: str, actual: str, reason: str) -> None:
        """Record something that is not done as requested."""
        self.shortfalls.append(Degradation(requested=requested, actual=actual, reason=reason))

    def wire(self) -> dict[str, Any]:
        """Return the options in the SDK's form."""
        request = self.request
        config = self.config
        if request.temperature is None:
            warmth = config.temperature
        else:
            warmth = request.temperature
        wanted = {
            "temperature": warmth,
            "topP": request.top_p,
            "maxOutputTokens": request.max_output_tokens or config.max_output_tokens,
            "stopSequences": request.stop or None,
            "thinkingConfig": self._thinking(),
            **self._format(),
            # The SDK must not call tools or send further requests: loops and retries do that.
            "automaticFunctionCalling": {"disable": True},
            "automaticContinuation": False,
        }
        if request.tools:
            wanted["tools"] = [{"functionDeclarations": [declaration(t) for t in request.tools]}]
            wanted["toolConfig"] = _tool_config(request.tool_choice or "auto")
        return {key: value for key, value in wanted.items() if value is not None}

    def _format(self) -> dict[str, Any]:
        wanted = self.request.response_format
        if not isinstance(wanted, ResponseFormatJson | ResponseFormatJsonSchema):
            return {}
        if self.request.tools and not self.model.is_current:
            reason = f"{self.model.name} has either tools or structured output"
            self.fall_short(f"an answer in {wanted.type}", "text", reason)
            return {}
        if isinstance(wanted, ResponseFormatJson):
            return {"responseMimeType": "application/json"}
        schema = wanted.json_schema
        if isinstance(schema.get("schema"), dict):
            schema = cast("dict[str, Any]", schema["schema"])
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}

    def _thinking(self) -> dict[str, Any] | None:
        extended = extended_thinking(self.request)
        effort = self.request.reasoning_effort or self.config.reasoning_effort
        if effort is None and not extended:
            return None
        name = self.model.name
        current = self.model.is_current
        if not self.model.thinks:
            if effort != "none":
                self.fall_short(f"thinking ({effort or 'extended'})", "none", f"{name} has none")
            return None
        if effort is None:
            # The model decides how much; -1 says so for models that may not think by default.
            return {"includeThoughts": True, **({} if current else {"thinkingBudget": -1})}
        known: dict[str, Any] = _LEVELS if current else _BUDGETS
        nearest = effort if effort in known else "minimal" if effort == "none" else "high"
        if nearest != effort:
            reason = f"{name} knows {', '.join(known)}"
            self.fall_short(f"reasoning effort {effort}", f"reasoning effort {nearest}", reason)
        key = "thinkingLevel" if current else "thinkingBudget"
        return {"includeThoughts": effort != "none", key: known[nearest]}


def declaration(tool: ToolSpec) -> dict[str, Any]:
    """Return the declaration of a tool for the model."""
    about = {"name": tool.name, "description": tool.description or ""}
    return {**about, "parametersJsonSchema": tool.parameters}


def _tool_config(choice: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(choice, dict):
        function: dict[str, Any] = choice.get("function") or choice
        choice = str(function.get("name") or choice.get("type"))
    mode = _MODES.get(choice)
    named = {"mode": "ANY", "allowedFunctionNames": [choice]}
    return {"functionCallingConfig": {"mode": mode} if mode else named}
