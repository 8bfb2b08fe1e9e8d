"""Tests of what is in the log: every event, once, in order, bounded and private."""

from __future__ import annotations

import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_logging import mount

Open = Callable[..., Awaitable[Any]]

PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"script": ["Hello there."]}}],
    "hooks": [{"module": "hooks-logging"}],
}


def read_log_of(session_id: str, home: Path) -> tuple[Path, list[dict[str, Any]]]:
    (path,) = home.glob(f".amplifier/projects/*/sessions/{session_id}/events.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    return path, [json.loads(line) for line in lines]


async def test_a_record_says_when_what_and_to_whom_it_happened(open_log: Open) -> None:
    harness = await open_log()

    await harness.hooks.emit("tool:pre", {"tool_name": "x", "tool_input": {"n": 1}})
    await harness.close()

    (record,) = harness.records()
    assert list(record) == ["v", "ts", "seq", "session_id", "parent_id", "event", "data"]
    assert record["v"] == 1
    assert record["ts"].startswith("20")
    assert record["seq"] == 1
    assert record["session_id"] == "test-session"
    assert record["parent_id"] is None
    assert record["event"] == "tool:pre"
    assert record["data"] == {"tool_name": "x", "tool_input": {"n": 1}}


async def test_a_turn_is_in_the_log_when_it_ends(home: Path) -> None:
    session = AmplifierSession(PLAN, session_id="s-1")

    async with session:
        await session.execute("hi")
        path, records = read_log_of("s-1", home)

    names = [record["event"] for record in records]
    assert names[0] == "session:start"
    assert names[-1] == "orchestrator:complete"
    assert {"prompt:submit", "llm:request", "llm:response", "prompt:complete"} <= set(names)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert not any("delta" in name for name in names)
    assert path.read_bytes().splitlines()[-1].count(b"session:end") == 1


async def test_the_log_and_its_folders_are_the_owners_alone(open_log: Open) -> None:
    harness = await open_log()

    await harness.hooks.emit("tool:pre", {})
    await harness.close()

    assert stat.S_IMODE(harness.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(harness.path.parent.stat().st_mode) == 0o700


async def test_a_log_that_others_could_read_is_closed_to_them(open_log: Open) -> None:
    harness = await open_log()
    harness.path.parent.mkdir(parents=True)
    harness.path.touch(mode=0o644)

    await harness.hooks.emit("tool:pre", {})
    await harness.close()

    assert stat.S_IMODE(harness.path.stat().st_mode) == 0o600


async def test_a_link_in_place_of_the_log_is_not_followed(open_log: Open, tmp_path: Path) -> None:
    harness = await open_log()
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    harness.path.parent.mkdir(parents=True)
    harness.path.symlink_to(victim)

    await harness.hooks.emit("tool:pre", {})
    await harness.close()

    assert victim.read_text(encoding="utf-8") == "mine"
    assert any("cannot be written" in line for line in harness.screen.lines)


async def test_events_that_modules_contribute_are_heard_whenever_they_were_mounted(
    open_log: Open,
) -> None:
    coordinator = MockCoordinator()
    coordinator.register_contributor("observability.events", "early", lambda: ["early:one"])
    harness = await open_log(coordinator, events=["named:one"])
    coordinator.register_contributor("observability.events", "late", lambda: "late:one")
    coordinator.register_contributor("observability.events", "rubbish", lambda: 7)
    await harness.hooks.emit("module:swapped", {})

    for event in ("early:one", "late:one", "named:one", "unheard:one"):
        await harness.hooks.emit(event, {})
    await harness.close()

    names = [record["event"] for record in harness.records()]
    assert names == ["module:swapped", "early:one", "late:one", "named:one"]


async def test_deltas_are_left_out_unless_asked_for(open_log: Open) -> None:
    coordinator = MockCoordinator()
    streamed = ["llm:stream_block_delta", "llm:stream_block_end"]
    coordinator.register_contributor("observability.events", "provider", streamed.copy)
    harness = await open_log(coordinator)
    assert not harness.hooks.has_handlers("llm:stream_block_delta")
    assert not harness.hooks.has_handlers("content_block:delta")
    assert harness.hooks.has_handlers("llm:stream_block_end")

    everything = await open_log(coordinator, exclude=[])

    assert everything.hooks.has_handlers("llm:stream_block_delta")


async def test_what_a_guard_denies_is_in_the_log(open_log: Open) -> None:
    harness = await open_log()

    def deny(event: str, data: Any) -> dict[str, str]:
        return {"action": "deny", "reason": "no"}

    harness.hooks.register("tool:pre", deny, priority=-500, on_error="deny")

    await harness.hooks.emit("tool:pre", {"tool_name": "rm"})
    await harness.close()

    assert harness.told("tool:pre") == [{"tool_name": "rm"}]


async def test_large_values_are_cut_with_their_count(open_log: Open) -> None:
    harness = await open_log(max_value_chars=100)

    await harness.hooks.emit("tool:post", {"result": "x" * 1_000_000, "n": 7})
    await harness.close()

    data = harness.told("tool:post")[0]
    assert data["result"].startswith("x" * 100 + " [")
    assert data["result"].endswith(" more characters]")
    assert data["n"] == 7


@pytest.mark.parametrize(
    "data",
    [
        {"rows": [{"cell": "é" * 50}] * 100_000},
        {str(n): "v" * 40 for n in range(50_000)},
        {"text": "\x00" * 60_000, "more": "\x00" * 60_000},
        {f"{n}": "\x00" * 200 for n in range(300)},
    ],
    ids=["rows", "fields", "escapes", "many escapes"],
)
async def test_no_record_is_larger_than_allowed(open_log: Open, data: dict[str, Any]) -> None:
    harness = await open_log(max_record_bytes=4_096)

    await harness.hooks.emit("tool:post", data)
    await harness.close()

    assert harness.path.stat().st_size <= 4_096
    assert (
        "more" in harness.path.read_text(encoding="utf-8") or "cut" in harness.records()[0]["data"]
    )


async def test_data_of_any_depth_and_any_text_is_written(open_log: Open) -> None:
    harness = await open_log()
    deep: Any = "bottom"
    for _ in range(200):
        deep = [deep]

    await harness.hooks.emit("tool:post", {"deep": deep, "half": "\ud83d", "umlaut": "ä"})
    await harness.hooks.emit("tool:pre", None)
    await harness.hooks.emit("tool:pre", "just text")
    await harness.close()

    first, second, third = harness.records()
    assert "more items" in json.dumps(first["data"])
    assert first["data"]["half"] == "\ud83d"
    assert first["data"]["umlaut"] == "ä"
    assert (second["data"], third["data"]) == ({"data": None}, {"data": "just text"})


async def test_full_files_are_rotated_and_only_so_many_kept(open_log: Open) -> None:
    harness = await open_log(max_file_bytes=10_000, keep_files=2)

    for _ in range(400):
        await harness.hooks.emit("tool:pre", {"text": "x" * 100})
    await harness.close()

    names = sorted(path.name for path in harness.path.parent.iterdir())
    assert names == ["events.jsonl", "events.jsonl.1", "events.jsonl.2"]
    assert all(path.stat().st_size <= 10_000 for path in harness.path.parent.iterdir())
    numbers = [
        record["seq"]
        for name in reversed(names)
        for record in harness.records(harness.path.with_name(name))
    ]
    assert numbers == list(range(numbers[0], 401))


async def test_numbers_go_on_where_an_earlier_process_stopped(open_log: Open) -> None:
    first = await open_log()
    await first.hooks.emit("tool:pre", {})
    await first.hooks.emit("tool:post", {})
    await first.close()

    second = await open_log()
    await second.hooks.emit("tool:pre", {})
    await second.close()

    assert [record["seq"] for record in second.records()] == [1, 2, 3]


async def test_half_a_line_of_a_crash_spoils_only_itself(open_log: Open) -> None:
    first = await open_log()
    await first.hooks.emit("tool:pre", {})
    await first.close()
    with first.path.open("ab") as file:
        file.write(b'{"v":1,"seq":2,"eve')

    second = await open_log()
    await second.hooks.emit("tool:post", {})
    await second.close()

    lines = second.path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert json.loads(lines[2])["event"] == "tool:post"


async def test_a_session_id_cannot_leave_the_folder(tmp_path: Path) -> None:
    coordinator = MockCoordinator()
    coordinator._session_id = "../../etc/x"

    stop: Any = await mount(coordinator, {"path": f"{tmp_path}/{{session_id}}.jsonl"})

    assert stop.__self__.path == tmp_path / "_.._etc_x.jsonl"
    await stop()


async def test_a_path_that_sessions_would_share_is_refused() -> None:
    with pytest.raises(ValidationError, match="each session has a file of its own"):
        await mount(MockCoordinator(), {"path": "all.jsonl"})


async def test_an_unknown_key_stops_the_mount_by_name() -> None:
    with pytest.raises(ValidationError, match="max_size"):
        await mount(MockCoordinator(), {"max_size": 1})


async def test_a_session_that_announces_nothing_writes_nothing(open_log: Open) -> None:
    harness = await open_log()

    await harness.close()

    assert not harness.path.exists()
