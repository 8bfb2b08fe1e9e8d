"""The budget of a session, and providers under that budget: reminder, last answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, ToolCall
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_kit.calls.budget_notices import (
    DOUBTED,
    EXHAUSTED,
    OVERRUN,
    UNPRICED,
    WARNING,
    Notice,
    announce,
    closed,
)
from amplifier_kit.calls.call_costs import ENDLESS, Amount, WorstCase
from amplifier_kit.calls.paid_provider import Ledger, PaidProvider, note_cancelled, pay_retry
from amplifier_kit.calls.prices import PriceTable
from amplifier_module_hooks_budget.ledger import Account, Hold, Shortage, TreeLedger

logger = logging.getLogger(__name__)

NAME = "hooks-budget"
REFUSED = "budget:lease_refused"
EVENTS = [WARNING, EXHAUSTED, DOUBTED, OVERRUN, UNPRICED, REFUSED]


class SessionBudget:
    """The budget of one session: the account of its agent in the tree's ledger.

    Without an account, the agent may not call a model. A `final` one may use the reserve for the
    last answer of a turn.
    """

    name = NAME

    def __init__(
        self,
        coordinator: ModuleCoordinator,
        ledger: TreeLedger,
        account: Account | None,
        refusal: str | None = None,
        *,
        final: bool = False,
    ) -> None:
        self.coordinator = coordinator
        self.ledger = ledger
        self.account = account
        self.refusal = refusal
        self._is_final = final

    # --- paying ----------------------------------------------------------------------------------

    @property
    def _own(self) -> Account:
        assert self.account is not None, "an agent without an account calls no model"
        return self.account

    def for_last_answer(self) -> SessionBudget:
        """Return the budget from which the last answer is paid."""
        return SessionBudget(self.coordinator, self.ledger, self.account, final=True)

    @property
    def price_tables(self) -> Sequence[PriceTable | None]:
        """The tables of all agents from the root down to this one."""
        return [each.prices for each in reversed(self._own.lineage)]

    @property
    def allows_unpriced(self) -> bool:
        """Whether every agent that limits dollars allows models without a price."""
        configs = [each.config for each in self._own.lineage]
        deciding = [each for each in configs if each.usd is not None] or configs[-1:]
        return all(each.unknown_price == "allow" for each in deciding)

    @property
    def charges_worst_case(self) -> bool:
        """Whether any agent from the root down to this one asks for that."""
        return any(each.config.settle == "worst_case" for each in self._own.lineage)

    async def left(self) -> Amount:
        """Return what the agent may use by its own limits and those of all above it."""
        return self.ledger.room(self._own, final=self._is_final)

    def seconds_left(self) -> float | None:
        """Return how much of the tree's time is left."""
        return self.ledger.seconds_left(final=self._is_final)

    def out_of_time(self) -> Shortage:
        """Return the shortage of time of the whole tree."""
        return self.ledger.out_of_time()

    async def hold(self, call: WorstCase) -> Hold | Shortage:
        """Reserve the worst case of a call."""
        return await self.ledger.hold(self._own, call, final=self._is_final)

    async def hold_again(self, hold: Hold, call: WorstCase) -> Hold | Shortage:
        """Charge the attempt that failed, and reserve the same again."""
        return self.ledger.hold_again(hold) or hold

    async def settle(self, hold: Hold, charge: Amount | None) -> None:
        """Charge the cost of a call."""
        self.ledger.settle(hold, charge)

    async def pay_retry(self, event: str, data: dict[str, Any]) -> None:
        """Charge an attempt that failed, and stop the call if another one does not fit."""
        await pay_retry(self, data)

    async def note_cancelled(self, event: str, data: dict[str, Any]) -> None:
        """Note what is known of the answer to a call that is being cancelled."""
        note_cancelled(self, data)

    # --- children, and what is said --------------------------------------------------------------

    async def lease(self, child_session_id: str, depth: int | None = None) -> str | None:
        """Give a child its share before it is spawned; return why it must not be spawned."""
        refusal = self.refusal
        if self.account is not None:
            refusal = self.ledger.lease(self.account, child_session_id, depth)
        if refusal:
            facts = {"child_session_id": child_session_id, "reason": refusal}
            await self._announce(Notice(REFUSED, facts, f"No agent was started: {refusal}."))
        return refusal

    def status(self) -> dict[str, Any]:
        """Return what the whole tree has used, for display."""
        ledger = self.ledger
        root = self.ledger.root
        return {
            "used": {**root.used.record(), "seconds": ledger.seconds()},
            "held": root.held.record(),
            "limits": ledger.config.model_dump(
                mode="json", include={"usd", "tokens", "steps", "seconds", "depth", "breadth"}
            ),
            "share": ledger.share_used(root),
            "agents": len(ledger.accounts),
        }

    async def warn(self) -> None:
        """Warn once for each limit that is nearly reached."""
        for account in self.ledger.newly_near(self.account) if self.account else ():
            share = self.ledger.share_used(account)
            facts = {"agent": account.agent, "share": share, **self.status()}
            if account.parent is None:
                whose = "the budget"
            else:
                whose = f"the share of {account.agent}"
            await self._announce(Notice(WARNING, facts, f"{share:.0%} of {whose} is used."))

    def reminder(self) -> str:
        """Return the text that is added to each request when little is left."""
        accounts = self.account.lineage if self.account else ()
        share = max(map(self.ledger.share_used, accounts), default=0.0)
        if share < self.ledger.config.warn_at:
            return ""
        return f"{share:.0%} of the budget for this work is used. Come to an end soon."

    async def _announce(self, news: Notice) -> None:
        await announce(self.coordinator, news, source=NAME)


# Tokens of the last answer of a turn.
_FINAL_OUTPUT = 1_024
_LAST_CALL = (
    "The budget for this work is used up. Answer now with what you have, without calling tools, "
    "and say what is still open."
)
# Any other method might call the vendor without being charged.
_HARMLESS = ("count_tokens",)
# A count is the vendor's estimate; it may bill a little more.
_COUNT_MARGIN = 1.02
_COUNT_EXTRA = 64


class BudgetedProvider(PaidProvider[Hold]):
    """A provider as its session sees it, under the session's budget."""

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
        """Return the worst case of a call; tokens are counted only if its bytes do not fit."""
        call = await super()._foresee(request, ledger)
        call = call._replace(least=self._budget.ledger.config.min_output_tokens)
        left = await ledger.left()
        # Counting may be a request to the vendor; it does not help if the steps are used up.
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
            # A vendor's error must not stop a call: bytes are a safe upper bound.
            logger.exception("tokens not counted, bytes are provider=%s", self._mounted_as)
            return otherwise

    async def _report(self, ledger: Ledger[Hold], hold: Hold, charge: Amount | None) -> None:
        await super()._report(ledger, hold, charge)
        await self._budget.warn()

    async def _last_answer(self, request: ChatRequest) -> ChatResponse | None:
        """Let the model answer with what it has, paid from the reserve; None if it cannot."""
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
    """Return the request with a notice appended, which never enters the history."""
    if not notice:
        return request
    messages = [*request.messages, Message(role="user", content=notice)]
    return request.model_copy(update={"messages": messages})
