"""Turns: one tool call, fifty, and none on top of a long history."""

from __future__ import annotations

from benchmarks.kernel.bare import ANSWER, HISTORY_MESSAGES, PROMPT, old_messages
from benchmarks.kernel.measure import Block
from benchmarks.kernel.sessions import BENCH_LOOP, OUR_LOOP, mount_plan, open_session


async def _turning(loop: str, tool_calls: int) -> Block:
    session = await open_session(mount_plan(loop, tool_calls=tool_calls))
    context = session.coordinator.get_mounted("context")

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            context.messages.clear()
            answer = await session.execute(PROMPT)
            if answer != ANSWER:
                raise RuntimeError(f"the turn ended with {answer!r}")

    await block(1)
    # The prompt, two messages a tool call, the answer.
    if len(context.messages) != 2 + 2 * tool_calls:
        raise RuntimeError(f"the turn left {len(context.messages)} messages")
    return block


async def _turning_on_history(loop: str) -> Block:
    session = await open_session(mount_plan(loop, tool_calls=0))
    context = session.coordinator.get_mounted("context")
    old = old_messages(HISTORY_MESSAGES)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            context.messages = list(old)
            await session.execute(PROMPT)

    await block(1)
    if len(context.messages) != HISTORY_MESSAGES + 2:
        raise RuntimeError(f"the turn left {len(context.messages)} messages")
    return block


SUBJECTS = {
    "turn": lambda: _turning(OUR_LOOP, 1),
    "turn-minimal": lambda: _turning(BENCH_LOOP, 1),
    "loop50": lambda: _turning(OUR_LOOP, 50),
    "loop50-minimal": lambda: _turning(BENCH_LOOP, 50),
    "history": lambda: _turning_on_history(OUR_LOOP),
    "history-minimal": lambda: _turning_on_history(BENCH_LOOP),
}
