"""Carrying out a hook result: injections, messages to the user, a question to the user."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Protocol

from amplifier_core._tasks import maybe_await
from amplifier_core.approval import ApprovalSystem, ApprovalTimeoutError
from amplifier_core.display import DisplaySystem
from amplifier_core.models import ContextInjection, HookResult, UserMessage, sanitize_for_llm

logger = logging.getLogger(__name__)

_ALLOWING = frozenset({"allow", "allow once", "allow always"})
_LONGEST_PROMPT_IN_REASON = 200
_CHARS_PER_TOKEN = 4
_LOG_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class ResultHost(Protocol):
    """The part of a coordinator that is needed to carry out a hook result."""

    @property
    def approval_system(self) -> ApprovalSystem | None: ...
    @property
    def display_system(self) -> DisplaySystem | None: ...
    @property
    def injection_budget_per_turn(self) -> int | None: ...
    @property
    def injection_size_limit(self) -> int | None: ...
    def count_injection(self, tokens: int) -> int: ...
    def get(self, mount_point: str) -> Any: ...


async def carry_out(
    coordinator: ResultHost, result: HookResult, event: str, hook_name: str
) -> HookResult:
    """Do what `result` asks for and return what is left for the orchestrator to act on."""
    await _show(coordinator, result.messages(), hook_name)
    if result.action == "ask_user":
        result = await _ask(coordinator, result, hook_name)
    if result.suppress_output:
        logger.debug("hook asks to suppress output hook=%s event=%s", hook_name, event)
    if result.action == "inject_context":
        return await _inject(coordinator, result, event, hook_name)
    return result


async def _inject(
    coordinator: ResultHost, result: HookResult, event: str, hook_name: str
) -> HookResult:
    """Store the persistent injections; the returned result has the ephemeral ones, if any."""
    injections = [
        each.model_copy(update={"content": content})
        for each in result.injections(hook_name, event)
        if (content := sanitize_for_llm(each.content))
    ]
    # All sizes are checked first: either every injection is made, or none.
    limit = coordinator.injection_size_limit
    for each in injections:
        if limit is not None and len(each.content) > limit:
            logger.error(
                "hook injection too large hook=%s event=%s chars=%d limit=%d",
                each.hook_name,
                each.event,
                len(each.content),
                limit,
            )
            raise ValueError(f"Context injection exceeds {limit} characters")
    for each in injections:
        _charge(coordinator, each)
        if not each.ephemeral:
            await _store(coordinator, each)
    return result.with_injections([each for each in injections if each.ephemeral])


def _charge(coordinator: ResultHost, injection: ContextInjection) -> None:
    """Count an injection against the turn's budget; exceeding it only logs a warning."""
    tokens = len(injection.content) // _CHARS_PER_TOKEN
    used = coordinator.count_injection(tokens)
    budget = coordinator.injection_budget_per_turn
    if budget is not None and used > budget:
        logger.warning(
            "Warning: Hook injection budget exceeded hook=%s used=%d budget=%d",
            injection.hook_name,
            used,
            budget,
        )
    logger.info(
        "Hook context injection (hook=%s, event=%s, chars=%d, role=%s, tokens=%d, ephemeral=%s)",
        injection.hook_name,
        injection.event,
        len(injection.content),
        injection.role,
        tokens,
        injection.ephemeral,
    )


async def _store(coordinator: ResultHost, injection: ContextInjection) -> None:
    context: Any = coordinator.get("context")
    if not hasattr(context, "add_message"):
        return
    metadata = {
        "source": "hook",
        "hook_name": injection.hook_name,
        "event": injection.event,
        "timestamp": datetime.now(UTC).isoformat(),
        "requested_role": injection.role,
        "ephemeral": False,
        "persisted": True,
    }
    message = {"role": injection.role, "content": injection.content, "metadata": metadata}
    await maybe_await(context.add_message(message))


async def _show(coordinator: ResultHost, messages: list[UserMessage], hook_name: str) -> None:
    display: Any = coordinator.display_system
    for message in messages:
        source = f"hook:{message.source or hook_name}"
        if display is None:
            # Quoted by `%r`: the text is untrusted, and a log may be read in a terminal.
            logger.log(_LOG_LEVELS[message.level], "message from %s: %r", source, message.text)
            continue
        try:
            await maybe_await(display.show_message(message.text, message.level, source))
        except Exception:
            logger.exception("display failed hook=%s", hook_name)


async def _ask(coordinator: ResultHost, result: HookResult, hook_name: str) -> HookResult:
    """Ask the approval system; only an explicit yes allows the operation."""
    prompt = result.approval_prompt or "Allow this operation?"
    options = result.approval_options or ["Allow", "Deny"]
    approvals: Any = coordinator.approval_system
    if approvals is None:
        logger.error("approval needed and no approval system hook=%s", hook_name)
        return HookResult(action="deny", reason="No approval system available")
    try:
        decision = await maybe_await(
            approvals.request_approval(
                prompt=prompt,
                options=options,
                timeout=result.approval_timeout,
                default=result.approval_default,
            )
        )
    except ApprovalTimeoutError:
        if result.approval_default == "allow":
            return _allowed(result)
        return HookResult(action="deny", reason=f"Approval timeout - denied by default: {prompt}")
    if not isinstance(decision, str):
        raise TypeError(f"an approval decision must be a str, not {type(decision).__name__}")
    if decision.lower() in _ALLOWING:
        return _allowed(result)
    if decision.lower() != "deny":
        logger.warning("approval decision not understood, denied decision=%s", decision)
    shown = prompt[:_LONGEST_PROMPT_IN_REASON]
    shown += "...[truncated]" if len(prompt) > _LONGEST_PROMPT_IN_REASON else ""
    return HookResult(action="deny", reason=f"User denied: {shown}")


def _allowed(result: HookResult) -> HookResult:
    """Return the rest of an approved result: the edits and injections of the same emit."""
    return HookResult(
        action="inject_context" if result.context_injections else "continue",
        data=result.data,
        context_injections=result.context_injections,
        suppress_output=result.suppress_output,
    )
