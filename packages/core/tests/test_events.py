"""Tests of the event names."""

from __future__ import annotations

from amplifier_core import events

PUBLISHED_TEXT = """
session:start session:end session:fork session:resume prompt:submit prompt:complete plan:start
plan:end provider:request provider:response provider:retry provider:error provider:throttle
provider:tool_sequence_repaired provider:resolve llm:request llm:response content_block:start
content_block:delta content_block:end thinking:delta thinking:final tool:pre tool:post tool:error
context:pre_compact context:post_compact context:compaction context:include orchestrator:complete
execution:start execution:end user:notification artifact:write artifact:read policy:violation
approval:required approval:granted approval:denied cancel:requested cancel:completed
module:on_session_ready_failed module:load_failed
"""
PUBLISHED = PUBLISHED_TEXT.split()


def test_the_published_events_come_first_and_in_their_order() -> None:
    assert events.ALL_EVENTS[:43] == PUBLISHED


def test_our_additions_stand_at_the_end() -> None:
    assert events.ALL_EVENTS[43:] == [
        "module:swapped",
        "module:rolled_back",
        "context:repaired",
        "hook:failed",
    ]


def test_every_constant_is_listed_under_its_own_name() -> None:
    constants = {
        name: value
        for name, value in vars(events).items()
        if name.isupper() and name != "ALL_EVENTS"
    }

    assert list(constants.values()) == events.ALL_EVENTS
    assert all(value == name.lower().replace("_", ":", 1) for name, value in _simple(constants))


def test_every_event_is_a_domain_and_a_verb() -> None:
    assert all(event.count(":") == 1 for event in events.ALL_EVENTS)
    assert len(set(events.ALL_EVENTS)) == len(events.ALL_EVENTS)


def _simple(constants: dict[str, str]) -> list[tuple[str, str]]:
    """Return the constants whose domain is one word; `CONTENT_BLOCK_*` has two."""
    return [(name, value) for name, value in constants.items() if "_" not in value.split(":")[0]]
