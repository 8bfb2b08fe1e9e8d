"""Tests of sessions below sessions: a child can narrow what it may do, never widen it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


async def fork(harness: Any, session_id: str = "child", **hooks: Any) -> Any:
    """Return the harness of a child session; by default it has the hooks of its parent."""
    session = harness.session.fork(hooks or None, session_id=session_id)
    return await type(harness)(session, harness.screen).furnish()


def approval(*rules: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"module": "hooks-approval", "config": {"rules": list(rules), "batch_seconds": 0}}]


async def test_a_child_asks_once_though_two_guards_watch_it(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    harness = await build([calling("bash", command="ls")], person=ann)

    child = await fork(harness)
    await child.run()

    assert child.coordinator.hooks.list_guards()["tool:pre"] == ["hooks-approval"] * 4
    assert len(ann.questions) == 1
    assert len(child.ran()) == 1
    assert child.broker is harness.broker


async def test_a_child_without_the_module_is_guarded_too(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Deny")
    harness = await build([calling("bash", command="ls")], person=ann)

    child = await fork(harness, hooks=[])
    await child.run()

    assert len(ann.questions) == 1
    assert child.ran() == []


@pytest.mark.parametrize("action", ["allow", "ask", "deny"])
async def test_a_child_cannot_allow_what_its_parent_denies(
    build: Any, person: Any, calling: Any, action: str
) -> None:
    harness = await build(
        [calling("bash", command="ls")],
        person=person("Allow"),
        rules=[{"tool": "bash", "action": "deny"}],
    )

    child = await fork(harness, hooks=approval({"tool": "*", "action": action}))
    await child.run()

    assert child.ran() == []


async def test_a_child_can_deny_and_ask_what_its_parent_allows(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Deny")
    harness = await build(
        [calling("bash", command="ls"), calling("write", path="a")],
        person=ann,
        rules=[{"tool": "*", "action": "allow"}],
    )
    narrower = approval({"tool": "bash", "action": "deny"}, {"tool": "write", "action": "ask"})

    child = await fork(harness, hooks=narrower)
    await child.run()
    await harness.run()

    assert child.ran("bash") == child.ran("write") == []
    assert len(harness.ran("bash")) == len(harness.ran("write")) == 1
    assert len(ann.questions) == 1


async def test_an_earlier_answer_does_not_count_for_a_child_that_asks_by_itself(
    build: Any, person: Any
) -> None:
    ann = person("Allow", "Deny")
    harness = await build(person=ann, rules=[{"tool": "*", "action": "allow"}])
    child = await fork(harness, hooks=approval({"tool": "*", "action": "ask"}))
    facts = {"tool_name": "bash", "tool_call_id": "c1", "tool_input": {"command": "pay"}}

    async with asyncio.timeout(120):
        answers = [await child.coordinator.hooks.emit("tool:pre", facts) for _ in range(2)]

    assert [each.action for each in answers] == ["continue", "deny"]
    assert len(ann.questions) == 2


async def test_what_a_child_is_granted_goes_for_the_whole_tree(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow always", "Deny")
    harness = await build([calling("bash", command="ls")], person=ann)

    child = await fork(harness)
    await child.run()
    await harness.run()

    assert len(ann.questions) == 1
    assert len(harness.ran()) == 1


async def test_a_child_cannot_remove_the_guard_of_its_parent(build: Any, calling: Any) -> None:
    harness = await build([calling("bash", command="ls")])
    child = await fork(harness)

    child.coordinator.hooks.unregister("hooks-approval")
    await child.run()

    assert child.ran() == []


async def test_a_tool_that_only_the_child_has_may_do_anything_unless_it_is_known(
    build: Any, calling: Any
) -> None:
    harness = await build([calling("read", path="a")])

    known, unknown = await fork(harness, "known"), await fork(harness, "unknown", hooks=[])
    await known.run()
    await unknown.run()

    assert len(known.ran("read")) == 1
    assert unknown.ran("read") == []


async def test_equal_ids_in_two_children_are_not_mixed_up(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    harness = await build([calling("bash", "c1", command="ls")], person=ann)
    children = [await fork(harness, f"child-{number}") for number in range(3)]

    await asyncio.gather(*(child.run() for child in children))

    assert len(ann.questions) == 3
    assert [len(child.ran()) for child in children] == [1, 1, 1]
