"""Names of the events that the kernel and the published modules announce.

Event names are free strings of the form `domain:verb`; the registry refuses none. A constant here
means only that several parties agreed on the spelling. In groups, in the order of `ALL_EVENTS`:

- session, prompt, plan: the life of a session and of one turn in it;
- provider, llm: requests to a model, answers, and failures;
- content_block, thinking: an answer, block by block;
- tool, context: tool calls, and changes of the history;
- orchestrator, execution: the loop as a whole;
- user, artifact, policy, approval: users, files and permissions;
- cancel, module: stopping, and modules that fail, are swapped or rolled back;
- hook: a handler that failed.

Streaming providers emit `llm:stream_*` events, whose names are defined there. The data of each
event is described in `event_payloads`.
"""

from __future__ import annotations

from typing import Final

SESSION_START: Final = "session:start"
SESSION_END: Final = "session:end"
SESSION_FORK: Final = "session:fork"
SESSION_RESUME: Final = "session:resume"

PROMPT_SUBMIT: Final = "prompt:submit"
PROMPT_COMPLETE: Final = "prompt:complete"

PLAN_START: Final = "plan:start"
PLAN_END: Final = "plan:end"

PROVIDER_REQUEST: Final = "provider:request"
PROVIDER_RESPONSE: Final = "provider:response"
PROVIDER_RETRY: Final = "provider:retry"
PROVIDER_ERROR: Final = "provider:error"
PROVIDER_THROTTLE: Final = "provider:throttle"
PROVIDER_TOOL_SEQUENCE_REPAIRED: Final = "provider:tool_sequence_repaired"
PROVIDER_RESOLVE: Final = "provider:resolve"

LLM_REQUEST: Final = "llm:request"
LLM_RESPONSE: Final = "llm:response"

CONTENT_BLOCK_START: Final = "content_block:start"
CONTENT_BLOCK_DELTA: Final = "content_block:delta"
CONTENT_BLOCK_END: Final = "content_block:end"

THINKING_DELTA: Final = "thinking:delta"
THINKING_FINAL: Final = "thinking:final"

TOOL_PRE: Final = "tool:pre"
TOOL_POST: Final = "tool:post"
TOOL_ERROR: Final = "tool:error"

CONTEXT_PRE_COMPACT: Final = "context:pre_compact"
CONTEXT_POST_COMPACT: Final = "context:post_compact"
CONTEXT_COMPACTION: Final = "context:compaction"
CONTEXT_INCLUDE: Final = "context:include"

ORCHESTRATOR_COMPLETE: Final = "orchestrator:complete"
EXECUTION_START: Final = "execution:start"
EXECUTION_END: Final = "execution:end"

USER_NOTIFICATION: Final = "user:notification"

ARTIFACT_WRITE: Final = "artifact:write"
ARTIFACT_READ: Final = "artifact:read"

POLICY_VIOLATION: Final = "policy:violation"
APPROVAL_REQUIRED: Final = "approval:required"
APPROVAL_GRANTED: Final = "approval:granted"
APPROVAL_DENIED: Final = "approval:denied"

CANCEL_REQUESTED: Final = "cancel:requested"
CANCEL_COMPLETED: Final = "cancel:completed"

MODULE_ON_SESSION_READY_FAILED: Final = "module:on_session_ready_failed"
MODULE_LOAD_FAILED: Final = "module:load_failed"
MODULE_SWAPPED: Final = "module:swapped"
MODULE_ROLLED_BACK: Final = "module:rolled_back"

CONTEXT_REPAIRED: Final = "context:repaired"
HOOK_FAILED: Final = "hook:failed"

# Every name above is an event, so there is no second list to keep in step.
ALL_EVENTS: list[str] = [value for name, value in tuple(globals().items()) if name.isupper()]
