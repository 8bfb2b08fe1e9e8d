"""Tests of sessions with nobody to ask: what is not decided by rule is denied, or waits."""

from __future__ import annotations

import json
from typing import Any

import pytest


async def test_with_nobody_to_ask_a_rule_still_decides(build: Any, calling: Any) -> None:
    harness = await build(
        [calling("bash", command="ls"), calling("bash", command="rm")],
        rules=[{"tool": "bash", "arguments": {"command": "ls"}, "action": "allow"}],
    )

    results = await harness.run()

    assert harness.ran() == [{"command": "ls"}]
    assert "there is nobody to ask" in results[1]
    assert any("there is nobody to ask" in line for line in harness.screen.lines)


async def test_a_parked_call_runs_once_after_it_was_allowed(build: Any, calling: Any) -> None:
    exactly = [calling("bash", command="deploy")]
    other = [calling("bash", command="deploy --force")]
    harness = await build(exactly, headless="park")
    results = await harness.run()
    (waiting,) = harness.broker.waiting()
    assert harness.broker.answer(waiting["id"], True, who="ann") is True
    state = json.loads(json.dumps(harness.coordinator.session_state))

    later = await build(other, exactly, exactly, headless="park", state=state)
    await later.run()

    assert harness.ran() == []
    assert waiting["id"] in results[0]
    assert '"deploy"' in waiting["question"]
    assert later.ran() == [{"command": "deploy"}]
    assert later.told("approval:granted")[0]["reason"] == "allowed by ann"
    assert later.told("approval:granted")[0]["request_id"] == waiting["id"]


async def test_a_parked_call_that_is_made_again_waits_under_one_id(
    build: Any, calling: Any
) -> None:
    calls = [calling("bash", command="deploy")]
    harness = await build(calls, calls, headless="park")

    await harness.run()

    assert len(harness.broker.waiting()) == 1
    assert len(harness.told("approval:required")) == 2
    assert any("waits for an answer" in line for line in harness.screen.lines)


async def test_a_parked_call_that_was_denied_stays_denied(build: Any, calling: Any) -> None:
    calls = [calling("bash", command="deploy")]
    harness = await build(calls, headless="park")
    await harness.run()
    harness.broker.answer(harness.broker.waiting()[0]["id"], False, who="ann")

    later = await build(calls, headless="park", state=harness.coordinator.session_state)
    results = await later.run()

    assert later.ran() == []
    assert "denied by ann" in results[0]


@pytest.mark.attack("H3")
async def test_a_parked_call_is_answered_once(build: Any, calling: Any) -> None:
    harness = await build([calling("bash", command="deploy")], headless="park")
    await harness.run()
    (waiting,) = harness.broker.waiting()

    answers = [harness.broker.answer(waiting["id"], said) for said in (False, True, True)]

    assert answers == [True, False, False]
    assert harness.broker.answer("waiting-unknown", True) is False
    assert harness.broker.waiting() == []


async def test_a_parked_call_that_was_asked_about_directly_waits_no_longer(
    build: Any, calling: Any, person: Any
) -> None:
    calls = [calling("bash", command="deploy")]
    harness = await build(calls, headless="park")
    await harness.run()
    state = harness.coordinator.session_state

    later = await build(calls, headless="park", state=state, person=person("Allow"))
    await later.run()

    assert len(later.ran()) == 1
    assert later.broker.waiting() == []
