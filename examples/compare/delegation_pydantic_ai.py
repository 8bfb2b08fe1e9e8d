"""Delegation with pydantic-ai: a lead gives two questions to a researcher, within one budget.

The argument is the number of model calls that all of them may make together.
"""

import asyncio
import sys
from dataclasses import dataclass

from models_pydantic_ai import CALLS_TOOLS, calls, scripted
from pydantic_ai import Agent, RunContext, RunUsage, UsageLimitExceeded, UsageLimits


@dataclass
class Library:
    pages: list[str]


QUESTIONS = ("Please read page 0.", "Please read page 1.")
LEAD = scripted(
    calls("task", *({"prompt": each} for each in QUESTIONS)),
    "Copper is dear because supply fell.",
)
researcher = Agent(CALLS_TOOLS, deps_type=Library)
lead = Agent(LEAD, deps_type=Library)


@researcher.tool
async def read_page(context: RunContext[Library], page: int) -> str:
    """Read a page of the notes."""
    return context.deps.pages[page]


@lead.tool
async def task(context: RunContext[Library], prompt: str) -> str:
    """Give work to the researcher, who reads the notes."""
    done = await researcher.run(
        prompt, deps=context.deps, usage=context.usage, usage_limits=context.usage_limits
    )
    print("report:", done.output)
    return done.output


async def main(most_calls: int) -> None:
    library = Library(["The price doubled since 2020.", "Two mines closed."])
    usage = RunUsage()
    limits = UsageLimits(request_limit=most_calls)
    try:
        done = await lead.run("Why is copper dear?", deps=library, usage=usage, usage_limits=limits)
        print("answer:", done.output)
    except UsageLimitExceeded:
        print("stopped: budget")
    print(usage.requests, "model calls")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
