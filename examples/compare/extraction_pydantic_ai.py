"""Typed extraction with pydantic-ai: a text becomes an `Invoice`."""

from datetime import date
from decimal import Decimal

from models_pydantic_ai import scripted
from pydantic import BaseModel
from pydantic_ai import Agent, PromptedOutput


class Invoice(BaseModel):
    seller: str
    issued: date
    total: Decimal


MODEL = scripted(
    '{"seller": "Fjord Furniture", "issued": "May"}',
    '{"seller": "Fjord Furniture", "issued": "2026-05-03", "total": "271.00"}',
)
agent = Agent(MODEL, output_type=PromptedOutput(Invoice))

if __name__ == "__main__":
    invoice = agent.run_sync("We charge 271.00, Oslo, 3 May 2026, Fjord Furniture.").output
    print(invoice.seller, invoice.issued.year, invoice.total * 2)
