"""The time, tokens and money that a session used, by module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

__all__ = ["Leaf", "Share", "Spending", "cost_of_result", "is_unpriced", "spending"]

LOOP = "loop"
USER = "user"
_NO_CHILDREN: Mapping[str, Iterable[Any]] = {}


class Leaf(NamedTuple):
    """One call, one answer of the user, or the rest of a turn's time.

    The cost is None if it was not reported; `is_unpriced` if there was one all the same.
    `session_id` is empty for the session itself.
    """

    kind: str
    module: str
    name: str
    turn: int
    call: str
    seconds: float
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: Decimal | None = None
    session_id: str = ""
    is_unpriced: bool = False


class Share(NamedTuple):
    """The totals of one module."""

    module: str
    calls: int
    seconds: float
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    unpriced_calls: int = 0


class Spending:
    """What a session used, record by record, as the sum of its leaves."""

    def __init__(self, session_id: str = "") -> None:
        """`session_id` is that of a child session, for its leaves."""
        self.leaves: list[Leaf] = []
        # The sum of all reported costs; None if there are none.
        self.cost_usd: Decimal | None = None
        # How many model calls have an unknown cost, so that the sum is less than what was spent.
        self.unpriced_calls = 0
        self._session_id = session_id
        self._shares: dict[str, Share] = {}
        self._turn = 0
        self._open: dict[str, dict[str, Any]] = {}
        # The time of the calls inside of a call, by that call.
        self._inner: dict[str, float] = {}
        # When the calls and questions of a turn ran; they may overlap.
        self._busy: dict[int, list[tuple[float, float]]] = {}

    def take(self, record: Any) -> None:
        """Add one record, in the order of the log."""
        data: dict[str, Any] = record.data
        if record.kind == "prompt":
            self._turn = data["turn"]
        elif record.kind in ("model.call", "tool.call"):
            self._open[data["call"]] = data
            if data.get("inside"):
                self._inner.setdefault(data["inside"], 0.0)
        elif record.kind in ("model.result", "tool.result") and data["call"] in self._open:
            self._end_call(record)
        elif record.kind == "approval":
            seconds = self._note_busy(record, self._turn)
            self._add_rest(USER, self._turn, seconds)
        elif record.kind == "turn.ended":
            covered = _covered(self._busy.pop(data["turn"], []))
            rest = max(0.0, float(data.get("seconds") or 0.0) - covered)
            self._add_rest(LOOP, data["turn"], rest)

    def include(self, child: Spending) -> None:
        """Add what a child of the session used."""
        for leaf in child.leaves:
            self._add(leaf)

    def by_module(self) -> list[Share]:
        """Return the share of each module, the most expensive first, then the slowest."""
        return sorted(
            self._shares.values(), key=lambda each: (-(each.cost_usd or 0), -each.seconds)
        )

    def _end_call(self, record: Any) -> None:
        call = self._open.pop(record.data["call"])
        outer = call.get("inside")
        # The time of an inner call is part of that of the outer one.
        if outer:
            seconds = float(record.data.get("seconds") or 0.0)
            self._inner[outer] = self._inner.get(outer, 0.0) + seconds
        else:
            self._note_busy(record, call["turn"])
        inner = self._inner.pop(call["call"], None)
        self._add(_leaf(call, record.data, inner, self._session_id))

    def _note_busy(self, record: Any, turn: int) -> float:
        seconds = float(record.data.get("seconds") or 0.0)
        end = datetime.fromisoformat(record.at).timestamp()
        self._busy.setdefault(turn, []).append((end - seconds, end))
        return seconds

    def _add_rest(self, kind: str, turn: int, seconds: float) -> None:
        self._add(Leaf(kind, kind, kind, turn, "", seconds, session_id=self._session_id))

    def _add(self, leaf: Leaf) -> None:
        self.leaves.append(leaf)
        self.cost_usd = _sum(self.cost_usd, leaf.cost_usd)
        self.unpriced_calls += leaf.is_unpriced
        share = self._shares.get(leaf.module) or Share(leaf.module, 0, 0.0, 0, 0, None)
        self._shares[leaf.module] = Share(
            leaf.module,
            share.calls + (leaf.kind != LOOP),
            share.seconds + leaf.seconds,
            share.input_tokens + leaf.input_tokens,
            share.output_tokens + leaf.output_tokens,
            _sum(share.cost_usd, leaf.cost_usd),
            share.unpriced_calls + leaf.is_unpriced,
        )


def cost_of_result(data: dict[str, Any]) -> Decimal | None:
    """Return the reported cost of a `model.result`, or None."""
    cost = _usage_of(data).get("cost_usd")
    if cost is None:
        return None
    return Decimal(str(cost))


def is_unpriced(data: dict[str, Any]) -> bool:
    """Whether a `model.result` is of a call that may have been billed at an unknown cost.

    A failure before a model began to work is not billed.
    """
    if cost_of_result(data) is not None:
        return False
    error: dict[str, Any] = data.get("error") or {}
    if not error:
        return True
    from amplifier_kit.calls.call_costs import FREE_FAILURES  # noqa: PLC0415 - imports the kernel, which most readers do without

    return error.get("type") not in (*FREE_FAILURES, "UnknownPriceError")


def spending(
    records: Iterable[Any],
    children: Mapping[str, Iterable[Any]] = _NO_CHILDREN,
    *,
    session_id: str = "",
) -> Spending:
    """Return what a session used, with the children whose records are given.

    The time of a call does not include the recorded calls inside of it.
    """
    took = Spending(session_id)
    included = set[str]()
    for record in records:
        took.take(record)
        if record.kind != "child":
            continue
        child = record.data["session_id"]
        # A resumed child has several records here, but all of its runs are in its one log.
        if child in children and child not in included:
            included.add(child)
            took.include(spending(children[child], children, session_id=child))
    return took


def _leaf(
    call: dict[str, Any], result: dict[str, Any], inner: float | None, session_id: str
) -> Leaf:
    seconds = max(0.0, float(result.get("seconds") or 0.0) - (inner or 0.0))
    is_model = "provider" in call
    name = call["provider"] if is_model else call["tool"]
    kind = "tool" if not is_model else "model" if inner is None else "composite"
    leaf = Leaf(kind, call["module"], name, call["turn"], call["call"], seconds)
    leaf = leaf._replace(session_id=session_id)
    if kind != "model":
        # A provider that only calls others reports their usage again.
        return leaf
    usage = _usage_of(result)
    return leaf._replace(
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=usage.get("cache_read_tokens") or 0,
        cost_usd=cost_of_result(result),
        is_unpriced=is_unpriced(result),
    )


def _usage_of(result: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = result.get("response") or {}
    chunks: list[dict[str, Any]] = result.get("chunks") or []
    told: list[dict[str, Any]] = [each["usage"] for each in chunks if each.get("usage")]
    return response.get("usage") or (told[-1] if told else {})


def _sum(known: Decimal | None, cost: Decimal | None) -> Decimal | None:
    if known is None or cost is None:
        return cost if known is None else known
    return known + cost


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of the spans."""
    total = 0.0
    end = float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
