"""A provider under a budget, with what only this budget does: count, remind, and a last answer."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, ToolCall
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_kit.calls.budget_news import closed
from amplifier_kit.calls.call_costs import ENDLESS, Amount, WorstCase
from amplifier_kit.calls.paid_provider import Ledger, PaidProvider
from amplifier_module_hooks_budget.ledger import Hold, Shortage
from amplifier_module_hooks_budget.session_budget import SessionBudget

logger = logging.getLogger(__name__)

# Tokens of the last answer of a turn.
_FINAL_OUTPUT = 1_024
_LAST_CALL = (
    "The budget for this work is used up. Answer now with what you have, without calling tools, "
    "and say what is still open."
)
# Whatever else can be called might call the vendor.
_HARMLESS = ("count_tokens",)
# A count is what the vendor expects; it may bill a little more.
_COUNT_MARGIN = 1.02
_COUNT_EXTRA = 64


class BudgetedProvider(PaidProvider[Hold]):
    """A provider as its session sees it."""

    def __init__(self, name: str, module: Any, budget: SessionBudget) -> None:
        super().__init__(name, module, budget)
        self._budget = budget

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

    async def _complete(self, request: ChatRequest, options: dict[str, Any]) -> ChatResponse:
        if self._budget.account is None:
            return await self._close(request, f"this agent got no budget: {self._budget.refusal}")
        return await super()._complete(request, options)

    def _reminded(self, request: ChatRequest) -> ChatRequest:
        return _with(request, self._budget.reminder())

    async def _foresee(self, request: ChatRequest, ledger: Ledger[Hold]) -> WorstCase:
        """Return the worst case of a call; its tokens are counted if it would not fit by bytes."""
        call = await super()._foresee(request, ledger)
        call = call._replace(least=self._budget.ledger.config.min_output_tokens)
        left = await ledger.left()
        # Counting may be a request to the vendor, and no count makes up for a call too many.
        fit = call.fit(left._replace(steps=ENDLESS.steps))
        if isinstance(fit, str) or fit.output_tokens < call.wanted:
            most = call.input_tokens
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

    async def _report(self, ledger: Ledger[Hold], hold: Hold, charge: Amount | None) -> None:
        await super()._report(ledger, hold, charge)
        await self._budget.warn()

    async def _last_answer(self, request: ChatRequest) -> ChatResponse | None:
        """Let the model answer with what it has, from what is kept for that; None if it cannot."""
        if not self._budget.ledger.config.final_answer_reserve:
            return None
        last = {"tools": None, "tool_choice": None, "max_output_tokens": _FINAL_OUTPUT}
        request = _with(request, _LAST_CALL).model_copy(update=last)
        ledger = self._budget.for_last_answer()
        call = await self._foresee(request, ledger)
        hold = await ledger.hold(call)
        if isinstance(hold, Shortage):
            return None
        try:
            answer = await self._make(request, {}, ledger, call, hold)
        except LLMError:
            logger.exception("no final answer provider=%s", self._mounted_as)
            return None
        if not isinstance(answer, ChatResponse):
            return None
        answer = closed(answer)
        return answer if answer.content else None


def _with(request: ChatRequest, notice: str) -> ChatRequest:
    """Return the request with a notice after it that is never stored."""
    if not notice:
        return request
    messages = [*request.messages, Message(role="user", content=notice)]
    return request.model_copy(update={"messages": messages})
