"""Replaying: what a replay notices, what it survives, and how it says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.live import open_live
from amplifier_foundation.replay import assert_replays, diff, fork, replay, to_test
from amplifier_foundation.store import SessionStore
from amplifier_journal.errors import JournalError
from amplifier_journal.plain import build_error
from amplifier_journal.readings.items import Question, items_of
from amplifier_journal.replay.cassette import read_cassette
from amplifier_journal.replay.playback_queue import RecordedOrder
from amplifier_journal.replay.recording import Recording
from amplifier_journal.replay.replayer import replay_recording
from amplifier_kit.questions import Asking, Reply
from end_to_end.recorded_sessions import Answers, approvals, call, files, plan_of, record

LIST = {"module": "tool-todo"}


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home")


def recording_of(store: SessionStore, session_id: str) -> Recording:
    return Recording(session_id, store.read(session_id).records())


def first(recording: Recording, kind: str) -> Any:
    return next(each for each in recording.records if each.kind == kind)


async def test_a_changed_tool_result_is_told_once_with_the_part_that_changed(
    store: SessionStore, tmp_path: Path
) -> None:
    recording = recording_of(store, await record("parallel_tools", store, tmp_path))
    changed = first(recording, "tool.result").data
    changed["result"]["output"] = "Something else."
    calls = {
        e.data["call"]: e.data["tool_call_id"] for e in recording.records if e.kind == "tool.call"
    }

    result = await replay_recording(recording)

    told = [each for each in result.differences if "Something else" in each.diff]
    assert [each.about for each in told] == ["the tool message differs"]
    assert told[0].turn == 1
    (message,) = [
        e.seq
        for e in recording.records
        if e.kind == "message" and e.data["message"].get("tool_call_id") == calls[changed["call"]]
    ]
    assert told[0].seq == message


async def test_another_loop_setting_is_noticed(store: SessionStore, tmp_path: Path) -> None:
    recording = recording_of(store, await record("parallel_tools", store, tmp_path))
    loop = {"module": "loop-basic", "config": {"max_iterations": 1}}
    first(recording, "session.opened").data["plan"]["session"]["orchestrator"] = loop

    shown = str(await replay_recording(recording))

    assert "did not happen" in shown
    assert '"stop_reason": "limit"' in shown


async def test_a_decision_that_is_not_in_the_record_is_a_no_and_told(
    store: SessionStore, tmp_path: Path
) -> None:
    recording = recording_of(store, await record("approval", store, tmp_path))
    recording.records = [each for each in recording.records if each.kind != "approval"]

    assert "an approval: " in str(await replay_recording(recording))


async def test_a_session_that_was_resumed_replays_act_by_act(
    store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of([{"tool_calls": [call("todo")]}, "One."], tools=(LIST,))
    async with open_live(plan, store=store, project=tmp_path) as live:
        await live.execute("First.")
    async with open_live(
        plan_of(["Two.", "Three."]),
        store=store,
        project=tmp_path,
        session_id=live.session_id,
        resume=True,
    ) as resumed:
        await resumed.execute("Second.")
        await resumed.execute("Third.")

    result = await replay(store.read(live.session_id))

    assert str(result) == "3 turn(s) replayed without a difference."


@pytest.mark.parametrize("kind", ["prompt", "model.call", "model.result", "tool.call", "message"])
async def test_a_session_that_was_cut_short_replays_up_to_there(
    kind: str, store: SessionStore, tmp_path: Path
) -> None:
    recording = recording_of(store, await record("parallel_tools", store, tmp_path))
    at = max(n for n, each in enumerate(recording.records) if each.kind == kind)
    recording.records = recording.records[: at + 1]

    assert str(await replay_recording(recording)) == "1 turn(s) replayed without a difference."


async def test_a_session_with_a_rewind_replays(store: SessionStore, tmp_path: Path) -> None:
    async with open_live(plan_of(["A.", "B.", "C."]), store=store, project=tmp_path) as live:
        await live.execute("One")
        await live.execute("Two")
        context = live.session.coordinator.get_mounted("context")
        await context.set_messages((await context.get_messages())[:2])
        await live.execute("Three")

    assert str(await replay(store.read(live.session_id))).startswith("3 turn(s)")
    assert not (await replay(store.read(live.session_id))).differences


async def test_a_fork_has_what_was_recorded_up_to_there(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = await record("streaming", store, tmp_path)
    second = [e.seq for e in store.read(session_id).records() if e.kind == "prompt"][1]

    forked = fork(store, session_id, at=second - 1)

    records = list(store.read(forked).records())
    assert records[-1].data == {"from": session_id, "at": second - 1}
    async with open_live(
        plan_of(["Another way."]), store=store, project=tmp_path, session_id=forked, resume=True
    ) as live:
        assert await live.execute("Another question.") == "Another way."
    changes = diff(store.read(session_id), store.read(forked))
    assert {"plan", "message", "answer"} <= {each.kind for each in changes}
    assert diff(store.read(session_id), store.read(session_id)) == []


async def test_a_cassette_is_the_same_for_the_same_session_and_replays(
    store: SessionStore, tmp_path: Path
) -> None:
    reader = store.read(await record("denial", store, tmp_path))
    one, two = to_test(reader, "a denial!"), to_test(reader, "a denial!")
    path = tmp_path / "denial.jsonl.gz"
    path.write_bytes(one.cassette)

    assert one == two
    assert one.name == "a_denial"
    assert "def test_a_denial_replays" in one.source
    await asyncio.to_thread(assert_replays, path)


def test_a_file_that_is_no_cassette_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(b"nothing of the kind")

    with pytest.raises(JournalError, match=r"x\.jsonl\.gz` is not a cassette"):
        read_cassette(path)


async def test_results_come_in_the_recorded_order() -> None:
    order, ended = RecordedOrder(), list[int]()
    for seq in (1, 2, 3, 4):
        order.expect(seq)

    async def play(start: int, end: int) -> None:
        order.take(start)
        await order.reach(end)
        ended.append(end)
        order.take(end)

    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        tasks.create_task(play(1, 4))
        tasks.create_task(play(2, 3))

    assert ended == [3, 4]


async def test_the_order_does_not_wait_for_what_never_comes() -> None:
    order = RecordedOrder(patience=0.01)
    order.expect(1)
    order.expect(2)

    async with asyncio.timeout(120):
        await order.reach(2)

    assert order.is_out_of_step


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "RateLimitError", "message": "slow", "fields": {"retry_after": 2.0}}, "slow"),
        ({"type": "ValueError", "message": "bad", "fields": {}}, "bad"),
        ({"type": "VendorsOwnError", "message": "odd", "fields": {}}, "odd"),
    ],
)
def test_an_error_is_raised_again_under_its_name(error: dict[str, Any], expected: str) -> None:
    built = build_error(error)

    assert type(built).__name__ == error["type"]
    assert str(built) == expected


async def test_a_call_that_its_tool_saw_would_fail_is_replayed_without_a_question(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("one", encoding="utf-8")
    edit = call("edit_file", file_path="notes.txt", old_string="one", new_string="two")
    plan = plan_of(
        [{"tool_calls": [edit]}, {"tool_calls": [edit]}, "Done."],
        tools=(files(tmp_path / "saved"),),
        hooks=(approvals(tmp_path),),
    )
    # One answer: the second edit finds its text no more, and nobody is asked about it.
    async with open_live(
        plan, store=store, project=project, approval_system=Answers("Allow once")
    ) as live:
        assert await live.execute("Edit twice.") == "Done."
    (project / "notes.txt").write_text("one again", encoding="utf-8")

    result = await replay(store.read(live.session_id))

    looks = [each.data for each in store.read(live.session_id).records()
             if each.kind == "tool.preflight"]  # fmt: skip
    assert [each["problem"] is None for each in looks] == [True, False]
    assert str(result) == "1 turn(s) replayed without a difference."


async def test_what_a_tool_told_a_guard_about_its_calls_is_replayed(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    calls = [
        call("bash", command="ls"),
        call("bash", command="echo > .git/x", write=[".git"], reason="to try it"),
    ]
    plan = plan_of(
        [*({"tool_calls": [each]} for each in calls), "Done.", {"tool_calls": calls}, "Done."],
        tools=({"module": "tool-bash", "config": {"ask": False}},),
        hooks=(approvals(tmp_path),),
    )
    async with open_live(
        plan, store=store, project=project, approval_system=Answers("Allow once")
    ) as live:
        assert await live.execute("Try.") == "Done."
        await live.session.coordinator.get_capability("approval.grants").set_mode("plan")
        assert await live.execute("Again.") == "Done."

    result = await replay(store.read(live.session_id))

    told = [
        each.data["question"]
        for each in store.read(live.session_id).records()
        if each.kind == "tool.answer"
    ]
    assert told[:2] == ["only_reads", "widenings"]
    assert str(result) == "2 turn(s) replayed without a difference."


async def test_a_grant_for_a_scope_is_replayed_without_the_tool(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    calls = [call("bash", command=f"touch {name}") for name in ("a", "b", "c")]
    plan = plan_of(
        [*({"tool_calls": [each]} for each in calls), "Done."],
        tools=({"module": "tool-bash", "config": {"ask": False}},),
        hooks=(approvals(tmp_path),),
    )
    lasting = "Allow `touch` with any arguments, this session"
    async with open_live(
        plan, store=store, project=project, approval_system=Answers(lasting)
    ) as live:
        assert await live.execute("Try.") == "Done."

    result = await replay(store.read(live.session_id))

    records = list(store.read(live.session_id).records())
    answers = [each.data for each in records if each.kind == "tool.answer"]
    told = [each["answer"] for each in answers if each["question"] == "call_scopes"]
    scope = {"key": "command touch", "words": "`touch` with any arguments"}
    assert told == [[scope]] * 3
    assert [each.data["decision"] for each in records if each.kind == "approval"] == [lasting]
    assert (project / "c").exists()
    assert str(result) == "1 turn(s) replayed without a difference."


class Replies:
    """An approval system whose user says more than an option."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Asking] = []

    async def request_reply(self, asking: Asking) -> Reply:
        self.asked.append(asking)
        return self.replies.pop(0)


async def test_a_reason_and_a_changed_command_are_recorded_and_replayed(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    unprotected = {"ask": False, "sandbox": "off: run commands unprotected"}
    calls = [call("bash", command="touch one"), call("bash", command="touch two")]
    plan = plan_of(
        [*({"tool_calls": [each]} for each in calls), "Done."],
        tools=({"module": "tool-bash", "config": unprotected},),
        hooks=(approvals(tmp_path),),
    )
    ann = Replies(Reply("Allow once", edited="touch three"), Reply("Deny", reason="not two"))
    async with open_live(plan, store=store, project=project, approval_system=ann) as live:
        assert await live.execute("Make files.") == "Done."

    assert [each.name for each in project.iterdir()] == ["three"]
    records = list(store.read(live.session_id).records())
    decided = [each.data for each in records if each.kind == "approval"]
    assert [each.get("edited") for each in decided] == ["touch three", None]
    assert [each.get("reason") for each in decided] == [None, "not two"]
    ran = [each.data["input"] for each in records if each.kind == "tool.call"]
    assert ran == [{"command": "touch three"}]
    decisions = [each.decision for each in items_of(records) if isinstance(each, Question)]
    assert decisions == ["Allow once, changed to: touch three", "Deny: not two"]
    assert str(await replay(store.read(live.session_id))) == (
        "1 turn(s) replayed without a difference."
    )


async def test_a_question_of_an_agent_names_it_and_replays(
    store: SessionStore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write = {"tool_calls": [call("write_file", file_path="verse", content="Roses are red.")]}
    poet = {"module": "provider-mock", "config": {"script": [write, "Written."]}}
    plan = plan_of(
        [{"tool_calls": [call("task", prompt="A verse.", agent="poet")]}, "The poet wrote."],
        tools=({"module": "tool-task"}, files(tmp_path / "saved")),
        hooks=(approvals(tmp_path, rules=[{"tool": "task", "action": "allow"}]),),
        agents={"poet": {"description": "Writes verses.", "providers": [poet]}},
    )
    ann = Replies(Reply("Allow once"))
    async with open_live(plan, store=store, project=project, approval_system=ann) as live:
        assert await live.execute("Have a verse written.") == "The poet wrote."

    assert ann.asked[0].prompt.split("\n")[:2] == [
        "Allow a new file verse? Asked by the agent poet.",
        "  1 + Roses are red.",
    ]
    records = store.read(live.session_id).records()
    child = next(each.data["session_id"] for each in records if each.kind == "child")
    for session_id in (live.session_id, child):
        assert str(await replay(store.read(session_id))) == (
            "1 turn(s) replayed without a difference."
        )
