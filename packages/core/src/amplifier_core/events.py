"""Names of the events that the kernel and the published modules announce.

Event names are free strings of the form `domain:verb`; the registry refuses none. A constant here
means only that several parties agreed on the spelling. In groups, in the order of `ALL_EVENTS`:

- session, prompt, plan: the life of a session and of one turn in it;
- provider, llm: what is sent to a model, what returns, and what went wrong in between;
- content_block, thinking: an answer, block by block;
- tool, context: tool calls, and what happens to the history;
- orchestrator, execution: the loop as a whole;
- user, artifact, policy, approval: people, files and permissions;
- cancel, module: stopping, and modules that come, fail, change or return;
- hook: a handler that failed.

Streaming providers announce `llm:stream_*` events of their own; those names stay with them.
"""

from __future__ import annotations

SESSION_START = "session:start"
SESSION_END = "session:end"
SESSION_FORK = "session:fork"
SESSION_RESUME = "session:resume"

PROMPT_SUBMIT = "prompt:submit"
PROMPT_COMPLETE = "prompt:complete"

PLAN_START = "plan:start"
PLAN_END = "plan:end"

PROVIDER_REQUEST = "provider:request"
PROVIDER_RESPONSE = "provider:response"
PROVIDER_RETRY = "provider:retry"
PROVIDER_ERROR = "provider:error"
PROVIDER_THROTTLE = "provider:throttle"
PROVIDER_TOOL_SEQUENCE_REPAIRED = "provider:tool_sequence_repaired"
PROVIDER_RESOLVE = "provider:resolve"

LLM_REQUEST = "llm:request"
LLM_RESPONSE = "llm:response"

CONTENT_BLOCK_START = "content_block:start"
CONTENT_BLOCK_DELTA = "content_block:delta"
CONTENT_BLOCK_END = "content_block:end"

THINKING_DELTA = "thinking:delta"
THINKING_FINAL = "thinking:final"

TOOL_PRE = "tool:pre"
TOOL_POST = "tool:post"
TOOL_ERROR = "tool:error"

CONTEXT_PRE_COMPACT = "context:pre_compact"
CONTEXT_POST_COMPACT = "context:post_compact"
CONTEXT_COMPACTION = "context:compaction"
CONTEXT_INCLUDE = "context:include"

ORCHESTRATOR_COMPLETE = "orchestrator:complete"
EXECUTION_START = "execution:start"
EXECUTION_END = "execution:end"

USER_NOTIFICATION = "user:notification"

ARTIFACT_WRITE = "artifact:write"
ARTIFACT_READ = "artifact:read"

POLICY_VIOLATION = "policy:violation"
APPROVAL_REQUIRED = "approval:required"
APPROVAL_GRANTED = "approval:granted"
APPROVAL_DENIED = "approval:denied"

CANCEL_REQUESTED = "cancel:requested"
CANCEL_COMPLETED = "cancel:completed"

MODULE_ON_SESSION_READY_FAILED = "module:on_session_ready_failed"
MODULE_LOAD_FAILED = "module:load_failed"
MODULE_SWAPPED = "module:swapped"
MODULE_ROLLED_BACK = "module:rolled_back"

CONTEXT_REPAIRED = "context:repaired"
HOOK_FAILED = "hook:failed"

# A name defined above is an event; there is no second list to forget.
ALL_EVENTS: list[str] = [value for name, value in tuple(globals().items()) if name.isupper()]
