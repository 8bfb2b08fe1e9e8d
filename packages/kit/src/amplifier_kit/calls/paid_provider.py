"""A provider whose calls are paid for in advance, and the ledger that pays for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Protocol, TypeVar

from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_kit.calls.budget_notices import (
    EXHAUSTED,
    Notice,
    announce,
    closing_answer,
    notice_of_charge,
    notice_of_unpriced,
)
from amplifier_kit.calls.call_costs import (
    FREE_FAILURES,
    NOTHING,
    Amount,
    PartialAnswer,
    WorstCase,
    charge_for,
    charge_for_partial,
    is_free,
    most_input_tokens,
    most_output_tokens,
)
from amplifier_kit.calls.messages import with_options
from amplifier_kit.calls.prices import (
    Price,
    PriceTable,
    UnknownPriceError,
    find_price,
    free,
    listed_price,
    own_table,
    priced_at,
    with_cost,
)
from amplifier_kit.calls.settings import Pricing
from amplifier_kit.notices import show

__all__ = [
    "BUDGET",
    "BudgetTerms",
    "Hold",
    "Ledger",
    "PaidProvider",
    "Shortage",
    "is_composite",
    "note_cancelled",
    "pay_retry",
]


BUDGET = "budget.terms"
"""The capability by which a hook says what the plan of its session limits: its `BudgetTerms`."""


class BudgetTerms(Protocol):
    """What a plan allows its session and all below it; None is no limit."""

    @property
    def usd(self) -> Decimal | None:
        """US dollars."""
        ...

    @property
    def tokens(self) -> int | None:
        """Input and output together."""
        ...

    @property
    def steps(self) -> int | None:
        """Model calls."""
        ...

    @property
    def settle(self) -> str:
        """`usage`, or `worst_case` if nothing that was set aside is given back."""
        ...

    @property
    def unknown_price(self) -> str:
        """`refuse` or `allow`, for a model without a price where dollars are limited."""
        ...

    @property
    def prices(self) -> Mapping[str, Pricing]:
        """By `provider/model` or provider."""
        ...


def is_composite(provider: Any) -> bool:
    """Whether a provider declares that it only calls other mounted ones, which pay themselves."""
    # A mock has every attribute, so only True itself counts.
    return getattr(provider, "is_composite", False) is True


@dataclass(slots=True)
class Hold:
    """What is set aside for one attempt at a call; a ledger subclasses it to identify its entry."""

    amount: Amount
    # The longest answer; None if nothing limits it.
    output_tokens: int | None


class Shortage(Protocol):
    """Why a call is not made."""

    @property
    def cause(self) -> str:
        """How much of which limit is used, at the moment of reading."""
        ...


H = TypeVar("H", bound=Hold)


class Ledger(Protocol[H]):
    """What the calls of one session are paid from."""

    @property
    def name(self) -> str:
        """The source of events and messages."""
        ...

    @property
    def coordinator(self) -> Any:
        """The session whose hooks and user receive the notices."""
        ...

    @property
    def price_tables(self) -> Sequence[PriceTable | None]:
        """Where prices are looked up, that of the root of the tree first."""
        ...

    @property
    def allows_unpriced(self) -> bool:
        """Whether a model without a price is called where dollars are limited."""
        ...

    @property
    def charges_worst_case(self) -> bool:
        """Whether a call is charged no less than what was set aside for it."""
        ...

    async def left(self) -> Amount:
        """Return what may be used now; infinite where there is no limit."""
        ...

    def seconds_left(self) -> float | None:
        """Return how long a call may take; None where time is not limited."""
        ...

    def out_of_time(self) -> Shortage:
        """Return the shortage of a call that was stopped after `seconds_left`."""
        ...

    async def hold(self, call: WorstCase) -> H | Shortage:
        """Set aside the worst case of a call, with a shorter answer if necessary."""
        ...

    async def hold_again(self, hold: H, call: WorstCase) -> H | Shortage:
        """Charge a failed attempt in full, and set aside the worst case of the next one."""
        ...

    async def settle(self, hold: H, charge: Amount | None) -> None:
        """Charge the cost of a call, or all of `hold` if it is None, and give back the rest.

        Completes even if the task is cancelled meanwhile. Settling again has no effect.
        """
        ...


@dataclass(slots=True)
class _Flight(Generic[H]):
    """A call that is under way; `payer` is the ledger of its session."""

    payer: object
    # The own name of the provider, which its events have.
    provider: str
    ledger: Ledger[H]
    call: WorstCase
    hold: H
    clock: asyncio.Timeout
    # A session may have two budgets, its own and that of a fleet: the paid call of one is made
    # inside that of the other, and each payer has to find its own.
    outer: _Flight[Any] | None
    shortage: Shortage | None = None
    # What is known of the answer if the call was cancelled.
    partial: PartialAnswer | None = None


_flight: ContextVar[_Flight[Any] | None] = ContextVar("amplifier_paid_call", default=None)


def _flight_of(payer: object) -> _Flight[Any] | None:
    """Return the call that is under way here and that `payer` pays for."""
    flight = _flight.get()
    while flight is not None and flight.payer is not payer:
        flight = flight.outer
    return flight


async def pay_retry(payer: object, data: dict[str, Any]) -> None:
    """Charge an attempt that failed, and stop the call if another one does not fit.

    For the event `provider:retry`, whose facts are `data`; calls of other payers are ignored.
    """
    if data.get("error_type") in FREE_FAILURES:
        return
    flight = _flight_of(payer)
    if flight is None:
        return
    held = await flight.ledger.hold_again(flight.hold, flight.call)
    if isinstance(held, Hold):
        flight.hold = held
        return
    flight.shortage = held
    # This runs in a hook handler, whose exceptions do not reach the call: expire its timeout.
    flight.clock.reschedule(asyncio.get_running_loop().time())


def note_cancelled(payer: object, data: dict[str, Any]) -> None:
    """Note what is known of the answer to a call that is being cancelled.

    For the event `provider:call_cancelled`, whose facts are `data`; calls of other payers are
    ignored.
    """
    flight = _flight_of(payer)
    # A provider that calls others has made several calls, and this is about one of them.
    if flight is not None and data.get("provider") == flight.provider:
        flight.partial = PartialAnswer.from_record(data)


class PriceFinder:
    """Looks up each price once, and reports each model without one once."""

    def __init__(self, provider: str, module: Any) -> None:
        """`provider` is the name under which `module` is mounted."""
        self._provider = provider
        self._module = module
        self._known: dict[str, Price | None] = {}
        self._admitted: set[str] = set()

    async def find(
        self, model: str, tables: Iterable[PriceTable | None], *, is_limited: bool
    ) -> Price | None:
        """Return the price of a model's calls, None if it is unknown.

        The first of `tables` is that of the root, so that no child makes its calls cheaper for the
        budgets above it. If dollars are limited, the provider's list of models is asked too.
        """
        price = self._known.get(model)
        if price is None and (is_limited or model not in self._known):
            known = [each for each in (*tables, own_table(self._module)) if each is not None]
            vendor = self._module.get_info().id
            price = await find_price(known, self._provider, vendor, model)
            if price is None and is_limited:
                price = await listed_price(self._module, model)
            self._known[model] = price
        return price

    async def admit_unpriced(
        self, model: str, coordinator: Any, source: str, *, is_refused: bool
    ) -> None:
        """Report once, in the name of `source`, that a model without a price is called anyway.

        Raises:
            UnknownPriceError: the call is refused. The error says so, without another message.
        """
        event, facts, line = notice_of_unpriced(self._provider, model, is_refused=is_refused)
        if is_refused or model not in self._admitted:
            await coordinator.hooks.emit(event, facts)
        if is_refused:
            raise UnknownPriceError(self._provider, model)
        if model not in self._admitted:
            self._admitted.add(model)
            show(coordinator, line, source=source)


class PaidProvider(Generic[H]):
    """A wrapper of a provider that makes no call without paying for it in advance.

    The worst case of a call is set aside before it is sent. Afterwards the actual cost is charged,
    or the worst case if the cost cannot be known.
    """

    def __init__(self, name: str, module: Any, ledger: Ledger[H]) -> None:
        """`name` is what `module` is mounted as."""
        self._mounted_as = name
        self._module = module
        self._ledger = ledger
        self._prices = PriceFinder(name, module)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Set the worst case aside, call the model, and charge the actual cost.

        If the budget does not allow that, the answer says so and calls no tools.

        Raises:
            UnknownPriceError: dollars are limited, and the price is unknown.
            LLMError: as the provider raised it.
        """
        if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidRequestError(
                f"A request is a ChatRequest, not a {type(request).__name__}",
                provider=self._module.name,
            )
        return await self._complete(*with_options(request, kwargs))

    async def _complete(self, request: ChatRequest, options: dict[str, Any]) -> ChatResponse:
        """Pay for a request, or end the turn; `options` are for the provider alone."""
        outcome = await self._pay(self._reminded(request), options, self._ledger)
        if isinstance(outcome, ChatResponse):
            return outcome
        answer = await self._last_answer(request)
        # `cause` is read only now, so that it includes the last answer.
        cause = f"{outcome.cause} are used, and the next call does not fit"
        return await self._close(request, cause, answer)

    def _reminded(self, request: ChatRequest) -> ChatRequest:
        """Return the request to send; a subclass adds what the model should know of the budget."""
        return request

    async def _last_answer(self, request: ChatRequest) -> ChatResponse | None:
        """Return the model's final answer, if the budget has a reserve for one."""
        return None

    async def _close(
        self, request: ChatRequest, cause: str, answer: ChatResponse | None = None
    ) -> ChatResponse:
        """Announce the end of the turn and return its last answer."""
        facts = {"cause": cause, "answered_by": "budget" if answer is None else "model"}
        await self._announce(Notice(EXHAUSTED, facts, f"The turn ends: {cause}."))
        if answer is not None:
            return answer
        return closing_answer(cause, request)

    async def _announce(self, notice: Notice) -> None:
        await announce(self._ledger.coordinator, notice, source=self._ledger.name)

    async def _pay(
        self, request: ChatRequest, options: dict[str, Any], ledger: Ledger[H]
    ) -> ChatResponse | Shortage:
        call = await self._foresee(request, ledger)
        held = await ledger.hold(call)
        if not isinstance(held, Hold):
            return held
        return await self._make(request, options, ledger, call, held)

    async def _foresee(self, request: ChatRequest, ledger: Ledger[H]) -> WorstCase:
        """Return the worst case of a call."""
        defaults = self._module.get_info().defaults
        price = await self._price(request.model or defaults.get("model") or "", ledger)
        return WorstCase(price, most_input_tokens(request), most_output_tokens(request, defaults))

    async def _price(self, model: str, ledger: Ledger[H]) -> Price:
        """Return the price of a model's calls; the ledger decides about a model without one."""
        is_limited = (await ledger.left()).usd.is_finite()
        price = await self._prices.find(model, ledger.price_tables, is_limited=is_limited)
        if price is None and is_limited:
            await self._prices.admit_unpriced(
                model, ledger.coordinator, ledger.name, is_refused=not ledger.allows_unpriced
            )
        return price or free

    async def _make(
        self,
        request: ChatRequest,
        options: dict[str, Any],
        ledger: Ledger[H],
        call: WorstCase,
        hold: H,
    ) -> ChatResponse | Shortage:
        """Make a call that is paid for; return a Shortage if it has to be stopped."""
        if hold.output_tokens is not None:
            request = request.model_copy(update={"max_output_tokens": hold.output_tokens})
        clock = asyncio.timeout(ledger.seconds_left())
        flight = _Flight(self._ledger, self._module.name, ledger, call, hold, clock, _flight.get())
        token = _flight.set(flight)
        # None charges the worst case: the call may be cancelled or fail after it was billed.
        charge: Amount | None = None
        try:
            async with clock:
                with priced_at(call.price):
                    said: ChatResponse = await self._module.complete(request, **options)
            response = with_cost(said, call.price)
            charge = charge_for(request, response, call.price)
            if charge is not None and ledger.charges_worst_case:
                charge = charge.at_least(flight.hold.amount)
        except asyncio.CancelledError:
            charge = _charge_of_cancelled(request, flight)
            raise
        except TimeoutError:
            if not clock.expired():
                raise
            if flight.shortage is not None:
                return flight.shortage
            charge = _charge_of_cancelled(request, flight)
            return ledger.out_of_time()
        except LLMError as error:
            charge = NOTHING if is_free(error) else None
            raise
        finally:
            _flight.reset(token)
            await ledger.settle(flight.hold, charge)
        await self._report(ledger, flight.hold, charge)
        return response

    async def _report(self, ledger: Ledger[H], hold: H, charge: Amount | None) -> None:
        """Announce a charge that is implausible or above its worst case."""
        left = await ledger.left()
        limits_dollars = left.usd.is_finite()
        # Without a limit there is no worst case to exceed.
        if not limits_dollars and not left.tokens.is_finite():
            return
        notice = notice_of_charge(
            self._mounted_as, hold.amount, charge, limits_dollars=limits_dollars
        )
        if notice is not None:
            await self._announce(notice)


def _charge_of_cancelled(request: ChatRequest, flight: _Flight[Any]) -> Amount | None:
    """Return what a cancelled call is charged; None, the worst case, without a credible report."""
    if flight.partial is None or flight.ledger.charges_worst_case:
        return None
    most = flight.hold.output_tokens or flight.call.wanted
    return charge_for_partial(request, flight.partial, flight.call.price, most)
