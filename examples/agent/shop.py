"""The agent that the other programs run: a module of its own, so that workers can import it."""

from dataclasses import dataclass
from pathlib import Path

from amplifier import Agent, Context, tool


@dataclass
class Shop:
    ledger: str


@tool(approval=True)
def pay(context: Context[Shop], order: int) -> str:
    """Pay an order, and note it in the ledger."""
    with Path(context.deps.ledger).open("a", encoding="utf-8") as ledger:
        ledger.write(f"paid {order}\n")
    return f"paid order {order}"


@tool(effect="pure")
def find_order(order: int) -> str:
    """Find an order."""
    return f"order {order} has 3 articles"


INSTRUCTIONS = "You work in a shop."
TOOLS = (pay, find_order)
MODEL = {"module": "provider-mock", "config": {"stream": True, "delay_seconds": 0.3}}
agent = Agent(MODEL, instructions=INSTRUCTIONS, tools=TOOLS, deps=Shop)
