"""The rate limits of an account, as vendors report them in response headers."""

from __future__ import annotations

from collections.abc import Mapping


def rate_limits(headers: Mapping[str, str], prefix: str) -> dict[str, int | str]:
    """Return the headers that begin with `prefix`, named by what follows it: `tokens_reset`."""
    limits = {
        name.lower().removeprefix(prefix).replace("-", "_"): value
        for name, value in headers.items()
        if name.lower().startswith(prefix)
    }
    return {name: int(value) if value.isdecimal() else value for name, value in limits.items()}
