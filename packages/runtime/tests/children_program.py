"""A worker in a process of its own whose turns may have children and are under limits."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal

from amplifier_kit.calls.settings import Pricing
from amplifier_runtime.children.children import Children
from amplifier_runtime.limits.limits import Limits
from amplifier_runtime.worker.worker import WorkerSettings, run_worker

PRICES = {"steps": Pricing(input=Decimal(3), output=Decimal(15))}


def main(url: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    settings = WorkerSettings(
        url,
        beat_seconds=0.1,
        dead_after_seconds=0.6,
        poll_seconds=0.05,
        drain_seconds=2.0,
        crash_limit=50,
        connections=4,
        parts=[Limits(prices=PRICES), Children(look_seconds=0.1)],
    )
    asyncio.run(run_worker(settings))
