"""Convert the options of a request to the vendor's parameters."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import ChatRequest, Degradation
from amplifier_kit.calls.messages import extended_thinking
from amplifier_module_provider_anthropic.config import MAX_OUTPUT_TOKENS, AnthropicConfig
from amplifier_module_provider_anthropic.to_wire import THOUGHTS, Wire

# The last API version that takes `temperature` and `top_p`.
SAMPLING_VERSION = "2023-06-01"

_SMALLEST_BUDGET = 1_024
_BUDGETS = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 30_000,
    "max": 30_000,
}
_NEAREST_EFFORT = {"none": "low", "minimal": "low", "xhigh": "high"}
# Schema keywords that the SDK moves into the description, where nothing enforces them. A property
# with such a name is not meant: its value is an object.
_UNCHECKED = re.compile(
    r'"((?:min|max)(?:imum|Length|Properties)|exclusive(?:Min|Max)imum|multipleOf|'
    r'maxItems|uniqueItems|pattern)": (?!{)'
)
_CHOICES = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
# Generations before 4.6 have a token budget for thinking; later ones decide by themselves.
_BY_BUDGET = re.compile(r"claude-(?:\d|(?:opus|sonnet|haiku)-4(?:$|@|[-.][0-5](?!\d)|-\d{8}))")


class Traits(NamedTuple):
    """What is known about a model by its name."""

    # The effort levels that it accepts; empty: it has a token budget.
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    always_thinks: bool = False
    # Accepts `temperature` and `top_p`, in the API version that has them.
    sampling: bool = False
    context_window: int = 1_000_000


def traits_of(model: str) -> Traits:
    """Return the traits; a model without `claude` in its name is treated like the oldest ones."""
    if "claude" not in model or _BY_BUDGET.search(model):
        return Traits(efforts=(), sampling=True, context_window=200_000)
    if re.search(r"-4[-.]6(?!\d)", model):
        return Traits(efforts=("low", "medium", "high", "max"), sampling=True)
    return Traits(always_thinks="fable" in model or "mythos" in model)


class Options:
    """The parameters of one request, and what they could not express."""

    def __init__(self, request: ChatRequest, config: AnthropicConfig, messages: list[Wire]) -> None:
        self.model = request.model or config.default_model
        self.shortfalls: list[Degradation] = []
        self._request = request
        self._config = config
        self._traits = traits_of(self.model)
        self._limit = request.max_output_tokens or config.max_output_tokens or MAX_OUTPUT_TOKENS
        choice = _tool_choice(request)
        asked = extended_thinking(request)
        wanted = config.extended_thinking if asked is None else asked
        output: Wire = {}
        thinking = self._thinking(wanted, choice, messages, output)
        form = request.response_format
        if form is not None and form.type == "json_schema":
            output["format"] = self._format(form.json_schema)
        user = (request.metadata or {}).get("user_id")
        # A change of `cached` invalidates the vendor's prompt cache; the others only shape the
        # answer.
        self.cached = only_given(tool_choice=choice, thinking=thinking, output_config=output)
        self.others = only_given(
            max_tokens=self._limit,
            stop_sequences=request.stop,
            metadata={"user_id": user} if isinstance(user, str) else None,
            extra_body=self._sampling(thinking),
        )

    def fall_short(self, requested: str, actual: str, reason: str) -> None:
        """Record something that the vendor cannot do as requested."""
        self.shortfalls.append(Degradation(requested=requested, actual=actual, reason=reason))

    def _thinking(
        self, wanted: bool | None, choice: Wire | None, messages: list[Wire], output: Wire
    ) -> Wire | None:
        effort = self._request.reasoning_effort or self._config.reasoning_effort
        if wanted is None and effort is None:
            return None
        if wanted is False or (wanted is None and effort == "none"):
            return self._no_thinking()
        if choice is not None and choice["type"] in ("any", "tool"):
            return self.fall_short(
                "thinking", "none", "it cannot precede a tool that must be called"
            )
        if not self._traits.efforts:
            return self._budget(effort, messages)
        if effort is not None:
            output |= self._effort(effort)
        # Newer models return no thinking unless a summary is requested.
        return {"type": "adaptive", "display": "summarized"}

    def _no_thinking(self) -> Wire | None:
        if self._traits.always_thinks:
            return self.fall_short("no thinking", "the model's own", "this model always thinks")
        if self._traits.efforts:
            return {"type": "disabled"}
        return None

    def _effort(self, asked: str) -> Wire:
        if asked in self._traits.efforts:
            sent = asked
        else:
            sent = _NEAREST_EFFORT.get(asked)
        if sent != asked:
            actual = f"effort {sent or 'of its own'}"
            self.fall_short(f"effort {asked}", actual, "the model does not know this effort")
        return only_given(effort=sent)

    def _budget(self, effort: str | None, messages: list[Wire]) -> Wire | None:
        wanted = self._config.thinking_budget_tokens
        if effort in _BUDGETS:
            wanted = _BUDGETS[effort]
        elif effort == "none":
            wanted = _SMALLEST_BUDGET
            self.fall_short("effort none", "effort minimal", "extended thinking was requested")
        elif effort is not None:
            reason = "the model does not know this effort"
            self.fall_short(f"effort {effort}", "the configured budget", reason)
        # The budget counts towards the output limit, and the answer needs a part of that.
        budget = min(wanted, self._limit - _SMALLEST_BUDGET)
        firsts = [message["content"][0]["type"] for message in messages[-2:]]
        if budget < _SMALLEST_BUDGET:
            return self.fall_short(
                "thinking", "none", f"no room in {self._limit} `max_output_tokens`"
            )
        if firsts[-1:] == ["tool_result"] and firsts[0] not in THOUGHTS:
            return self.fall_short("thinking", "none", "another model began this turn")
        return {"type": "enabled", "budget_tokens": budget}

    def _sampling(self, thinking: Wire | None) -> Wire:
        request = self._request
        config = self._config
        if request.temperature is None:
            warmth = config.temperature
        else:
            warmth = request.temperature
        asked = {"temperature": warmth, "top_p": request.top_p}
        given = {name: value for name, value in asked.items() if value is not None}
        if config.api_version != SAMPLING_VERSION:
            reason = f"only `api_version: {SAMPLING_VERSION}` has it"
        elif not self._traits.sampling:
            reason = "models after 4.6 do not take it"
        elif thinking is not None and thinking["type"] != "disabled":
            reason = "a thinking model does not take it"
        else:
            return given
        for name, value in given.items():
            self.fall_short(f"{name} {value:g}", f"the model's own {name}", reason)
        return {}

    def _format(self, schema: Wire) -> Wire:
        from anthropic import transform_schema  # noqa: PLC0415 - loaded with the client by now

        try:
            sent = transform_schema(schema)
        except (ValueError, AssertionError) as error:
            message = f"The vendor cannot express this schema: {error}"
            raise InvalidRequestError(message, provider="anthropic", model=self.model) from error
        for word in sorted(set(_UNCHECKED.findall(json.dumps(schema)))):
            self.fall_short(f"`{word}` in a schema", "a hint", "the vendor does not check it")
        return {"type": "json_schema", "schema": sent}


def only_given(**parameters: Any) -> Wire:
    """Return the parameters that are not empty."""
    return {name: value for name, value in parameters.items() if value}


def _tool_choice(request: ChatRequest) -> Wire | None:
    asked = request.tool_choice
    if isinstance(asked, dict):
        if asked.get("type") in ("auto", "any", "tool", "none"):
            return asked
        asked = str(asked.get("function", asked).get("name"))
    if asked is None or (asked in ("auto", "none") and not request.tools):
        return None
    if asked in _CHOICES:
        return {"type": _CHOICES[asked]}
    return {"type": "tool", "name": asked}
