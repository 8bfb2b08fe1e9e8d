"""Our context: what a request costs when the history is long and fits."""

from __future__ import annotations

from benchmarks.kernel.bare import CONTEXT_MESSAGES, old_messages
from benchmarks.kernel.measure import Block
from benchmarks.kernel.sessions import BENCH_LOOP, OUR_CONTEXT, mount_plan, open_session

ROOMY_BUDGET = 100_000_000
"""Tokens; far above the history, so that nothing is compacted."""


async def _requesting() -> Block:
    session = await open_session(mount_plan(BENCH_LOOP, context=OUR_CONTEXT))
    context = session.coordinator.get_mounted("context")
    await context.set_messages(old_messages(CONTEXT_MESSAGES))
    handed_out = await context.get_messages_for_request(token_budget=ROOMY_BUDGET)
    handed_out.clear()
    if len(await context.get_messages_for_request(token_budget=ROOMY_BUDGET)) != CONTEXT_MESSAGES:
        raise RuntimeError("a request must not be able to change the stored history")

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            await context.get_messages_for_request(token_budget=ROOMY_BUDGET)

    return block


SUBJECTS = {"context": _requesting}
