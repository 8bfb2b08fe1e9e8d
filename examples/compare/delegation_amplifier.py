"""Delegation with `amplifier`: a lead gives two questions to a researcher, within one budget.

The argument is the number of model calls that all of them may make together.
"""

import asyncio
import sys
from dataclasses import dataclass

from models_amplifier import CALLS_TOOLS, calls, scripted

from amplifier import Agent, Budget, Context, Done, ToolEnded, tool


@dataclass
class Library:
    pages: list[str]


@tool(effect="pure")
async def read_page(context: Context[Library], page: int) -> str:
    """Read a page of the notes."""
    return context.deps.pages[page]


QUESTIONS = ("Please read page 0.", "Please read page 1.")
LEAD = scripted(
    calls("task", *({"agent": "researcher", "prompt": each} for each in QUESTIONS)),
    "Copper is dear because supply fell.",
)
researcher = Agent(CALLS_TOOLS, tools=[read_page], deps=Library, description="Reads the notes.")
lead = Agent(LEAD, deps=Library, agents={"researcher": researcher})


async def main(most_calls: int) -> None:
    library = Library(["The price doubled since 2020.", "Two mines closed."])
    budget = Budget(calls=most_calls)
    async with lead.session(deps=library, budget=budget) as session:
        async for event in session.stream("Why is copper dear?"):
            match event:
                case ToolEnded("task", output, None):
                    print("report:", output)
                case Done(output, stop_reason="completed"):
                    print("answer:", output)
                case Done(stop_reason=reason):
                    print("stopped:", reason)
                case _:
                    pass
    print(budget.used_calls, "model calls")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
