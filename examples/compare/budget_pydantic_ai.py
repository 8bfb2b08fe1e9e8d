"""A budget with pydantic-ai: twenty requests in parallel, of which ten are paid."""

import asyncio

from models_pydantic_ai import SLOW
from pydantic_ai import Agent, RunUsage, UsageLimitExceeded, UsageLimits

agent = Agent(SLOW)


async def run(usage: RunUsage, limits: UsageLimits) -> str | None:
    try:
        return (await agent.run("Hello?", usage=usage, usage_limits=limits)).output
    except UsageLimitExceeded:
        return None


async def main() -> None:
    usage = RunUsage()
    limits = UsageLimits(request_limit=10)
    done = await asyncio.gather(*(run(usage, limits) for _ in range(20)))
    answered = [each for each in done if each is not None]
    print(usage.requests, "model calls,", len(answered), "answers")


if __name__ == "__main__":
    asyncio.run(main())
