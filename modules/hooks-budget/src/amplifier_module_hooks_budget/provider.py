"""A provider under a budget: no call is made that is not paid for in advance."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal
from typing import Any

from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, ToolCall
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_kit.calls.budget_news import news_of_charge
from amplifier_kit.calls.call_costs import (
    Charge,
    WorstCase,
    charge_for,
    is_free,
    most_input_tokens,
    most_output_tokens,
)
from amplifier_kit.calls.last_answers import closed, closing_answer
from amplifier_kit.calls.price_finder import PriceFinder
from amplifier_kit.calls.price_table import priced_at, with_cost
from amplifier_kit.calls.prices import Price, free
from amplifier_module_hooks_budget.amounts import Amount
from amplifier_module_hooks_budget.answers import LAST_CALL, describe
from amplifier_module_hooks_budget.ledger import Account, Hold, Shortage
from amplifier_module_hooks_budget.session_budget import (
    EXHAUSTED,
    FLIGHT,
    NAME,
    Flight,
    SessionBudget,
)

logger = logging.getLogger(__name__)

# Tokens of the last answer of a turn.
_FINAL_OUTPUT = 1_024
# Whatever else can be called might call the vendor.
_HARMLESS = ("count_tokens",)
# A count is what the vendor expects; it may bill a little more.
_COUNT_MARGIN, _COUNT_EXTRA = 1.02, 64


class BudgetedProvider:
    """A provider as its session sees it."""

    def __init__(self, name: str, module: Any, budget: SessionBudget) -> None:
        self._mounted_as = name
        self._module = module
        self._budget = budget
        self._prices = PriceFinder(name, module)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._module, name)
        if callable(value) and name not in _HARMLESS:
            raise AttributeError(f"`{name}` is not offered: hooks-budget could not account for it")
        return value

    @property
    def name(self) -> str:
        """The provider's own name."""
        return self._module.name

    def get_info(self) -> ProviderInfo:
        """Describe the provider."""
        return self._module.get_info()

    async def list_models(self) -> list[ModelInfo]:
        """Return the provider's models."""
        return await self._module.list_models()

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return self._module.parse_tool_calls(response)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Set the worst case aside, call the model, and charge what it took.

        Where the budget does not allow that, the answer says so and calls no tools; the model
        gives it, if that much is left.

        Raises:
            UnknownPriceError: dollars are limited, and the price is not known.
            LLMError: as the provider raised it.
        """
        if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidRequestError(
                f"A request is a ChatRequest, not a {type(request).__name__}", provider=self.name
            )
        if "max_tokens" in kwargs:
            kwargs["max_output_tokens"] = kwargs.pop("max_tokens")
        fields = {key: kwargs.pop(key) for key in list(kwargs) if key in ChatRequest.model_fields}
        request = request.model_copy(update=fields)
        budget, account = self._budget, self._budget.account
        if account is None:
            return await self._close(request, f"this agent got no budget: {budget.refusal}")
        reminded = _with(request, budget.reminder())
        call = await self._foresee(reminded, account)
        outcome = await budget.ledger.hold(account, call)
        if isinstance(outcome, Hold):
            outcome = await self._make(reminded, kwargs, call, outcome)
        if isinstance(outcome, ChatResponse):
            return outcome
        answer = await self._final_answer(request, account)
        cause = f"{describe(budget.ledger, outcome)} are used, and the next call does not fit"
        return await self._close(request, cause, answer)

    async def _foresee(
        self, request: ChatRequest, account: Account, *, final: bool = False
    ) -> WorstCase:
        """Return the worst case of a call; its tokens are counted if it would not fit by bytes."""
        ledger, defaults = self._budget.ledger, self.get_info().defaults
        price = await self._price(request.model or defaults.get("model") or "", account)
        most, wanted = most_input_tokens(request), most_output_tokens(request, defaults)
        call = WorstCase(price or free, most, wanted, ledger.config.min_output_tokens)
        room = ledger.room(account, final=final)
        fit = call.fit(room.usd, room.tokens)
        if isinstance(fit, str) or fit.output_tokens < wanted:
            call = call._replace(input_tokens=min(most, await self._count(request, most)))
        return call

    async def _count(self, request: ChatRequest, otherwise: int) -> int:
        count = getattr(self, "count_tokens", None)
        if count is None:
            return otherwise
        try:
            return int(await count(request) * _COUNT_MARGIN) + _COUNT_EXTRA
        except Exception:
            logger.exception("tokens not counted, bytes are provider=%s", self._mounted_as)
            return otherwise

    async def _price(self, model: str, account: Account) -> Price | None:
        """Return what calls of a model cost; who limits dollars decides about an unknown price."""
        is_limited = self._budget.ledger.room(account).usd.is_finite()
        tables = [each.prices for each in reversed(account.lineage)]
        price = await self._prices.find(model, tables, is_limited=is_limited)
        if price is None and is_limited:
            configs = [each.config for each in account.lineage]
            deciding = [each for each in configs if each.usd is not None] or configs[-1:]
            refused = any(each.unknown_price == "refuse" for each in deciding)
            whose = self._budget.coordinator
            await self._prices.admit_unpriced(model, whose, NAME, is_refused=refused)
        return price

    async def _make(
        self,
        request: ChatRequest,
        options: dict[str, Any],
        call: WorstCase,
        hold: Hold,
        *,
        final: bool = False,
    ) -> ChatResponse | Shortage:
        """Make a call that is paid for; a Shortage when it cannot be brought to its end."""
        ledger, flight = self._budget.ledger, Flight(self._budget, hold)
        token, room = FLIGHT.set(flight), ledger.room(hold.account)
        if room.usd.is_finite() or room.tokens.is_finite():
            request = request.model_copy(update={"max_output_tokens": hold.output_tokens})
        # What a call cost that nobody can tell of is its worst case.
        charge: Amount | None = None
        try:
            async with asyncio.timeout(ledger.seconds_left(final=final)) as flight.clock:
                with priced_at(call.price):
                    said: ChatResponse = await self._module.complete(request, **options)
            response = with_cost(said, call.price)
            cost = charge_for(request, response, call.price)
            if cost is not None:
                charge = Amount(cost.usd, Decimal(cost.tokens))
                if any(each.config.settle == "worst_case" for each in hold.account.lineage):
                    charge = charge.at_least(hold.amount)
        except TimeoutError:
            if flight.clock is None or not flight.clock.expired():
                raise
            return flight.shortage or Shortage("seconds", ledger.root)
        except LLMError as error:
            charge = Amount() if is_free(error) else None
            raise
        finally:
            FLIGHT.reset(token)
            ledger.settle(hold, charge)
        await self._report(hold, charge)
        return response

    async def _report(self, hold: Hold, charge: Amount | None) -> None:
        room = self._budget.ledger.room(hold.account)
        dollars = room.usd.is_finite()
        if dollars or room.tokens.is_finite():
            held = Charge(hold.amount.usd, int(hold.amount.tokens))
            charged = None if charge is None else Charge(charge.usd, int(charge.tokens))
            if news := news_of_charge(self._mounted_as, held, charged, limits_dollars=dollars):
                await self._budget.announce(*news)
        await self._budget.warn()

    async def _final_answer(self, request: ChatRequest, account: Account) -> ChatResponse | None:
        """Let the model answer with what it has, from what is kept for that; None if it cannot."""
        ledger = self._budget.ledger
        if not ledger.config.final_answer_reserve:
            return None
        last = {"tools": None, "tool_choice": None, "max_output_tokens": _FINAL_OUTPUT}
        request = _with(request, LAST_CALL).model_copy(update=last)
        call = await self._foresee(request, account, final=True)
        hold = await ledger.hold(account, call, final=True)
        if isinstance(hold, Shortage):
            return None
        try:
            answer = await self._make(request, {}, call, hold, final=True)
        except LLMError:
            logger.exception("no final answer provider=%s", self._mounted_as)
            return None
        last_words = closed(answer) if isinstance(answer, ChatResponse) else None
        return last_words if last_words and last_words.content else None

    async def _close(
        self, request: ChatRequest, cause: str, answer: ChatResponse | None = None
    ) -> ChatResponse:
        """Return the last answer of a turn, and say that it is."""
        facts = {"cause": cause, "answered_by": "model" if answer else "budget"}
        await self._budget.announce(EXHAUSTED, facts, f"The turn ends: {cause}.")
        return answer or closing_answer(cause, request)


def _with(request: ChatRequest, notice: str) -> ChatRequest:
    """Return the request with a notice behind it that is never stored."""
    if not notice:
        return request
    messages = [*request.messages, Message(role="user", content=notice)]
    return request.model_copy(update={"messages": messages})
