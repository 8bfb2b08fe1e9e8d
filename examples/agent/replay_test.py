"""A recorded conversation as a regression test: it is replayed without a model and without tools.

The guard runs for real. So the replay passes with the rule that was recorded, and reports the
difference after the rule was changed by mistake. It prints both results.
"""

import asyncio
import tempfile
from pathlib import Path

from amplifier import Agent, Deny, ToolCall
from amplifier_foundation.file_sessions import FileSessions
from amplifier_journal.replay import Replay, replay

REFUND = {"tool_calls": [{"name": "refund", "arguments": {"dollars": 50}}]}
MODEL = {"module": "provider-mock", "config": {"script": [REFUND, "I refunded 50 dollars."]}}


class Rule:
    largest = 100


def refund(dollars: int) -> str:
    """Refund money to the customer."""
    return f"refunded {dollars}"


def small_refunds(call: ToolCall) -> Deny | None:
    if call.input["dollars"] > Rule.largest:
        return Deny(f"Refunds above {Rule.largest} dollars are made by hand.")
    return None


agent = Agent(MODEL, tools=[refund], guards=[small_refunds])


async def record(store: Path) -> None:
    async with agent.session("refund", store=store) as session:
        await session.run("Please refund me 50 dollars.")


async def replay_all(store: Path) -> list[Replay]:
    """Replay every session of a folder; a test asserts that none of them has differences."""
    sessions = FileSessions(store)
    return [await replay(sessions.read(each)) for each in sessions.session_ids()]


async def main(store: Path) -> None:
    await record(store)
    (same,) = await replay_all(store)
    print(same)
    Rule.largest = 10
    (changed,) = await replay_all(store)
    print(next(each for each in changed.differences if each.kind == "message"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
