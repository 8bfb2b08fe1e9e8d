"""The tools of a shop, and models that follow a script."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel

from amplifier import Ask, Context, Deny, ToolCall, tool
from amplifier.testing import ModelRequest


@dataclass
class Deps:
    """Who is asking."""

    user: str


class Order(BaseModel):
    """An order of a customer."""

    number: int
    customer: str


class Ticket(BaseModel):
    """What the model is to fill in."""

    title: str
    urgent: bool = False


class Delivery(BaseModel):
    """What only the type can check: JSON Schema has no dates."""

    on: date


@tool(effect="pure", timeout=10)
async def lookup(context: Context[Deps], order_id: int) -> Order:
    """Look up an order.

    It is read and never changed.

    Args:
        order_id: The number on the invoice.
    """
    return Order(number=order_id, customer=context.deps.user)


@tool(approval=True)
def refund(order_id: int, reason: str = "none") -> str:
    """Refund an order."""
    return f"refunded {order_id} ({reason})"


@tool(name="where")
def thread_of_this_call() -> bool:
    """Say whether this runs in the main thread."""
    return threading.current_thread() is threading.main_thread()


def broken() -> str:
    """Fail."""
    raise RuntimeError("the shop is closed")


async def disconnect(context: Context[anyio.CancelScope]) -> str:
    """Cancel the caller, as a web framework does when its client disconnects; take a minute."""
    context.deps.cancel()
    await asyncio.sleep(60)
    return "done"


def only_small_orders(call: ToolCall[Deps]) -> Deny | Ask | None:
    """Deny large orders, ask about medium ones."""
    number: int = call.input.get("order_id", 0)
    if number > 100:
        return Deny(f"{call.deps.user} may refund orders up to 100.")
    return Ask("A medium order?") if number > 50 else None


async def failing_guard(call: ToolCall[Any]) -> None:
    """Fail, which denies the call."""
    raise RuntimeError(call.name)


def name_the_files(request: ModelRequest) -> str:
    """Answer with the name and the data of every file that the model sees."""
    contents = [message.content for message in request.raw.messages]
    blocks = [block for each in contents if not isinstance(each, str) for block in each]
    sources = [block.source for block in blocks if block.type == "image"]
    return ", ".join(f"{source['name']}: {source['data']}" for source in sources)


def script(*steps: Any) -> dict[str, Any]:
    """Return a model that answers with these steps."""
    return {"module": "provider-mock", "config": {"script": list(steps)}}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def pay(ledger: str) -> str:
    """Pay, and note it in a file."""
    with Path(ledger).open("a", encoding="utf-8") as file:
        file.write("paid\n")
    return "paid"
