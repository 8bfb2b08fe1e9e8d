"""Modules that are played have hooks of their own, which a replay does not mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.live import open_live
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from amplifier_journal.readings.requests import requests_in
from amplifier_journal.replay.recording import Recording
from amplifier_journal.replay.replayer import replay_recording
from end_to_end.recorded_sessions import Answers, Lines, call, plan_of


@pytest.mark.parametrize("answer", ["Allow once", "Deny"])
async def test_a_question_that_a_played_tool_asked_is_asked_again(
    answer: str, tmp_path: Path
) -> None:
    store = SessionStore(tmp_path / "home")
    plan = plan_of(
        [{"tool_calls": [call("bash", command="echo hello")]}, "So it was."],
        tools=({"module": "tool-bash"},),
    )
    async with open_live(
        plan,
        store=store,
        project=tmp_path,
        approval_system=Answers(answer, answer),
        display_system=Lines(),
    ) as live:
        await live.execute("Say hello.")
    kinds = [each.kind for each in store.read(live.session_id).records()]
    assert kinds.count("approval") == 1
    assert kinds.count("tool.call") == (answer != "Deny")

    assert str(await replay(store.read(live.session_id))).endswith("without a difference.")


async def test_what_a_played_tool_told_the_model_is_taken_as_given(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "home")
    poet = {"module": "provider-mock", "config": {"script": ["Roses."]}}
    steps = [
        {"tool_calls": [call("task", prompt="A verse.", agent="poet", background=True)]},
        {"tool_calls": [call("task_status")], "delay_seconds": 0.3},
        {"tool_calls": [call("task_status")], "delay_seconds": 0.3},
        "It has ended.",
    ]
    plan = plan_of(
        steps,
        tools=({"module": "tool-task"},),
        agents={"poet": {"description": "Writes.", "providers": [poet]}},
    )
    async with open_live(plan, store=store, project=tmp_path) as live:
        await live.execute("Have one written.")
    records = list(store.read(live.session_id).records())
    assert "These tasks have ended" in str([each.messages for each in requests_in(records)])

    assert str(await replay_recording(Recording(live.session_id, records))).endswith(
        "without a difference."
    )


async def test_what_a_hook_on_stage_adds_is_still_compared(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "home")
    budget = {"module": "hooks-budget", "config": {"steps": 10, "warn_at": 0.1}}
    plan = plan_of(
        [{"tool_calls": [call("todo")]}, "One.", "Two."],
        tools=({"module": "tool-todo"},),
        hooks=(budget,),
    )
    async with open_live(plan, store=store, project=tmp_path, display_system=Lines()) as live:
        await live.execute("First.")
        await live.execute("Second.")
    recording = Recording(live.session_id, store.read(live.session_id).records())
    assert not (await replay_recording(recording)).differences

    opened = next(each for each in recording.records if each.kind == "session.opened")
    opened.data["plan"]["hooks"][0]["config"]["warn_at"] = 0.9

    shown = str(await replay_recording(recording))
    assert "differs" in shown
    assert "budget" in shown
