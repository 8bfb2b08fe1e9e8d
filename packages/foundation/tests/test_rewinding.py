"""Rewinding: conversation, files or both, with a preview before and a way back after."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.errors import SessionStoreError
from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.replay import fork, preview_rewind, replay, rewind, undo_rewind
from amplifier_foundation.store import SessionStore
from end_to_end.recorded_sessions import call, files, plan_of

UNPROTECTED = "off: run commands unprotected"


def writing(text: str) -> dict[str, Any]:
    return {"tool_calls": [call("write_file", file_path="a.txt", content=text)]}


@asynccontextmanager
async def two_turns(
    folder: Path, context: str = "context-simple"
) -> AsyncGenerator[tuple[LiveSession, SessionStore]]:
    """Yield a session whose first turn wrote `one` into a file and whose second wrote `two`."""
    store, project = SessionStore(folder / "home"), folder / "project"
    project.mkdir()
    plan = plan_of(
        [writing("one"), "Wrote one.", writing("two"), "Wrote two.", "Third."],
        tools=(files(folder / "saved"),),
        context=context,
    )
    async with open_live(plan, store=store, project=project) as live:
        await live.execute("Write one.")
        await live.execute("Write two.")
        yield live, store


async def messages(live: LiveSession) -> list[Any]:
    return await live.session.coordinator.get_mounted("context").get_messages()


async def test_a_preview_changes_nothing(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        preview = await preview_rewind(live, store, before_turn=2)

        assert preview.prompts == ["Write two."]
        assert (preview.messages_before, preview.messages_after) == (8, 4)
        (change,) = preview.files
        assert (Path(change.path).name, change.action) == ("a.txt", "restore")
        assert "-two" in change.diff
        assert "+one" in change.diff
        assert len(await messages(live)) == 8
        assert (tmp_path / "project/a.txt").read_text() == "two"


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_both_go_back_and_come_again(context: str, tmp_path: Path) -> None:
    async with two_turns(tmp_path, context) as (live, store):
        before = await messages(live)

        await rewind(live, store, before_turn=2)
        assert (tmp_path / "project/a.txt").read_text() == "one"
        assert await messages(live) == before[:4]

        undone = await undo_rewind(live, store)
        assert (tmp_path / "project/a.txt").read_text() == "two"
        assert await messages(live) == before
        assert undone.messages_after == 8


async def test_all_turns_go_back_newest_first(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        preview = await preview_rewind(live, store, before_turn=1)
        assert [each.checkpoint for each in preview.files] == [2, 1]
        assert [each.action for each in preview.files] == ["restore", "restore"]

        await rewind(live, store, before_turn=1)

        assert not (tmp_path / "project/a.txt").exists()
        assert await messages(live) == []


async def test_only_the_conversation_goes_back(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        await rewind(live, store, before_turn=2, what="conversation")

        assert (tmp_path / "project/a.txt").read_text() == "two"
        assert len(await messages(live)) == 4
        assert await live.execute("Third") == "Third."
        with pytest.raises(SessionStoreError, match="no rewind"):
            await undo_rewind(live, store)


async def test_only_the_files_go_back_except_what_somebody_changed(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        (tmp_path / "project/a.txt").write_text("by hand")

        done = await rewind(live, store, before_turn=2, what="files")

        assert (tmp_path / "project/a.txt").read_text() == "by hand"
        assert [(each.action, each.reason) for each in done.files] == [
            ("keep", "it was changed after the turn")
        ]
        assert len(await messages(live)) == 8


async def test_the_changes_of_a_sub_agent_go_back_with_the_turn_that_started_it(
    tmp_path: Path,
) -> None:
    store, project = SessionStore(tmp_path / "home"), tmp_path / "project"
    project.mkdir()
    script = [writing("by the agent"), {"tool_calls": [call("bash", command="touch b.txt")]}, "Ok."]
    plan = plan_of(
        [
            writing("by the parent"),
            {"tool_calls": [call("task", prompt="Write.", agent="writer")]},
            "Done.",
        ],
        tools=(
            files(tmp_path / "saved"),
            {"module": "tool-task"},
            {"module": "tool-bash", "config": {"sandbox": UNPROTECTED, "ask": False}},
        ),
        agents={
            "writer": {"providers": [{"module": "provider-mock", "config": {"script": script}}]}
        },
    )
    async with open_live(plan, store=store, project=project) as live:
        await live.execute("Have it written.")
        assert (project / "a.txt").read_text() == "by the agent"

        done = await rewind(live, store, before_turn=1)

        assert [(Path(each.path).name, each.action) for each in done.files] == [("a.txt", "remove")]
        assert not (project / "a.txt").exists()
        (left,) = done.beyond
        assert left.startswith("bash touch b.txt (by the sub-agent ")
        await undo_rewind(live, store)
        assert (project / "a.txt").read_text() == "by the agent"


async def test_the_model_reads_that_its_changes_were_taken_back(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        await rewind(live, store, before_turn=2, what="files")

        assert (tmp_path / "project/a.txt").read_text() == "one"
        told = (await messages(live))[-1]
        assert told["role"] == "user"
        assert "a.txt" in told["content"]
        assert await live.execute("Third") == "Third."
    assert (await replay(store.read(live.session_id))).differences == []


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_a_resumed_session_stays_rewound(context: str, tmp_path: Path) -> None:
    async with two_turns(tmp_path, context) as (live, store):
        await rewind(live, store, before_turn=2)
        left = await messages(live)

    plan = plan_of(["Hi."], context=context)
    async with open_live(
        plan, store=store, project=tmp_path / "project", session_id=live.session_id, resume=True
    ) as resumed:
        assert await messages(resumed) == left


async def test_a_turn_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        with pytest.raises(SessionStoreError, match="no turn 9"):
            await preview_rewind(live, store, before_turn=9)


async def test_a_copy_never_takes_its_own_checkpoint_for_one_of_the_original(
    tmp_path: Path,
) -> None:
    """Both count from 1, so the number alone does not tell them apart."""
    async with two_turns(tmp_path) as (live, store):
        pass
    copy = fork(store, live.session_id)
    own = plan_of([writing("three"), "Wrote three."], tools=(files(tmp_path / "other"),))
    async with open_live(
        own, store=store, project=tmp_path / "project", session_id=copy, resume=True
    ) as live_copy:
        await live_copy.execute("Write three.")

        with pytest.raises(SessionStoreError, match=f"Session {live.session_id}"):
            await rewind(live_copy, store, before_turn=2)
        assert (tmp_path / "project/a.txt").read_text() == "three"
        await rewind(live_copy, store, before_turn=3)
        assert (tmp_path / "project/a.txt").read_text() == "two"


async def test_files_whose_checkpoints_are_gone_are_an_error(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        pass
    own = plan_of(["Hi."], tools=(files(tmp_path / "empty"),))
    async with open_live(
        own, store=store, project=tmp_path / "project", session_id=live.session_id, resume=True
    ) as resumed:
        with pytest.raises(SessionStoreError, match="not kept"):
            await preview_rewind(resumed, store, before_turn=2)


async def test_a_file_that_somebody_changed_is_kept_through_all_turns(tmp_path: Path) -> None:
    async with two_turns(tmp_path) as (live, store):
        (tmp_path / "project/a.txt").write_text("by hand")

        preview = await preview_rewind(live, store, before_turn=1)

        assert [each.action for each in preview.files] == ["keep", "keep"]
