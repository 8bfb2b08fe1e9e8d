"""What a call costs, from price data that comes with a package; nothing is fetched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal

from amplifier_core.message_models import Usage
from amplifier_kit.calls.settings import Pricing

logger = logging.getLogger(__name__)

# What a call with this usage costs; a ValueError when its counts contradict each other.
Price = Callable[[Usage], Decimal]

_MILLION = Decimal(1_000_000)
_NOTHING = Usage(input_tokens=0, output_tokens=0, total_tokens=0)


def load_price_data() -> None:
    """Import the price data and read it once; half a second, so do it in a thread."""
    cost_usd("openai", "", _NOTHING)


def free(usage: Usage) -> Decimal:
    """Return the price of what costs nothing, or of what no money is counted for."""
    return Decimal(0)


def cost_usd(
    vendor: str | None, model: str, usage: Usage, pricing: Pricing | None = None
) -> Decimal | None:
    """Return the price of a call in US dollars; None when it is not known.

    `vendor` is the name the price data uses; None means that only `pricing` can tell.
    """
    if pricing is not None:
        return _by_table(usage, pricing)
    if vendor is None:
        return None
    import genai_prices  # noqa: PLC0415 - heavy; `load_price_data` has imported it by now

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return genai_prices.calc_price(tokens, model, provider_id=vendor).total_price
    except LookupError:
        return None
    except ValueError:
        # Counts that contradict each other; a price made of them would be an invention.
        logger.warning("no price for model=%s usage=%s", model, usage, exc_info=True)
        return None


def _by_table(usage: Usage, pricing: Pricing) -> Decimal:
    read = usage.cache_read_tokens or 0
    written = usage.cache_write_tokens or 0
    plain = max(0, usage.input_tokens - read - written)
    if pricing.cache_read is None:
        read_price = pricing.input
    else:
        read_price = pricing.cache_read
    if pricing.cache_write is None:
        write_price = pricing.input
    else:
        write_price = pricing.cache_write
    total = plain * pricing.input + read * read_price + written * write_price
    return (total + usage.output_tokens * pricing.output) / _MILLION
