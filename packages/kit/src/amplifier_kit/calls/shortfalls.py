"""What a call does otherwise than it was asked to, told as one."""

from __future__ import annotations

from collections.abc import Sequence

from amplifier_core.message_models import Degradation

DEGRADED = "provider:degraded"


def joined(shortfalls: Sequence[Degradation]) -> Degradation | None:
    """Return all shortfalls as one, since a response has room for one; None without any."""
    if not shortfalls:
        return None
    told = {
        name: "; ".join(dict.fromkeys(getattr(each, name) for each in shortfalls))
        for name in ("requested", "actual", "reason")
    }
    return Degradation(**told)
