"""The rules that the fault suites test, each a sentence that a failure begins with."""

from __future__ import annotations

import warnings

__all__ = ["RULES", "RECOMMENDED", "RecommendationWarning", "require"]

RULES: dict[str, str] = {
    # providers
    "provider.cancel": "a cancelled call must end with CancelledError within 2 s",
    "provider.slow_peer": "a call to a peer that never answers must end at its caller's deadline",
    "provider.leftover": "a call that ended must leave no task running",
    "provider.errors": "a call that fails must raise an LLMError",
    "provider.orphan": "an unanswered tool call in the history must not crash a call",
    "provider.blocks": "every kind of content block must be accepted in the history",
    "provider.parse": "parse_tool_calls must return a list of ToolCall for every response",
    "provider.large": "a request of 50 MB must be answered or refused with an LLMError",
    "provider.types": "what is no request must be refused with an LLMError",
    # tools
    "tool.cancel": "a cancelled call must end with CancelledError within 2 s",
    "tool.slow_peer": "a call to a peer that never answers must end at its caller's deadline",
    "tool.leftover": "a call that ended must leave no task running",
    "tool.types": "input of the wrong types must come back as a ToolResult",
    "tool.readable": "a result must be readable as text by the model",
    "tool.parallel": "calls at the same time must each come back with a ToolResult",
    "tool.large": "50 MB of input must come back as a ToolResult",
    "tool.no_dict": "input that is no dict must come back as a ToolResult",
    "tool.blocking": "a call must not block the event loop for half a second",
    # hooks
    "hook.cancel": "a cancelled handler must end with CancelledError within 2 s",
    "hook.leftover": "a handler that ended must leave no task running",
    "hook.malformed": "a handler must survive data of the wrong shape",
    "hook.answer": "a handler must answer with a HookResult or None",
    "hook.slow_peer": "a handler must answer in time, whatever it waits for",
    "hook.large": "a handler must survive 50 MB of data",
    "hook.cleanup": "the cleanup must remove every handler",
    # orchestrators
    "loop.cancel": "a cancelled turn must end with CancelledError within 2 s",
    "loop.slow_peer": "a turn whose model never answers must end at its caller's deadline",
    "loop.leftover": "a turn that ended must leave no task running",
    "loop.history": "every tool call in the history must have its result, however the turn ended",
    "loop.order": "results must be stored in the order of the calls",
    "loop.tool_raises": "a tool that raises must not end the turn",
    "loop.unknown_tool": "a call of a tool that does not exist must not end the turn",
    "loop.large": "a tool result of 50 MB must not end the turn",
    "loop.deny": "a tool call that a hook denied must not be run",
    "loop.deny_prompt": "a prompt that a hook denied must not reach a model",
    "loop.hook_raises": "hooks that raise must not end the turn",
    "loop.provider_error": "a model call that fails must be raised, or reported in the answer",
    "loop.modify": "a tool must be run with the input that a hook modified",
    "loop.orphan": "an unanswered tool call in the history must not reach a model",
    "loop.rubbish": "a tool that returns no ToolResult must not end the turn",
    "loop.endless": "a model that never stops calling tools must be stopped",
    # contexts
    "context.cancel": "a cancelled call must end with CancelledError within 2 s",
    "context.leftover": "a call that ended must leave no task running",
    "context.budget": "messages for a request must fit the token budget, or be refused loudly",
    "context.pairs": "a tool call and its result must stay together",
    "context.view": "fitting a request must not change what is stored",
    "context.orphan": "an unanswered tool call in the history must not crash a request",
    "context.types": "a message it cannot store must leave the context usable",
    "context.parallel": "messages added at the same time must all be stored",
    "context.shared": "changing what a request got must not change what is stored",
}

# Rules that published modules may break: breaking one is only a warning.
RECOMMENDED = frozenset(
    {
        "provider.large",
        "provider.types",
        "tool.large",
        "tool.no_dict",
        "tool.blocking",
        "hook.slow_peer",
        "hook.large",
        "hook.cleanup",
        "loop.modify",
        "loop.orphan",
        "loop.rubbish",
        "loop.endless",
        "context.shared",
    }
)


class RecommendationWarning(UserWarning):
    """A module breaks a rule that is only recommended."""


def require(rule: str, kept: bool, found: str) -> bool:
    """Return `kept`; if it is False, raise AssertionError, or warn if the rule is recommended."""
    __tracebackhide__ = True
    if not kept and rule in RECOMMENDED:
        message = f"Rule {rule} (recommended): {RULES[rule]}; {found}."
        warnings.warn(message, RecommendationWarning, stacklevel=2)
    elif not kept:
        raise AssertionError(f"Rule {rule}: {RULES[rule]}; {found}.")
    return kept
