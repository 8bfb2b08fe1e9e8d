"""A budget with `amplifier`: twenty requests in parallel, of which ten are paid."""

import asyncio

from models_amplifier import SLOW

from amplifier import Agent, Budget

agent = Agent(SLOW)


async def main() -> None:
    budget = Budget(calls=10)
    done = await asyncio.gather(*(agent.run("Hello?", budget=budget) for _ in range(20)))
    answered = [each for each in done if each.stop_reason == "completed"]
    print(budget.used_calls, "model calls,", len(answered), "answers")


if __name__ == "__main__":
    asyncio.run(main())
