"""What a session took: time, tokens and money, by the module that took them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

__all__ = ["Leaf", "Share", "Spending", "cost_of_result", "is_unpriced", "spending"]

LOOP = "loop"
PERSON = "person"
_NO_CHILDREN: Mapping[str, Iterable[Any]] = {}


class Leaf(NamedTuple):
    """One call that asked no other, one answer of a person, or what a turn took besides these.

    A cost of None is one that nobody has told; `is_unpriced` says that there was one all the same.
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
    """What one module took, in all."""

    module: str
    calls: int
    seconds: float
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    unpriced_calls: int = 0


class Spending(NamedTuple):
    """Everything a session took; the leaves add up to it."""

    leaves: list[Leaf]

    @property
    def cost_usd(self) -> Decimal | None:
        """The sum of all costs that were told; None when none was."""
        return _sum_of(self.leaves)

    @property
    def unpriced_calls(self) -> int:
        """How many model calls have no cost, so that the sum is less than what was spent."""
        return sum(each.is_unpriced for each in self.leaves)

    def by_module(self) -> list[Share]:
        """Return the share of each module: the dearest first, then the slowest."""
        modules: dict[str, list[Leaf]] = {}
        for leaf in self.leaves:
            modules.setdefault(leaf.module, []).append(leaf)
        shares = [_share(module, leaves) for module, leaves in modules.items()]
        return sorted(shares, key=lambda each: (-(each.cost_usd or 0), -each.seconds))


def cost_of_result(data: dict[str, Any]) -> Decimal | None:
    """Return what a `model.result` says that the call did cost."""
    cost = _usage_of(data).get("cost_usd")
    if cost is None:
        return None
    return Decimal(str(cost))


def is_unpriced(data: dict[str, Any]) -> bool:
    """Tell whether a `model.result` is of a call that may have been billed, nobody knows for what.

    A failure from before a model began to work is not billed.
    """
    if cost_of_result(data) is not None:
        return False
    error: dict[str, Any] = data.get("error") or {}
    if not error:
        return True
    from amplifier_kit.calls.call_costs import FREE_FAILURES  # noqa: PLC0415 - brings the kernel

    return error.get("type") not in (*FREE_FAILURES, "UnknownPriceError")


def spending(
    records: Iterable[Any], children: Mapping[str, Iterable[Any]] = _NO_CHILDREN
) -> Spending:
    """Return what a session took, with those of its children whose records are given.

    The time of a call is without the recorded calls inside of it.
    """
    leaves: list[Leaf] = []
    _collect(records, children, "", leaves)
    return Spending(leaves)


def _collect(
    records: Iterable[Any],
    children: Mapping[str, Iterable[Any]],
    session_id: str,
    leaves: list[Leaf],
) -> None:
    began: dict[str, Any] = {}
    turn = 0
    inner: dict[str, float] = {}
    spans: dict[int, list[tuple[float, float]]] = {}
    seen = set[str]()
    for record in records:
        data = record.data
        if record.kind == "prompt":
            turn = data["turn"]
        elif record.kind == "approval":
            end = _moment(record.at)
            seconds = float(data.get("seconds") or 0.0)
            spans.setdefault(turn, []).append((end - seconds, end))
            leaves.append(Leaf(PERSON, PERSON, PERSON, turn, "", seconds, session_id=session_id))
        elif record.kind in ("model.call", "tool.call"):
            began[data["call"]] = record
            if data.get("inside"):
                inner.setdefault(data["inside"], 0.0)
        elif record.kind in ("model.result", "tool.result") and data["call"] in began:
            call = began[data["call"]]
            outer = call.data.get("inside")
            seconds = float(data.get("seconds") or 0.0)
            if outer:
                inner[outer] = inner.get(outer, 0.0) + seconds
            else:
                end = _moment(record.at)
                spans.setdefault(call.data["turn"], []).append((end - seconds, end))
            leaves.append(_leaf(call.data, data, inner.get(data["call"]), session_id))
        elif record.kind == "turn.ended":
            own = spans.pop(data["turn"], [])
            rest = max(0.0, float(data.get("seconds") or 0.0) - _covered(own))
            leaves.append(Leaf(LOOP, LOOP, LOOP, data["turn"], "", rest, session_id=session_id))
        elif record.kind == "child" and data["session_id"] in children.keys() - seen:
            # One that was resumed is there once more, and its records are all of its runs.
            child_id = data["session_id"]
            seen.add(child_id)
            _collect(children[child_id], children, child_id, leaves)


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
        # Who only asked others has told their usage once more.
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


def _share(module: str, leaves: list[Leaf]) -> Share:
    return Share(
        module,
        sum(each.kind != LOOP for each in leaves),
        sum(each.seconds for each in leaves),
        sum(each.input_tokens for each in leaves),
        sum(each.output_tokens for each in leaves),
        _sum_of(leaves),
        sum(each.is_unpriced for each in leaves),
    )


def _sum_of(leaves: list[Leaf]) -> Decimal | None:
    known = [each.cost_usd for each in leaves if each.cost_usd is not None]
    if known:
        return sum(known, Decimal(0))
    return None


def _moment(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return how long at least one of the spans lasted."""
    total = 0.0
    end = float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
