"""The ratio between two blocks of code, measured so that a busy machine slows both alike.

Short blocks of reference and subject alternate in one process. The clock is the CPU time of all
threads, and the answer is the median of the ratios of neighbouring blocks.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Block = Callable[[int], Awaitable[None]]
"""Performs the operation so many times."""

MIN_PAIRS = 9
MAX_PAIRS = 400
MAX_REPEATS = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """What one row measured: the judged `value`, the cost of `bare`, and figures beside them."""

    value: float
    bare: float
    detail: dict[str, float] = field(default_factory=dict[str, float])


async def measure_ratio(
    subject: Block, reference: Block, *, budget: float, block_seconds: float = 0.008, unit: int = 1
) -> Figure:
    """Divide the CPU time of `subject` by that of `reference`, for about `budget` seconds.

    `unit` is the number of operations inside one call; it divides the microseconds shown.
    """
    gc.collect()
    subject_repeats = await _repeats(subject, block_seconds)
    reference_repeats = await _repeats(reference, block_seconds)
    pairs: list[tuple[float, float]] = []
    start = time.perf_counter()
    while len(pairs) < MAX_PAIRS and not _spent(time.perf_counter() - start, len(pairs), budget):
        bare = await _cpu_us(reference, reference_repeats)
        pairs.append((bare, await _cpu_us(subject, subject_repeats)))
    ratios = sorted(cost / bare for bare, cost in pairs)
    return Figure(
        value=statistics.median(ratios),
        bare=min(bare for bare, _ in pairs) / unit,
        detail={
            "us": min(cost for _, cost in pairs) / unit,
            "low": ratios[len(ratios) // 4],
            "high": ratios[len(ratios) * 3 // 4],
            "pairs": len(pairs),
        },
    )


def _spent(elapsed: float, pairs: int, budget: float) -> bool:
    if elapsed > 4 * budget:
        return pairs >= 2
    return elapsed > budget and pairs >= MIN_PAIRS


async def _cpu_us(block: Block, repeats: int) -> float:
    start = time.process_time_ns()
    await block(repeats)
    # A clock tick at least, so that a block too short to see divides by no zero.
    return max(time.process_time_ns() - start, 1) / repeats / 1000


async def _repeats(block: Block, seconds: float) -> int:
    """Find how often `block` repeats in about `seconds` of CPU time; warms it up on the way."""
    await block(1)
    repeats = 1
    while True:
        cost_us = await _cpu_us(block, repeats)
        spent = cost_us * repeats / 1e6
        if spent >= seconds / 3 or repeats >= MAX_REPEATS:
            return max(1, min(MAX_REPEATS, int(seconds * 1e6 / cost_us)))
        repeats = min(MAX_REPEATS, max(repeats * 2, int(repeats * seconds / max(spent, 1e-6) / 2)))
