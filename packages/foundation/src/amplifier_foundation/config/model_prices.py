"""The prices of models in the user's settings; a project's are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from amplifier_foundation.config.project_rules import USER_ONLY
from amplifier_foundation.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from amplifier_foundation.settings import Settings

__all__ = ["prices_of"]

_KEY = "pricing"
_EXAMPLE = 'pricing: { "openai/gpt-4.1": { input: 2.00, output: 8.00 } }'


def prices_of(settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """Return the user's prices for the mount plan, and notices about prices that are ignored.

    Raises:
        SettingsError: a price is not valid.
    """
    prices: dict[str, Any] = {}
    notices: list[str] = []
    for layer in settings.layers:
        told: dict[str, Any] = layer.values.get(_KEY) or {}
        if not told:
            continue
        if layer.scope != "user":
            # A price of zero would make any budget worthless.
            notices.append(f"`{_KEY}` in `{layer.path}` was ignored: {USER_ONLY}")
            continue
        for name, value in told.items():
            prices[str(name)] = _valid(str(name), value, layer.path)
    return prices, notices


def _valid(name: str, value: Any, path: Path) -> dict[str, Any]:
    # Only settings with prices pay for these imports.
    from amplifier_kit.calls.settings import Pricing  # noqa: PLC0415
    from amplifier_kit.tools import problems_in  # noqa: PLC0415

    try:
        Pricing.model_validate(value)
    except ValueError as error:
        problems = problems_in(cast("Any", error))
        raise SettingsError(
            f"`{_KEY}` in `{path}` cannot be used.",
            why=f"`{name}`: {problems}. Prices are US dollars per million tokens.",
            fix=f"write it as: {_EXAMPLE}",
        ) from error
    return cast("dict[str, Any]", value)
