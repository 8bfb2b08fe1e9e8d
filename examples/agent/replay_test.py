"""A recorded conversation as a regression test: it is replayed without a model and without tools.

The guards run for real. So the replay passes with the guard that was recorded, and reports where
it diverges with another one. It prints both results.
"""

import asyncio
import tempfile
from pathlib import Path

from amplifier import Agent, Deny, ToolCall
from amplifier.testing import ScriptedModel, ToolUse, replay


def refund(dollars: int) -> str:
    """Refund money to the customer."""
    return f"refunded {dollars}"


def up_to_100(call: ToolCall) -> Deny | None:
    return Deny("By hand, please.") if call.input["dollars"] > 100 else None


def up_to_10(call: ToolCall) -> Deny | None:
    return Deny("By hand, please.") if call.input["dollars"] > 10 else None


MODEL = ScriptedModel([ToolUse("refund", {"dollars": 50}), "I refunded 50 dollars."])
recorded = Agent(MODEL, tools=[refund], guards=[up_to_100])
changed = Agent(MODEL, tools=[refund], guards=[up_to_10])


async def main(store: Path) -> None:
    async with recorded.session("refund", store=store) as session:
        await session.run("Please refund me 50 dollars.")
    print(await replay(store, "refund", agent=recorded))
    print((await replay(store, "refund", agent=changed)).first)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
