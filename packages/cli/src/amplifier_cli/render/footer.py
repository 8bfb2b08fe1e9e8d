"""The footer: the current state, the mode, the model, the share of its window, the cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from rich.cells import cell_len

from amplifier_cli.render.plain import cost_text, count, money, one_line
from amplifier_foundation.short_ids import short_id

_BAR_CELLS = 5
_BETWEEN = " · "


@dataclass(frozen=True)
class Meter:
    """The values that the footer shows."""

    state: str
    mode: str = ""
    hint: str = ""
    model: str = ""
    session: str = ""
    tokens: int | None = None
    window: int | None = None
    cost: Decimal | None = None
    unpriced_calls: int = 0
    budget: Decimal | None = None
    queued: int = 0


def footer(meter: Meter, width: int) -> list[tuple[str, str]]:
    """Return the line as (style, text); the least important parts are dropped if it is narrow."""
    parts = _parts(meter)
    for dropped in (None, "bar", "session", "model", "hint", "cost", "context"):
        parts.pop(dropped, None)
        if _length(parts) <= width:
            break
    hint = parts.pop("hint", "")
    line: list[tuple[str, str]] = []
    for name, text in parts.items():
        line += [("", _BETWEEN)] if line else []
        line.append((_style(name, meter), text))
    gap = width - sum(cell_len(text) for _, text in line) - cell_len(hint)
    if hint:
        return [*line, ("", " " * gap), ("", hint)]
    return line


def _parts(meter: Meter) -> dict[str | None, str]:
    parts: dict[str | None, str] = {"state": meter.state}
    if meter.mode:
        parts["mode"] = f"mode {meter.mode}"
    if meter.queued:
        parts["queued"] = f"{meter.queued} queued"
    if meter.model:
        parts["model"] = one_line(meter.model)
    if meter.tokens is not None and meter.window:
        share = meter.tokens / meter.window
        if share:
            filled = min(_BAR_CELLS, round(share * _BAR_CELLS))
        else:
            filled = 0
        parts["bar"] = "▰" * filled + "▱" * (_BAR_CELLS - filled)
        parts["context"] = f"{count(meter.tokens)} of {count(meter.window)} {share:.0%}"
    cost = _cost(meter)
    if cost:
        parts["cost"] = cost
    if meter.session:
        parts["session"] = short_id(meter.session)
    if meter.hint:
        parts["hint"] = meter.hint
    return parts


def _cost(meter: Meter) -> str:
    if meter.budget is None:
        return cost_text(meter.cost, meter.unpriced_calls)
    if meter.unpriced_calls:
        return f"{cost_text(meter.cost, meter.unpriced_calls)}, limit {money(meter.budget)}"
    return f"{money(meter.cost or Decimal(0))} of {money(meter.budget)}"


def _style(name: str | None, meter: Meter) -> str:
    if name == "state":
        return "class:footer.state"
    # What asks less than the default does stands out.
    if name == "mode" and meter.mode in ("edits", "auto"):
        return "class:footer.mode"
    if name in ("bar", "context") and meter.tokens and meter.window:
        if meter.tokens > 0.8 * meter.window:
            return "class:footer.full"
        return ""
    if name == "cost" and meter.cost is not None and meter.budget is not None:
        if meter.cost > meter.budget * Decimal("0.8"):
            return "class:footer.full"
        return ""
    return ""


def _length(parts: dict[str | None, str]) -> int:
    # The hint is right-aligned: at least one blank before it, instead of a separator.
    hint = "hint" in parts
    return (
        sum(cell_len(text) for text in parts.values())
        + len(_BETWEEN) * (len(parts) - 1 - hint)
        + hint
    )
