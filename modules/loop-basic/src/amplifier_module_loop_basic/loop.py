"""The loop: one turn from a prompt to its answer."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import events
from amplifier_core.history import RequestHistory
from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import HookResult
from amplifier_module_loop_basic.announcer import NAME, Announcer
from amplifier_module_loop_basic.config import DEFAULTS, LoopConfig
from amplifier_module_loop_basic.tool_calls import ToolCalls
from amplifier_module_loop_basic.tool_specs import ToolSpecs

LIMIT_NOTICE = (
    "The step limit of this turn is reached. Answer now with what you have, without calling "
    "tools, and say what is still open."
)

_ANSWER_EVENTS = (events.PROVIDER_RESPONSE, events.CONTENT_BLOCK_START, events.CONTENT_BLOCK_END)

_THINKING = {"extended_thinking": True}
_NO_OPTIONS: dict[str, bool] = {}

# stop reason -> (status in execution:end, status in orchestrator:complete)
_STATUS = {
    "completed": ("completed", "success"),
    "limit": ("completed", "incomplete"),
    "denied": ("completed", "incomplete"),
    "cancelled": ("cancelled", "cancelled"),
    "error": ("error", "incomplete"),
}


class BasicLoop:
    """Runs turns one step at a time: a model call, then the tools it asked for."""

    __slots__ = ("config", "history", "tool_specs")

    def __init__(self, config: LoopConfig = DEFAULTS) -> None:
        self.config = config
        self.history = RequestHistory()
        self.tool_specs = ToolSpecs()

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
        coordinator: Any = None,
    ) -> str:
        """Run one turn and return the answer's text.

        A denied prompt or request is answered with the reason. At the step limit the model is
        called once more without tools. A cancelled turn returns what it has by then.
        """
        turn = _Turn(self, context, providers, tools, hooks, coordinator)
        try:
            await turn.run(prompt)
        except asyncio.CancelledError:
            # The session's request to stop at once is fulfilled by stopping; any other cancellation
            # is the caller's and goes on to it.
            if not await turn.acknowledge_cancellation():
                raise
        except BaseException:
            turn.stop_reason = "error"
            raise
        finally:
            await turn.announce_end()
        return turn.answer


class _Turn:
    """One turn and all it needs to know."""

    __slots__ = (
        "_announcer",
        "_context",
        "_loop",
        "_providers",
        "_steps",
        "_token",
        "_tool_calls",
        "_tools",
        "answer",
        "stop_reason",
    )

    def __init__(
        self,
        loop: BasicLoop,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
        coordinator: Any,
    ) -> None:
        self._loop = loop
        self._context = context
        self._providers = providers
        self._tools = tools
        self._token = None if coordinator is None else coordinator.cancellation
        self._announcer = Announcer(hooks, coordinator)
        self._tool_calls = ToolCalls(tools, context, self._announcer, self._token)
        self._steps = 0
        self.answer = ""
        self.stop_reason = "completed"

    async def run(self, prompt: str) -> None:
        """Take steps until the model has no more calls, or something ends the turn before."""
        config, announcer = self._loop.config, self._announcer
        if announcer.hears(events.EXECUTION_START):
            await announcer.tell(events.EXECUTION_START, {"prompt": prompt})
        if announcer.hears(events.PROMPT_SUBMIT):
            submitted = await announcer.ask(events.PROMPT_SUBMIT, {"prompt": prompt})
            if submitted.action == "deny":
                return self._end_denied(submitted)
            prompt = (submitted.data or {}).get("prompt", prompt)
        await self._context.add_message({"role": "user", "content": prompt})
        while self._token is None or not self._token.is_cancelled:
            at_limit = 0 <= config.max_iterations <= self._steps
            name, provider = select_provider(self._providers, config.default_provider)
            if at_limit:
                announcer.injections.add(LIMIT_NOTICE)
            if announcer.hears(events.PROVIDER_REQUEST):
                leave = await announcer.ask(events.PROVIDER_REQUEST, self._facts(name, at_limit))
                if leave.action == "deny":
                    return self._end_denied(leave)
            calls = await self._call_model(name, provider, at_limit=at_limit)
            if at_limit:
                await self._tool_calls.refuse(calls, "Not run: the step limit is reached.")
                self.stop_reason = "limit"
                return None
            if not calls:
                return None
            await self._tool_calls.run(calls)
        await self.acknowledge_cancellation()
        return None

    async def acknowledge_cancellation(self) -> bool:
        """End as cancelled; False when it was not the session that stopped it at once."""
        self.stop_reason = "cancelled"
        if self._token is None or not self._token.is_cancelled:
            return False
        await self._announcer.tell(
            events.CANCEL_REQUESTED,
            {"orchestrator": NAME, "state": str(self._token.state), "turn_count": self._steps},
        )
        await self._token.trigger_callbacks()
        return self._token.is_immediate

    async def announce_end(self) -> None:
        """Tell the hooks how the turn ended, on every way out."""
        announcer, answer = self._announcer, self.answer
        execution, orchestration = _STATUS[self.stop_reason]
        if announcer.hears(events.EXECUTION_END):
            await announcer.tell(events.EXECUTION_END, {"response": answer, "status": execution})
        if self.stop_reason == "completed" and announcer.hears(events.PROMPT_COMPLETE):
            preview = {"response_preview": answer[:200], "length": len(answer)}
            await announcer.tell(events.PROMPT_COMPLETE, preview)
        if announcer.hears(events.ORCHESTRATOR_COMPLETE):
            outcome = {"status": orchestration, "stop_reason": self.stop_reason}
            facts = {"orchestrator": NAME, "turn_count": self._steps, **outcome}
            await announcer.tell(events.ORCHESTRATOR_COMPLETE, facts)

    def _end_denied(self, result: HookResult) -> None:
        self.stop_reason = "denied"
        self.answer = f"Operation denied: {result.reason}"

    def _facts(self, provider_name: str, at_limit: bool) -> dict[str, Any]:
        facts = {"provider": provider_name, "iteration": self._steps + 1}
        return {**facts, "max_reached": True} if at_limit else facts

    async def _call_model(self, name: str, provider: Any, *, at_limit: bool) -> list[ToolCall]:
        """Send the history, store the answer and return the calls it makes."""
        options = _THINKING if self._loop.config.extended_thinking else _NO_OPTIONS
        self._steps += 1
        try:
            response: ChatResponse = await provider.complete(
                await self._request(provider, with_tools=not at_limit), **options
            )
        except Exception as error:
            await self._announcer.tell(events.PROVIDER_ERROR, _failure(name, error))
            raise
        calls: list[ToolCall] = provider.parse_tool_calls(response)
        if any(map(self._announcer.hears, _ANSWER_EVENTS)):
            await self._announce(name, response, calls)
        await self._store(response, calls)
        return calls

    async def _request(self, provider: Any, *, with_tools: bool) -> ChatRequest:
        stored = await self._context.get_messages_for_request(provider=provider)
        messages, repairs = self._loop.history.prepare(stored)
        if repairs:
            await self._announcer.tell(
                events.CONTEXT_REPAIRED, {"repairs": [repair._asdict() for repair in repairs]}
            )
        if self._announcer.pending is not None:
            self._announcer.pending.apply(messages)
        specs = self._loop.tool_specs.describe(self._tools) if with_tools else None
        return ChatRequest(messages=messages, tools=specs or None)

    async def _announce(self, name: str, response: ChatResponse, calls: list[ToolCall]) -> None:
        announcer, usage, total = self._announcer, response.usage, len(response.content)
        facts = {"response": response, "usage": usage, "tool_calls": bool(calls)}
        await announcer.ask(events.PROVIDER_RESPONSE, {"provider": name, **facts})
        for index, block in enumerate(response.content):
            place = {"block_index": index, "total_blocks": total}
            await announcer.tell(events.CONTENT_BLOCK_START, {"block_type": block.type, **place})
            await announcer.tell(
                events.CONTENT_BLOCK_END, {**place, "block": block, "usage": usage}
            )

    async def _store(self, response: ChatResponse, calls: list[ToolCall]) -> None:
        content = [block.model_dump(exclude_none=True) for block in response.content]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        made = [{"id": c.id, "tool": c.name, "arguments": {**c.arguments}} for c in calls]
        if made:
            message["tool_calls"] = made
        if response.metadata:
            message["metadata"] = response.metadata
        self.answer = "\n\n".join([b.text for b in response.content if b.type == "text"])
        await self._context.add_message(message)


def select_provider(providers: dict[str, Any], preferred: str | None) -> tuple[str, Any]:
    """Return the preferred provider, else the one with the lowest priority number."""
    if preferred is not None and preferred in providers:
        return preferred, providers[preferred]
    if not providers:
        raise RuntimeError("No providers mounted")
    if len(providers) == 1:
        return next(iter(providers.items()))
    name = min(providers, key=lambda each: _priority(providers[each]))
    return name, providers[name]


def _priority(provider: Any) -> int:
    own = getattr(provider, "priority", None)
    if own is None:
        settings: Any = getattr(provider, "config", None) or {}
        own = settings.get("priority")
    return 100 if own is None else own


def _failure(provider_name: str, error: Exception) -> dict[str, Any]:
    failure = {"type": type(error).__name__, "msg": str(error)}
    facts: dict[str, Any] = {"provider": provider_name, "error": failure}
    if isinstance(error, LLMError):
        facts |= {"retryable": error.retryable, "status_code": error.status_code}
    return facts
