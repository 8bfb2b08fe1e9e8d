"""A budget that several sessions spend from, such as all those of one user."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from amplifier.errors import AgentError

__all__ = ["SHARED", "Budget"]

SHARED = "budget.shared"
"""The capability by which the sessions of one budget find what they share."""


class Budget:
    """What may be spent in all sessions that are given it; it outlives each of them.

    Before a model is called, the most that the call can cost is reserved. A call that does not fit
    is not made: the turn ends with what is known, and its `stop_reason` is `budget`. `state` is
    data that an application may store, and give to a new `Budget` after a restart. `prices` are
    dollars per million tokens by provider or `provider/model`, for models without a known price.
    """

    def __init__(
        self,
        usd: Decimal | str | float | None = None,
        *,
        tokens: int | None = None,
        calls: int | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        limits = {"usd": None if usd is None else str(usd), "tokens": tokens, "steps": calls}
        self.config: dict[str, Any] = {
            name: limit for name, limit in limits.items() if limit is not None
        }
        if not self.config:
            raise AgentError("This budget has no limit.", fix="Budget(usd=...), tokens=, or calls=")
        # All of it can be spent: no share is kept for a last answer.
        self.config["final_answer_reserve"] = "0"
        if prices is not None:
            self.config["prices"] = {name: dict(each) for name, each in prices.items()}
        self.state: dict[str, Any] = state if state is not None else {}
        self.lock: threading.Lock = threading.Lock()
        # Made by the first session that mounts the module which keeps it.
        self.ledger: Any = None

    @property
    def used_usd(self) -> Decimal:
        """The dollars that are spent or reserved."""
        return self._used("usd")

    @property
    def used_tokens(self) -> int:
        """The tokens that are used or reserved."""
        return int(self._used("tokens"))

    @property
    def used_calls(self) -> int:
        """The model calls that were made."""
        return int(self._used("steps"))

    def _used(self, what: str) -> Decimal:
        for each in self.state.get("agents", {}).values():
            if each["parent"] is None:
                return Decimal(each["used"][what])
        return Decimal(0)
