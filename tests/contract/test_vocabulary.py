"""Contract of the words everybody shares: events, capabilities, correlation."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from amplifier_core import HookRegistry, capabilities, correlation, events
from contract.doubles import Listener
from contract.requirements import requirement

EVENTS = """
SESSION_START session:start
SESSION_END session:end
SESSION_FORK session:fork
SESSION_RESUME session:resume
PROMPT_SUBMIT prompt:submit
PROMPT_COMPLETE prompt:complete
PLAN_START plan:start
PLAN_END plan:end
PROVIDER_REQUEST provider:request
PROVIDER_RESPONSE provider:response
PROVIDER_RETRY provider:retry
PROVIDER_ERROR provider:error
PROVIDER_THROTTLE provider:throttle
PROVIDER_TOOL_SEQUENCE_REPAIRED provider:tool_sequence_repaired
PROVIDER_RESOLVE provider:resolve
LLM_REQUEST llm:request
LLM_RESPONSE llm:response
CONTENT_BLOCK_START content_block:start
CONTENT_BLOCK_DELTA content_block:delta
CONTENT_BLOCK_END content_block:end
THINKING_DELTA thinking:delta
THINKING_FINAL thinking:final
TOOL_PRE tool:pre
TOOL_POST tool:post
TOOL_ERROR tool:error
CONTEXT_PRE_COMPACT context:pre_compact
CONTEXT_POST_COMPACT context:post_compact
CONTEXT_COMPACTION context:compaction
CONTEXT_INCLUDE context:include
ORCHESTRATOR_COMPLETE orchestrator:complete
EXECUTION_START execution:start
EXECUTION_END execution:end
USER_NOTIFICATION user:notification
ARTIFACT_WRITE artifact:write
ARTIFACT_READ artifact:read
POLICY_VIOLATION policy:violation
APPROVAL_REQUIRED approval:required
APPROVAL_GRANTED approval:granted
APPROVAL_DENIED approval:denied
CANCEL_REQUESTED cancel:requested
CANCEL_COMPLETED cancel:completed
MODULE_ON_SESSION_READY_FAILED module:on_session_ready_failed
MODULE_LOAD_FAILED module:load_failed
"""
PUBLISHED = [(line.split()[0], line.split()[1]) for line in EVENTS.split("\n") if line]

CAPABILITIES = [
    "TOOLS",
    "STREAMING",
    "THINKING",
    "VISION",
    "JSON_MODE",
    "FAST",
    "CODE_EXECUTION",
    "WEB_SEARCH",
    "DEEP_RESEARCH",
    "LOCAL",
    "AUDIO",
    "IMAGE_GENERATION",
    "COMPUTER_USE",
    "EMBEDDINGS",
    "LONG_CONTEXT",
    "BATCH",
]


@requirement("EVENT-1", "EVENT-6")
@pytest.mark.parametrize(("name", "value"), PUBLISHED)
def test_an_event_constant_has_its_published_value(name: str, value: str) -> None:
    assert getattr(events, name) == value


@requirement("EVENT-2", "EVENT-3", "EVENT-4")
def test_all_events_starts_with_the_published_ones_and_leaves_none_out() -> None:
    constants = {
        value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)
    }

    assert isinstance(events.ALL_EVENTS, list)
    assert events.ALL_EVENTS[:43] == [value for _, value in PUBLISHED]
    assert len(set(events.ALL_EVENTS)) == len(events.ALL_EVENTS)
    assert constants == set(events.ALL_EVENTS)
    assert all(name.count(":") == 1 for name in events.ALL_EVENTS)
    assert {"module:swapped", "module:rolled_back"} <= constants


@requirement("EVENT-5")
@pytest.mark.parametrize("name", ["llm:stream_block_delta", "my-tool:started", "nocolon", ""])
async def test_an_event_may_have_any_name(name: str) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register(name, heard)

    await registry.emit(name, {"n": 1})

    assert heard.events == [name]


@requirement("EVENT-8")
def test_the_well_known_capabilities_are_a_list_of_sixteen_words() -> None:
    assert [getattr(capabilities, name) for name in CAPABILITIES] == [
        name.lower() for name in CAPABILITIES
    ]
    assert [name.lower() for name in CAPABILITIES] == capabilities.ALL_WELL_KNOWN_CAPABILITIES
    assert isinstance(capabilities.ALL_WELL_KNOWN_CAPABILITIES, list)


@requirement("EVENT-9")
async def test_the_correlation_helpers_keep_one_id_per_task() -> None:
    assert correlation.REQUEST_ID_FIELD == "request_id"
    assert set(correlation.REQUEST_EVENTS) == {"llm:request"}
    assert set(correlation.TERMINAL_EVENTS) == {"llm:response", "provider:error"}
    assert set(correlation.INTERIM_EVENTS) == {"provider:retry", "provider:throttle"}
    assert UUID(correlation.new_request_id()).version == 4

    async def call() -> None:
        opened = correlation.resolve_request_id("llm:request")
        assert opened is not None
        assert correlation.current_request_id() == opened
        assert correlation.resolve_request_id("provider:retry") == opened
        correlation.reset_request_id()
        assert correlation.current_request_id() is None
        assert correlation.resolve_request_id("llm:request", "mine") == "mine"
        assert correlation.resolve_request_id("llm:response") == "mine"
        assert correlation.current_request_id() is None

    await asyncio.create_task(call())
    assert correlation.current_request_id() is None
