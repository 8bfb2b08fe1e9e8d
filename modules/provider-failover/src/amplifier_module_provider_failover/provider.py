"""The failover provider: calls its members in order until one answers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.errors import describe_error, error_text
from amplifier_core.llm_errors import (
    ConfigurationError,
    InvalidRequestError,
    LLMError,
    ProviderUnavailableError,
)
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.notices import Level, show
from amplifier_module_provider_failover.config import FailoverConfig

SWITCHED = "provider:failover"
RECOVERED = "provider:failover_recovered"
MISSING = "provider:failover_missing"
EVENTS = [SWITCHED, RECOVERED, MISSING]

# Contexts fit requests to these limits, and a request must fit every member that may answer it.
_LIMITS = ("context_window", "max_output_tokens")


class _Asked(NamedTuple):
    """The requested model, and the member that it belongs to."""

    owner: str
    model: str | None


class FailoverProvider:
    """Several providers as one, per session; a member that failed is skipped for a cool-down.

    Members are looked up for every call through the coordinator, with their wrappers, so that one
    can be swapped, unmounted or wrapped at any time.
    """

    name = "failover"
    # Budgets and rate limits count the members; counting this provider too would count twice.
    is_composite = True

    def __init__(
        self,
        config: FailoverConfig,
        coordinator: ModuleCoordinator,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._clock = clock
        self._switch_on = config.switching_errors()
        self.priority = config.priority
        # The time when the cool-down of each failed member ends.
        self._resting: dict[str, float] = {}
        self._known_missing: set[str] = set()

    def get_info(self) -> ProviderInfo:
        """Describe the current member, with the smallest limits of all members."""
        members = self._members()
        infos: dict[str, ProviderInfo] = {name: each.get_info() for name, each in members.items()}
        if not infos:
            return ProviderInfo(id=self.name, display_name="Failover")
        current = infos[self._in_order(members)[0]]
        limits = {
            limit: min(told)
            for limit in _LIMITS
            if (told := [i.defaults[limit] for i in infos.values() if i.defaults.get(limit)])
        }
        return current.model_copy(
            update={
                "id": self.name,
                "display_name": f"Failover ({current.display_name})",
                "defaults": {**current.defaults, **limits},
            }
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the models of all members as `member/model`, which requests can use.

        Raises:
            LLMError: no member could list its models.
        """
        found: list[ModelInfo] = []
        failures: dict[str, LLMError] = {}
        for name, member in self._members().items():
            try:
                models: list[ModelInfo] = await member.list_models()
            except LLMError as error:
                failures[name] = error
                self._show(f"{name} cannot list its models: {error_text(error)}")
                continue
            found += [each.model_copy(update={"id": f"{name}/{each.id}"}) for each in models]
        if failures and not found:
            raise _all_failed(failures)
        return found

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the answer of the first member that succeeds.

        Members in their cool-down are called last.

        Raises:
            LLMError: an error that does not switch, unchanged; else one with all failures.
        """
        if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidRequestError(
                f"A request is a ChatRequest, not a {type(request).__name__}", provider=self.name
            )
        await self.announce_missing()
        members = self._members()
        if not members:
            wanted = ", ".join(self._config.providers) or "any other provider"
            raise ConfigurationError(
                f"There is nobody to ask: mount {wanted} next to the failover", provider=self.name
            )
        asked = self._asked(kwargs.pop("model", None) or request.model, members)
        order = self._in_order(members, asked.owner)
        failures: dict[str, LLMError] = {}
        for name, following in zip(order, [*order[1:], None], strict=True):
            sent = self._request_for(name, request, asked)
            try:
                response: ChatResponse = await members[name].complete(sent, **kwargs)
            except self._switch_on as error:
                failures[name] = error
                # Not before the time that the vendor asks for.
                seconds = max(self._config.cool_down_seconds, error.retry_after or 0.0)
                self._resting[name] = self._clock() + seconds
                if following is not None:
                    await self._announce_switch(name, following, error, seconds)
                continue
            if self._resting.pop(name, None) is not None:
                await self._announce_recovery(name)
            # `parse_tool_calls` finds the member by this.
            signed = {**(response.metadata or {}), "provider": name}
            return response.model_copy(update={"metadata": signed})
        raise _all_failed(failures)

    @property
    def count_tokens(self) -> Callable[..., Awaitable[int]]:
        """Count the tokens of a request; raises AttributeError if the current member cannot.

        A request is counted by the member that `complete` would call first, if that one can.
        """
        members = self._members()
        if not members:
            raise AttributeError("count_tokens")
        current = self._in_order(members)[0]
        count_by_current: Callable[..., Awaitable[int]] = members[current].count_tokens

        async def count_as_sent(request: ChatRequest, **kwargs: Any) -> int:
            asked = self._asked(kwargs.pop("model", None) or request.model, members)
            name = self._in_order(members, asked.owner)[0]
            count = getattr(members[name], "count_tokens", None)
            if count is None:
                name = current
                count = count_by_current
            return await count(self._request_for(name, request, asked), **kwargs)

        return count_as_sent

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response, parsed by the member that it came from."""
        maker = self._members().get((response.metadata or {}).get("provider", ""))
        if maker is None:
            return calls_in_response(response)
        return maker.parse_tool_calls(response)

    async def announce_missing(self) -> None:
        """Announce which members are not mounted, each once."""
        missing = set(self._config.providers) - self._members().keys()
        news = sorted(missing - self._known_missing)
        self._known_missing = missing
        for name in news:
            await self._coordinator.hooks.emit(MISSING, {"provider": name})
            self._show(f"`{name}` cannot take over: no provider of that name is mounted")

    def _members(self) -> dict[str, Any]:
        """Return the mounted members in order, without failovers, which could call each other."""
        mounted: dict[str, Any] = self._coordinator.mount_points["providers"]
        return {
            name: self._coordinator.get("providers", name)
            for name in self._config.providers or list(mounted)
            if name in mounted and not isinstance(mounted[name], FailoverProvider)
        }

    def _in_order(self, members: dict[str, Any], owner: str | None = None) -> list[str]:
        """Return the order of calls: members in their cool-down last, by its end.

        Among the others, the owner of the requested model comes first.
        """
        now = self._clock()

        def rank(name: str) -> tuple[float, bool]:
            until = self._resting.get(name, 0.0)
            return (until if until > now else 0.0, name != owner)

        return sorted(members, key=rank)

    def _asked(self, model: str | None, members: dict[str, Any]) -> _Asked:
        """Return the owner of a model: the member named before the slash, else the first one."""
        first = next(iter(self._config.providers or members))
        owner, slash, own_name = (model or "").partition("/")
        if slash and owner in members:
            return _Asked(owner, own_name)
        return _Asked(first, model)

    def _request_for(self, name: str, request: ChatRequest, asked: _Asked) -> ChatRequest:
        """Return the request with a model of this member; None means the member's default."""
        model = asked.model
        if model is not None and name != asked.owner:
            model = self._config.models.get(name)
        if model == request.model:
            return request
        return request.model_copy(update={"model": model})

    async def _announce_switch(
        self, name: str, following: str, error: LLMError, seconds: float
    ) -> None:
        facts = {"from_provider": name, "to_provider": following, "cool_down_seconds": seconds}
        failure = {"error_type": type(error).__name__, "error_message": error_text(error)}
        await self._coordinator.hooks.emit(SWITCHED, {**facts, **failure})
        if seconds < 120:
            span = f"{seconds:.0f} s"
        else:
            span = f"{seconds / 60:.0f} min"
        self._show(f"{name}: {error_text(error)}; continuing with {following} for {span}")

    async def _announce_recovery(self, name: str) -> None:
        await self._coordinator.hooks.emit(RECOVERED, {"provider": name})
        self._show(f"{name} works again; continuing with it", "info")

    def _show(self, line: str, level: Level = "warning") -> None:
        show(self._coordinator, line, level, source="provider-failover")


def _all_failed(failures: dict[str, LLMError]) -> LLMError:
    """Return the only failure, or an error with the failures of all members as its cause."""
    errors = list(failures.values())
    if len(errors) == 1:
        return errors[0]
    said = "; ".join(f"{name}: {describe_error(error)}" for name, error in failures.items())
    failed = ProviderUnavailableError(
        f"No provider could answer. {said}",
        provider="failover",
        retryable=any(error.retryable for error in errors),
    )
    failed.__cause__ = ExceptionGroup("every member failed", errors)
    return failed
