"""The conversation is in the file, and comes back from it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from collections.abc import Awaitable, Callable
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import ToolCall
from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_contexts.context_persistent import PersistentContextManager, mount
from amplifier_module_contexts.context_persistent.errors import ContextInUseError
from amplifier_module_contexts.context_persistent.location import log_path
from contract.requirements import requirement

Open = Callable[..., Awaitable[PersistentContextManager]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_a_conversation_comes_back_when_it_is_opened_again(open_context: Open) -> None:
    messages = [{"role": "system", "content": "rules"}, user("h\u00e9llo\n\ud800"), assistant("hi")]
    first = await open_context()
    for message in messages:
        await first.add_message(message)
    await first.close()

    second = await open_context()

    assert await second.get_messages() == messages
    assert await second.get_messages_for_request() == messages


async def test_a_message_is_in_the_file_when_it_is_acknowledged(
    open_context: Open, path: Path
) -> None:
    context = await open_context()

    await context.add_message(assistant("hi"))

    header, opened, record = records(path)
    assert header == {"schema": 1}
    assert opened["opened"]["pid"] == os.getpid()
    assert record == {"fence": 1, "message": assistant("hi")}


@requirement("CTX-17")
async def test_set_messages_is_ignored_after_the_file_was_loaded(
    open_context: Open, caplog: pytest.LogCaptureFixture
) -> None:
    first = await open_context()
    await first.add_message({"role": "system", "content": "rules"})
    await first.add_message(user("hello"))
    await first.close()
    second = await open_context()

    with caplog.at_level("DEBUG", logger="amplifier_module_contexts.context_persistent"):
        await second.set_messages([user("filtered")])

    assert len(await second.get_messages()) == 2
    assert "set_messages ignored" in caplog.text


async def test_set_messages_of_a_fresh_session_is_written(open_context: Open) -> None:
    first = await open_context()
    await first.add_message(user("replaced"))
    await first.set_messages([user("one"), assistant("two")])
    await first.add_message(user("three"))
    await first.close()

    second = await open_context()

    assert await second.get_messages() == [user("one"), assistant("two"), user("three")]


async def test_clear_is_a_record_and_what_came_before_stays_in_the_file(
    open_context: Open, path: Path
) -> None:
    first = await open_context()
    await first.add_message(user("forgotten"))
    await first.clear()
    await first.close()

    second = await open_context()

    assert await second.get_messages() == []
    assert user("forgotten") in [record.get("message") for record in records(path)]
    await second.set_messages([user("accepted")])
    assert await second.get_messages() == [user("accepted")]


async def test_the_file_is_synced_at_turn_edges_and_not_in_between(
    open_context: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await open_context()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    await context.add_message(user("prompt"))
    after_prompt = len(synced)
    for _ in range(5):
        await context.add_message(assistant("step"))
    before_end = len(synced)
    for event in ("execution:end", "prompt:complete", "orchestrator:complete"):
        await context.sync_at_turn_end(event, {})

    assert (after_prompt, before_end, len(synced)) == (1, 1, 2)


async def test_a_prompt_waits_for_a_sync_that_another_one_has_begun(
    open_context: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await open_context()
    release, finished = threading.Event(), list[bool]()

    def slow(fd: int) -> None:
        finished.append(release.wait(5))

    monkeypatch.setattr(os, "fsync", slow)
    adding = [asyncio.create_task(context.add_message(user(text))) for text in ("one", "two")]
    done, _ = await asyncio.wait(adding, timeout=0.1)
    assert not done
    release.set()
    async with asyncio.timeout(120):
        await asyncio.gather(*adding)

    assert finished
    assert all(finished)


async def test_with_always_every_message_is_synced(
    open_context: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await open_context(fsync="always")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    for _ in range(5):
        await context.add_message(assistant("step"))

    assert len(synced) == 5


async def test_a_turn_that_does_not_reach_the_disk_is_announced(
    open_context: Open, monkeypatch: pytest.MonkeyPatch, recorder: EventRecorder, screen: Any
) -> None:
    context = await open_context()

    def fail(fd: int) -> None:
        raise OSError("disk on fire")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        await context.add_message(assistant("step"))
        await context.sync_at_turn_end("execution:end", {})

    assert recorder.get_events("context:sync_failed")[0][1]["error"] == "OSError: disk on fire"
    assert screen.lines[0].startswith("error: The conversation is not safely on the disk")


async def test_what_json_cannot_hold_is_refused_and_not_stored(open_context: Open) -> None:
    context = await open_context()

    with pytest.raises(ValueError, match="no JSON for object"):
        await context.add_message({"role": "user", "content": object()})
    await context.add_message(user("still here"))

    assert await context.get_messages() == [user("still here")]
    assert await context.get_messages_for_request() == [user("still here")]


async def test_what_published_loops_store_is_written_as_plain_data(
    open_context: Open, path: Path
) -> None:
    context = await open_context()
    call = ToolCall(id="c", name="f", arguments={"a": 1})

    await context.add_message(
        {"role": "assistant", "tool_calls": [call], "metadata": {"cost": Decimal("0.1")}}
    )

    written = records(path)[-1]["message"]
    assert written["tool_calls"] == [{"id": "c", "name": "f", "arguments": {"a": 1}}]
    assert written["metadata"] == {"cost": "0.1"}


async def test_messages_added_at_the_same_time_are_in_the_file_in_their_order(
    open_context: Open,
) -> None:
    first = await open_context()
    await asyncio.gather(*(first.add_message(user(f"{number}")) for number in range(50)))
    stored = await first.get_messages()
    await first.close()

    second = await open_context()

    assert await second.get_messages() == stored
    assert len(stored) == 50


async def test_what_was_put_into_the_list_directly_is_written_at_the_turn_s_end(
    open_context: Open,
) -> None:
    first = await open_context()
    await first.add_message(user("one"))
    first.messages.append(assistant("two"))
    await first.add_message(user("three"))
    first.messages.append(assistant("four"))
    await first.sync_at_turn_end("execution:end", {})
    await first.close()
    second = await open_context()
    assert await second.get_messages() == [
        user("one"),
        assistant("two"),
        user("three"),
        assistant("four"),
    ]

    second.messages = [user("another list")]
    await second.close()
    third = await open_context()

    assert await third.get_messages() == [user("another list")]


async def test_a_mount_that_is_cancelled_lets_the_file_go(open_context: Open, path: Path) -> None:
    mounting = asyncio.create_task(mount(MockCoordinator(), {"path": str(path)}))
    await asyncio.sleep(0)
    mounting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mounting

    async with asyncio.timeout(120):
        while True:
            try:
                context = await open_context()
                break
            except ContextInUseError:
                await asyncio.sleep(0.01)

    assert await context.get_messages() == []


async def test_a_large_result_can_be_read_after_it_was_resumed(
    open_context: Open, path: Path, recorder: EventRecorder
) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 5_001)) + "\ud800"
    first = await open_context()
    for _ in range(2):
        await first.add_message({"role": "tool", "tool_call_id": "c", "content": text})
    await first.close()

    second = await open_context()
    [tool] = second.tools
    handle = recorder.get_events("context:spilled")[0][1]["handle"]
    answer = await tool.execute({"handle": handle, "range": "4000-4000"})

    assert answer.output.endswith("line 4000\n")
    [blob] = path.with_name(f"{path.name}.blobs").iterdir()
    assert blob.name == handle
    assert len(str(records(path))) < 20_000
    blob.unlink()
    gone = await tool.execute({"handle": handle})
    assert not gone.success
    assert "no longer kept" in gone.get_serialized_output()


async def test_everything_it_writes_is_the_owner_s_alone(open_context: Open, path: Path) -> None:
    context = await open_context(path=str(path.parent / "new" / "folders" / path.name))
    await context.add_message({"role": "tool", "tool_call_id": "c", "content": "x" * 50_000})

    made = [path.parent / "new", *(path.parent / "new").rglob("*")]
    modes = {(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in made}

    assert modes == {(True, 0o700), (False, 0o600)}
    assert len(made) == 6


@pytest.mark.parametrize(
    ("session_id", "folder"), [("s-1.a", "s-1.a"), ("../../etc", "_.._etc"), ("..", "_")]
)
def test_without_a_path_the_file_lies_in_the_project_s_folder(
    home: Path, session_id: str, folder: str
) -> None:
    capabilities = {"session.working_dir": "/some/where/work"}
    coordinator = SimpleNamespace(session_id=session_id, get_capability=capabilities.get)

    file = log_path(coordinator, None)

    projects, project, sessions, session, name = file.relative_to(home / ".amplifier").parts
    assert (projects, sessions, session) == ("projects", "sessions", folder)
    assert project == "work-" + sha256(b"/some/where/work").hexdigest()[:8]
    assert name == "context-messages.jsonl"


def test_a_path_is_seen_from_the_working_folder(home: Path) -> None:
    capabilities = {"session.working_dir": "/some/where/work"}
    coordinator = SimpleNamespace(session_id="s", get_capability=capabilities.get)

    assert log_path(coordinator, Path("a.jsonl")) == Path("/some/where/work/a.jsonl")
    assert log_path(coordinator, Path("~/a.jsonl")) == home / "a.jsonl"


async def test_a_closed_conversation_takes_no_more_messages(open_context: Open) -> None:
    context = await open_context()
    await context.close()

    with pytest.raises(RuntimeError, match="is closed"):
        await context.add_message(user("too late"))

    assert await context.get_messages() == []


async def test_an_unknown_key_stops_the_mount_and_nothing_is_opened(path: Path) -> None:
    with pytest.raises(ValidationError, match="pathh\n"):
        await mount(MockCoordinator(), {"path": str(path), "pathh": str(path)})

    assert names_in(path.parent) == []


async def test_the_module_leaves_nothing_behind_when_it_is_cleaned_up(path: Path) -> None:
    coordinator = MockCoordinator()

    cleanup = await mount(coordinator, {"path": str(path)})
    [announced] = await coordinator.collect_contributions("observability.events")
    assert {"context:recovered", "context:sync_failed", "context:spilled"} <= set(announced)
    await cleanup()

    assert coordinator.get("tools") == {}
    assert not any(coordinator.hooks.list_handlers().values())
