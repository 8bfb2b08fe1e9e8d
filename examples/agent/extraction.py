"""Typed extraction: a text becomes an `Invoice`, or an `AgentError`.

It prints the fields of the invoice, with the sum computed by ordinary typed code.
"""

from datetime import date
from decimal import Decimal

from pydantic import BaseModel, Field

from amplifier import Agent

LETTER = """\
Oslo, 3 May 2026. For the two oak chairs we charge 120.50 each,
for delivery 30.00. Please pay within two weeks. Fjord Furniture
"""
# What a model answers; in its place write "anthropic:claude-sonnet-5-5", for example.
ANSWER = """{
  "seller": "Fjord Furniture", "issued": "2026-05-03",
  "items": [
    {"name": "oak chair", "pieces": 2, "price": "120.50"},
    {"name": "delivery", "price": "30.00"}
  ]
}"""


class Item(BaseModel):
    name: str
    pieces: int = Field(default=1, ge=1)
    price: Decimal = Field(description="The price of one piece.")


class Invoice(BaseModel):
    seller: str
    issued: date
    items: list[Item]

    def total(self) -> Decimal:
        return sum((each.pieces * each.price for each in self.items), Decimal(0))


agent = Agent(
    {"module": "provider-mock", "config": {"script": [ANSWER]}},
    instructions="Read the invoice. Do not guess what it does not say.",
    output=Invoice,
)

if __name__ == "__main__":
    invoice = agent.run_sync(LETTER).output
    print(f"{invoice.seller}, {invoice.issued:%d %B %Y}, {len(invoice.items)} items")
    print("total:", invoice.total())
