"""The configuration of hooks-budget; its README says what each key means."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from amplifier_kit.calls.settings import Pricing


class BudgetConfig(BaseModel):
    """What a tree of agents may use, and what happens near the end; null is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: Decimal | None = Field(default=None, gt=0, description="US dollars.")
    tokens: int | None = Field(default=None, gt=0, description="Input and output together.")
    steps: int | None = Field(default=None, gt=0, description="Model calls.")
    seconds: float | None = Field(default=None, gt=0, description="While any turn runs.")
    depth: int | None = Field(default=None, ge=0, description="Generations below the root.")
    breadth: int | None = Field(default=None, ge=0, description="Children of one agent, in all.")
    child_share: Decimal = Field(
        default=Decimal("0.5"), gt=0, le=1, description="Of what its parent has left."
    )
    warn_at: float = Field(default=0.8, gt=0, lt=1, description="Share that is warned about.")
    final_answer_reserve: Decimal = Field(
        default=Decimal("0.05"), ge=0, lt=1, description="Share kept for a last answer."
    )
    min_output_tokens: int = Field(
        default=256, gt=0, description="With less room for its answer, no call is made."
    )
    settle: Literal["usage", "worst_case"] = Field(
        default="usage", description="What a call is charged once it is made."
    )
    unknown_price: Literal["refuse", "allow"] = Field(
        default="refuse", description="With a limit in dollars."
    )
    prices: dict[str, Pricing] = Field(
        default_factory=dict[str, Pricing],
        description="By `provider/model` or provider; dollars per million tokens.",
    )
    composite_providers: list[str] = Field(
        default_factory=list[str],
        description="They ask other mounted providers, which are charged, and do not say so.",
    )
