"""Measures one group of rows for one system, in that system's own process and environment."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from benchmarks.kernel import bare, concurrency, imports
from benchmarks.kernel.bars import ROWS
from benchmarks.kernel.measure import Block, Figure, measure_ratio

Outcome = Figure | str
"""A figure, or why there is none."""

PAIRED_GROUPS = ("emit", "session", "turn", "context")


async def _paired(system: str, group: str, keys: list[str], budget: float) -> dict[str, Outcome]:
    if system == "bare":
        return {key: await _bare_against_bare(key, budget) for key in keys}
    rows = importlib.import_module(f"benchmarks.kernel.rows_{group}")
    check: Callable[[], Awaitable[None]] | None = getattr(rows, "CHECK", None)
    if check is not None and system == "ours":
        await check()
    return {key: await _row(rows.SUBJECTS[key], key, budget) for key in keys}


async def _bare_against_bare(key: str, budget: float) -> Outcome:
    reference = bare.REFERENCES[key]
    return await measure_ratio(
        reference.build(),
        reference.build(),
        budget=budget,
        block_seconds=reference.block_seconds,
        unit=reference.unit,
    )


async def _row(build: Callable[[], Awaitable[Block]], key: str, budget: float) -> Outcome:
    name = next(row.reference for row in ROWS if row.key == key)
    reference = bare.REFERENCES[name or key]
    try:
        return await measure_ratio(
            await build(),
            reference.build(),
            budget=budget,
            block_seconds=reference.block_seconds,
            unit=reference.unit,
        )
    except Exception as error:  # noqa: BLE001 - one broken row must not hide the others
        return _reason(error)


async def _concurrent(system: str, sessions: int) -> dict[str, Figure]:
    if system == "bare":

        async def create() -> bare.Session:
            return bare.new_session(0, concurrency.MODEL_SECONDS)

        return await concurrency.measure(sessions, create, lambda each: each.turn(bare.PROMPT))
    rows = importlib.import_module("benchmarks.kernel.rows_concurrency")
    loop = "loop-basic" if system == "ours" else "bench-loop"
    return await concurrency.measure(sessions, lambda: rows.create(loop), rows.turn)


def _imports(system: str, keys: list[str], budget: float) -> dict[str, Figure]:
    subject = imports.FLOOR if system == "bare" else imports.KERNEL
    statements = {"import": imports.FLOOR, "import-plain": imports.PLAIN}
    references = {key: statements[key] for key in keys}
    return imports.measure(subject, references, budget=budget)


def _measure(system: str, group: str, keys: list[str], budget: float) -> dict[str, Outcome]:
    try:
        if group in PAIRED_GROUPS:
            return asyncio.run(_paired(system, group, keys, budget))
        if group == "imports":
            return {**_imports(system, keys, budget)}
        sessions = int(group.removeprefix("concurrent-"))
        figures = asyncio.run(_concurrent(system, sessions))
        return {key: figures[key] for key in keys}
    except Exception as error:  # noqa: BLE001 - the report says why a group has no figures
        return dict.fromkeys(keys, _reason(error))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {"error": outcome} if isinstance(outcome, str) else asdict(outcome)


def main() -> None:
    """Read system, group, rows and budget from the command line; print the outcomes as JSON."""
    logging.disable(logging.CRITICAL)
    system, group, keys, budget = sys.argv[1:]
    outcomes = _measure(system, group, keys.split(","), float(budget))
    print(json.dumps({key: _as_json(outcome) for key, outcome in outcomes.items()}))


if __name__ == "__main__":
    main()
