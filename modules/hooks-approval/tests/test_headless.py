"""Tests of sessions with nobody to ask: what is not decided by rule is denied, or waits."""

from __future__ import annotations

import json
from typing import Any

import pytest


async def test_with_nobody_to_ask_a_rule_still_decides(build: Any, calling: Any) -> None:
    house = await build(
        [calling("bash", command="ls"), calling("bash", command="rm")],
        rules=[{"tool": "bash", "arguments": {"command": "ls"}, "action": "allow"}],
    )

    results = await house.run()

    assert house.ran() == [{"command": "ls"}]
    assert "there is nobody to ask" in results[1]
    assert any("there is nobody to ask" in line for line in house.screen.lines)


async def test_a_parked_call_runs_once_after_it_was_allowed(build: Any, calling: Any) -> None:
    exactly = [calling("bash", command="deploy")]
    other = [calling("bash", command="deploy --force")]
    house = await build(exactly, headless="park")
    results = await house.run()
    (waiting,) = house.desk.waiting()
    assert house.desk.answer(waiting["id"], True, who="ann") is True
    state = json.loads(json.dumps(house.coordinator.session_state))

    later = await build(other, exactly, exactly, headless="park", state=state)
    await later.run()

    assert house.ran() == []
    assert waiting["id"] in results[0]
    assert '"deploy"' in waiting["question"]
    assert later.ran() == [{"command": "deploy"}]
    assert later.told("approval:granted")[0]["reason"] == "ann allowed exactly this call"
    assert later.told("approval:granted")[0]["request_id"] == waiting["id"]


async def test_a_parked_call_that_is_made_again_waits_under_one_id(
    build: Any, calling: Any
) -> None:
    calls = [calling("bash", command="deploy")]
    house = await build(calls, calls, headless="park")

    await house.run()

    assert len(house.desk.waiting()) == 1
    assert len(house.told("approval:required")) == 2
    assert any("waits for an answer" in line for line in house.screen.lines)


async def test_a_parked_call_that_was_denied_stays_denied(build: Any, calling: Any) -> None:
    calls = [calling("bash", command="deploy")]
    house = await build(calls, headless="park")
    await house.run()
    house.desk.answer(house.desk.waiting()[0]["id"], False, who="ann")

    later = await build(calls, headless="park", state=house.coordinator.session_state)
    results = await later.run()

    assert later.ran() == []
    assert "ann denied exactly this call" in results[0]


@pytest.mark.attack("H3")
async def test_a_parked_call_is_answered_once(build: Any, calling: Any) -> None:
    house = await build([calling("bash", command="deploy")], headless="park")
    await house.run()
    (waiting,) = house.desk.waiting()

    answers = [house.desk.answer(waiting["id"], said) for said in (False, True, True)]

    assert answers == [True, False, False]
    assert house.desk.answer("waiting-unknown", True) is False
    assert house.desk.waiting() == []


async def test_a_parked_call_that_was_asked_about_directly_waits_no_longer(
    build: Any, calling: Any, person: Any
) -> None:
    calls = [calling("bash", command="deploy")]
    house = await build(calls, headless="park")
    await house.run()
    state = house.coordinator.session_state

    later = await build(calls, headless="park", state=state, person=person("Allow"))
    await later.run()

    assert len(later.ran()) == 1
    assert later.desk.waiting() == []
