"""What the model calls of one turn used, how the turn ended, and its typed answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter, ValidationError

from amplifier.errors import OutputError
from amplifier.events import Usage
from amplifier_core import events
from amplifier_kit.calls import budget_notices

__all__ = ["HEARD", "Totals", "problems_of", "typed"]

HEARD = (budget_notices.EXHAUSTED, events.LLM_RESPONSE, events.ORCHESTRATOR_COMPLETE)
"""The events that totals are made of."""


@dataclass
class Totals:
    """What the model calls of one turn used, and how the turn ended."""

    usage: Usage = field(default_factory=Usage)
    cost: Decimal | None = Decimal(0)
    ending: dict[str, Any] = field(default_factory=dict[str, Any])
    is_out_of_budget: bool = False

    @property
    def stop_reason(self) -> str:
        """Why the turn ended."""
        if self.is_out_of_budget:
            return budget_notices.BUDGET
        return str(self.ending.get("stop_reason") or "completed")

    def hear(self, event: str, data: dict[str, Any]) -> None:
        """Take one event of the turn."""
        match event:
            case budget_notices.EXHAUSTED:
                self.is_out_of_budget = True
            case events.LLM_RESPONSE if data.get("status") == "ok":
                self._add(data)
            case events.ORCHESTRATOR_COMPLETE:
                self.ending = dict(data)
            case _:
                pass

    def _add(self, response: dict[str, Any]) -> None:
        used: dict[str, Any] = response.get("usage") or {}
        cost: Any = used.get("cost_usd")
        self.usage = Usage(
            self.usage.input_tokens + int(used.get("input_tokens") or 0),
            self.usage.output_tokens + int(used.get("output_tokens") or 0),
            self.usage.cache_read_tokens + int(used.get("cache_read_tokens") or 0),
            self.usage.calls + 1,
        )
        if cost is None or self.cost is None:
            self.cost = None
        else:
            self.cost += Decimal(str(cost))


def typed(adapter: TypeAdapter[Any] | None, answer: str, totals: Totals) -> Any:
    """Return an answer with the type of the output.

    Raises:
        OutputError: it does not fit.
    """
    if adapter is None:
        return answer
    try:
        if "result" in totals.ending:
            return adapter.validate_python(totals.ending["result"])
        return adapter.validate_json(answer)
    except ValidationError as error:
        raise OutputError(problems_of(error), totals.stop_reason) from error


def problems_of(error: ValidationError) -> str:
    """Return what does not fit, each part by its place."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'the whole'}: {each['msg']}"
        for each in found
    )
