"""A typed function as a tool: its annotations and its docstring are what the model sees.

It prints the call, its result, and the answer of the mock model.
"""

import asyncio
from dataclasses import dataclass, field

from amplifier import Agent, Context, Done, ToolEnded, ToolStarted, tool


@dataclass
class Warehouse:
    stock: dict[str, int] = field(default_factory=lambda: {"chair": 4, "table": 0})


@dataclass
class Stock:
    article: str
    pieces: int


@tool(effect="pure", timeout=5)
async def count_stock(context: Context[Warehouse], article: str = "chair") -> Stock:
    """Count the pieces of an article in the warehouse.

    Args:
        article: Its name in the catalogue, in the singular.
    """
    return Stock(article, context.deps.stock[article])


agent = Agent("mock:demo", tools=[count_stock], deps=Warehouse)


async def main() -> None:
    async with agent.session(deps=Warehouse()) as session:
        async for event in session.stream("Please count the stock."):
            match event:
                case ToolStarted(name, given):
                    print("call:", name, dict(given))
                case ToolEnded(_, output, error):
                    print("result:", error or output)
                case Done(output):
                    print("answer:", output)
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main())
