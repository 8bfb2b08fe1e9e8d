"""One turn, from a prompt to its answer."""

from __future__ import annotations

import asyncio
import math
from time import monotonic
from typing import Any

from amplifier_core import events
from amplifier_core.message_models import ResponseFormatJsonSchema, ToolCall
from amplifier_core.models import HookResult
from amplifier_kit import turn_events
from amplifier_kit.calls.budget_notices import BUDGET
from amplifier_kit.texts import text_of_prompt
from amplifier_kit.valid_text import valid
from amplifier_module_loops.announcer import Announcer, Inbox
from amplifier_module_loops.limits import (
    DEADLINE,
    LIMIT,
    STATUS,
    STUCK,
    Ending,
    TurnSettings,
    stop_reason_for,
)
from amplifier_module_loops.model_calls import (
    AskModel,
    ModelCalls,
    complete,
    default_model,
    select_provider,
)
from amplifier_module_loops.repetition import Circle, Repetition
from amplifier_module_loops.requests import RequestCache
from amplifier_module_loops.structured import OutputSchema
from amplifier_module_loops.tool_calls import SelectTool, ToolCalls

_NUDGE = "Repeating them will not help: try another way, or answer with what you have."
_REPAIR = "Your answer does not fit the JSON Schema it has to. Give it again, as JSON alone. Wrong:"


class TurnLoop:
    """Runs turns one step at a time: a model call, then the tools it asked for.

    A loop module passes its `name` and settings, an `inbox` if turns can be steered, `ask_model` if
    it does not call models by `complete`, and `select_tool` if something other than the model can
    choose the tool of a call.
    """

    def __init__(
        self,
        name: str,
        config: TurnSettings,
        *,
        inbox: Inbox | None = None,
        ask_model: AskModel = complete,
        select_tool: SelectTool | None = None,
    ) -> None:
        """Raises ValueError if the configured schema is not valid."""
        self.name = name
        self.config = config
        self.inbox = inbox
        self.ask_model = ask_model
        self.select_tool = select_tool
        self.kept = RequestCache()
        self.schema: OutputSchema | None = None
        if config.output_schema is not None:
            self.schema = OutputSchema(config.output_schema)

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

        A denied prompt or request is answered with the reason. At a limit the model is called once
        more without tools. A cancelled turn returns the answer so far.
        """
        turn = _Turn(self, context, providers, tools, hooks, coordinator)
        try:
            await turn.run(prompt)
        except asyncio.CancelledError:
            # An immediate stop of the session has been carried out by this; any other cancellation
            # is the caller's and is raised.
            if not await turn.acknowledge_cancellation():
                raise
        except BaseException:
            turn.stop_reason = "error"
            raise
        finally:
            await turn.announce_end()
        return turn.answer


class _Turn:
    """One turn and its state."""

    def __init__(
        self,
        loop: TurnLoop,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
        coordinator: Any,
    ) -> None:
        config = loop.config
        self._loop = loop
        self._context = context
        self._providers = providers
        self._tools = tools
        self._schema = loop.schema
        if coordinator is None:
            self._token = None
        else:
            self._token = coordinator.cancellation
            given = coordinator.get_capability(turn_events.OUTPUT_SCHEMA)
            if given is not None:
                self._schema = OutputSchema(given)
        self._announcer = Announcer(loop.name, hooks, coordinator)
        self._model = ModelCalls(
            loop.kept,
            context,
            self._announcer,
            hooks,
            loop.ask_model,
            {"extended_thinking": True} if config.extended_thinking else {},
            config.max_calls,
        )
        if config.turn_timeout_seconds is None:
            until = math.inf
        else:
            until = monotonic() + config.turn_timeout_seconds
        self._tool_calls = ToolCalls(
            tools, context, self._announcer, self._token, config, until, loop.select_tool
        )
        self._repetition = Repetition(config.stuck_after)
        self._is_stuck = False
        self._result: dict[str, Any] = {}
        self.answer = ""
        self.stop_reason = "completed"

    async def run(self, prompt: str) -> None:
        """Take steps until the model makes no more calls, or something ends the turn earlier."""
        if not await self._begin(prompt):
            return
        inbox = self._loop.inbox
        token = self._token
        # An inbox is true only while a text waits in it: then a final answer is not the end.
        while token is None or not token.is_cancelled:
            if inbox:
                await self._deliver(inbox)
            ending = self._ending()
            calls = await self._step(ending)
            if calls is None:
                return
            if ending is not None:
                self.stop_reason = ending.stop_reason
                # Calls that the model makes in spite of the notice need a result, too.
                await self._tool_calls.refuse(calls, ending.refusal)
                if self._schema is not None:
                    # A repair would be one more model call than the limit allows.
                    await self._conclude(self._schema, may_repair=False)
                return
            if calls:
                await self._run_tools(calls)
            elif not inbox:
                await self._finish(self._model.finish_reason)
                return
        await self.acknowledge_cancellation()

    async def acknowledge_cancellation(self) -> bool:
        """End as cancelled; returns whether it was an immediate stop of the session."""
        self.stop_reason = "cancelled"
        if self._token is None or not self._token.is_cancelled:
            return False
        facts = {"state": str(self._token.state), "turn_count": self._model.count}
        await self._announcer.tell(
            events.CANCEL_REQUESTED, {"orchestrator": self._loop.name, **facts}
        )
        await self._token.trigger_callbacks()
        return self._token.is_immediate

    async def announce_end(self) -> None:
        """Announce how the turn ended; called on every way out."""
        announcer = self._announcer
        answer = self.answer
        inbox = self._loop.inbox
        execution, orchestration = STATUS[self.stop_reason]
        if inbox:
            line = f"{len(inbox)} message(s) came too late for this turn; the next begins with it."
            await announcer.warn(turn_events.STEERING_WAITING, {"count": len(inbox)}, line)
        await announcer.tell(events.EXECUTION_END, {"response": answer, "status": execution})
        if self.stop_reason == "completed":
            preview = {"response_preview": answer[:200], "length": len(answer)}
            await announcer.tell(events.PROMPT_COMPLETE, preview)
        facts = {
            "orchestrator": self._loop.name,
            "turn_count": self._model.count,
            "status": orchestration,
            "stop_reason": self.stop_reason,
            **self._result,
        }
        await announcer.tell(events.ORCHESTRATOR_COMPLETE, facts)

    async def _begin(self, prompt: str) -> bool:
        """Store the prompt, after texts that came too late for the turn before; False if denied.

        A prompt may be blocks of content, with images or files. Hooks read and change its text.
        """
        text = text_of_prompt(prompt)
        await self._announcer.tell(events.EXECUTION_START, {"prompt": text})
        submitted = await self._announcer.ask(events.PROMPT_SUBMIT, {"prompt": text})
        if submitted.action == "deny":
            self._end_denied(submitted)
            return False
        changed = (submitted.data or {}).get("prompt", text)
        content = prompt if changed == text else _with_text(prompt, changed)
        if self._loop.inbox:
            await self._deliver(self._loop.inbox)
        await self._context.add_message({"role": "user", "content": valid(content)})
        return True

    async def _deliver(self, inbox: Inbox) -> None:
        while (text := await inbox.deliver(self._context)) is not None:
            # With new words of the user, equal calls may be sensible.
            self._repetition.forget()
            await self._announcer.tell(turn_events.STEERING_INJECTED, {"text": text, "count": 1})

    def _ending(self) -> Ending | None:
        """Return why the next step has to be the last one, or None."""
        if self._is_stuck:
            return STUCK
        if 0 <= self._loop.config.max_iterations <= self._model.count:
            return LIMIT
        if self._tool_calls.until <= monotonic():
            return DEADLINE
        return None

    def _end_denied(self, result: HookResult) -> None:
        self.stop_reason = "denied"
        self.answer = f"Operation denied: {result.reason}"

    async def _step(self, ending: Ending | None, repairing: bool = False) -> list[ToolCall] | None:
        """Call the model and return its tool calls; None if a hook denies the request."""
        announcer = self._announcer
        loop = self._loop
        name, provider = select_provider(self._providers, loop.config.default_provider)
        if ending is None:
            reason = {}
        else:
            reason = await self._announce_last_step(ending)
        # Only if a hook listens, because the provider has to be asked for its model.
        if announcer.hears(events.PROVIDER_REQUEST):
            facts = {
                "provider": name,
                "model": default_model(provider),
                **reason,
                "iteration": self._model.count + 1,
            }
            permission = await announcer.ask(events.PROVIDER_REQUEST, facts)
            if permission.action == "deny":
                self._end_denied(permission)
                return None
        tools = {} if repairing or ending is not None else self._tools
        form = None
        if self._schema is not None and not tools:
            form = self._form(self._schema, provider, is_demanded=repairing)
        calls = await self._model.make(name, provider, tools, form)
        self.answer = self._model.answer
        return calls

    async def _announce_last_step(self, ending: Ending) -> dict[str, Any]:
        """Inform the model and the user; returns the reason for the hooks of the request."""
        announcer = self._announcer
        reason = ending.stop_reason
        announcer.injections.add(ending.notice)
        facts = {"stop_reason": reason, "turn_count": self._model.count}
        await announcer.warn(turn_events.LAST_STEP, facts, ending.line)
        if ending is LIMIT:
            return {"max_reached": True, "stop_reason": reason}
        return {"stop_reason": reason}

    def _form(
        self, schema: OutputSchema, provider: Any, *, is_demanded: bool
    ) -> ResponseFormatJsonSchema | None:
        """Return the response format, if it is demanded or the provider supports one."""
        known = is_demanded or "json_mode" in provider.get_info().capabilities
        if known:
            return schema.response_format
        return None

    async def _run_tools(self, calls: list[ToolCall]) -> None:
        if self._tool_calls.until <= monotonic():
            return await self._tool_calls.refuse(calls, DEADLINE.refusal)
        await self._tool_calls.run(calls)
        circle = self._repetition.take(calls)
        if circle is None:
            return None
        return await self._break(circle)

    async def _break(self, circle: Circle) -> None:
        """Warn the model that it repeats itself; if that did not help, ask the user."""
        announcer = self._announcer
        event = turn_events.STUCK
        facts = {"pattern": circle.pattern, "repetitions": circle.repetitions}
        line = f"The model repeats itself. {circle}."
        if circle.action == "nudge":
            announcer.injections.add(f"You repeat yourself. {circle}. {_NUDGE}")
            return await announcer.warn(event, {**facts, "action": "nudge"}, line)
        await announcer.warn(event, {**facts, "action": "ask"}, line)
        question = HookResult(
            action="ask_user",
            approval_prompt=f"{line} Let it continue?",
            approval_options=["Allow", "Deny"],
            approval_default="deny",
        )
        if (await announcer.carry_out(event, question)).action == "deny":
            self._is_stuck = True
            await announcer.tell(event, {**facts, "action": "stop"})
        else:
            self._repetition.forget()
        return None

    async def _finish(self, finish_reason: str | None) -> None:
        """End with the answer, and report if it is incomplete or does not match its schema."""
        self.stop_reason = reason = stop_reason_for(finish_reason)
        # Whoever keeps the budget has already told the user.
        if reason not in ("completed", BUDGET):
            facts = {"stop_reason": reason, "finish_reason": finish_reason}
            line = f"The answer is not complete: the provider reports `{finish_reason}`."
            await self._announcer.warn(turn_events.ANSWER_CUT, facts, line)
        if self._schema is not None:
            await self._conclude(self._schema, may_repair=reason != BUDGET)

    async def _conclude(self, schema: OutputSchema, *, may_repair: bool) -> None:
        """Check the answer against the schema, and have it repaired once if allowed."""
        checked = schema.check(self.answer)
        if checked.errors and may_repair:
            problems = "\n".join(f"- {each}" for each in checked.errors)
            notice = {"role": "user", "content": f"{_REPAIR}\n{problems}"}
            await self._context.add_message(notice)
            calls = await self._step(None, repairing=True)
            if calls is None:
                return
            await self._tool_calls.refuse(calls, "Not run: only the answer is asked for.")
            checked = schema.check(self.answer)
        if checked.errors:
            line = f"The answer does not fit its schema: {'; '.join(checked.errors)}"
            await self._announcer.warn(turn_events.INVALID_OUTPUT, {"errors": checked.errors}, line)
            if may_repair:
                self.stop_reason = "invalid_output"
        else:
            self.answer = checked.text
            self._result = {"result": checked.value}


def _with_text(prompt: str | list[dict[str, Any]], text: str) -> str | list[dict[str, Any]]:
    """Return a prompt with another text; its other blocks stay, after the text."""
    if isinstance(prompt, str):
        return text
    others = [each for each in prompt if each.get("type") != "text"]
    return [{"type": "text", "text": text}, *others]
