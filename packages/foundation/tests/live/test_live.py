"""A live session: recorded while it runs, resumed where its log ends."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amplifier_core.errors import SessionError
from amplifier_foundation.bundles.bundle import Missing
from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.replay import fork
from amplifier_foundation.store import SessionHeldError, SessionStore
from amplifier_journal.errors import RecordingFailedError
from amplifier_journal.readings.requests import requests_in
from amplifier_journal.recorder import FAILED
from amplifier_kit.history_repair import repair_history
from end_to_end.recorded_sessions import Lines, call, plan_of

LIST = {"module": "tool-todo"}


class Instruction(NamedTuple):
    text: str
    origin: str


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home")


def kinds(store: SessionStore, session_id: str) -> list[str]:
    return [each.kind for each in store.read(session_id).records()]


async def one_turn(plan: dict[str, Any], store: SessionStore, folder: Path, **more: Any) -> str:
    async with open_live(plan, store=store, project=folder, **more) as live:
        await live.execute("Hello")
        return live.session_id


async def test_a_session_is_recorded_and_listed(store: SessionStore, tmp_path: Path) -> None:
    session_id = await one_turn(plan_of(["Hi."]), store, tmp_path)

    recorded = kinds(store, session_id)
    assert recorded[:3] == ["session.opened", "mounted", "prompt"]
    assert recorded.count("model.call") == recorded.count("model.result") == 1
    (listed,) = store.list()
    assert (listed.title, listed.turns, listed.cost_usd) == ("Hello", 1, "0")


async def test_the_prompt_is_in_the_log_before_anything_is_asked(
    store: SessionStore, tmp_path: Path
) -> None:
    async with open_live(plan_of(["Hi."]), store=store, project=tmp_path) as live:
        seen: list[str] = []

        async def look(event: str, data: dict[str, Any]) -> None:
            seen.extend(kinds(store, live.session_id))

        live.session.coordinator.hooks.register("execution:start", look)
        await live.execute("Hello")

    assert "prompt" in seen
    assert "model.call" not in seen


async def test_what_a_bundle_misses_is_announced_and_recorded(
    store: SessionStore, tmp_path: Path
) -> None:
    missing = [Missing("include", "git+https://h/x", "bundle:a/a.md", "It is not there.")]

    session_id = await one_turn(plan_of(["Hi."]), store, tmp_path, missing=missing)

    recorded = [each.data for each in store.read(session_id).records() if each.kind == "event"]
    (event,) = [each for each in recorded if each["name"] == "bundle:incomplete"]
    assert event["data"]["missing"] == [missing[0]._asdict()]


async def test_instructions_are_one_message_that_names_their_origins(
    store: SessionStore, tmp_path: Path
) -> None:
    given = [Instruction("Be brief.", "bundle:a"), Instruction("Be kind.", "bundle:b")]
    async with open_live(
        plan_of(["Hi."]), store=store, project=tmp_path, instructions=given
    ) as live:
        (message,) = await live.session.coordinator.get_mounted("context").get_messages()

    assert message["content"] == "Be brief.\n\nBe kind."
    assert message["metadata"]["parts"] == [
        {"origin": "bundle:a", "chars": 9},
        {"origin": "bundle:b", "chars": 8},
    ]


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_a_resumed_session_remembers_everything(
    context: str, store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of(["One.", "Two."], context=context)
    session_id = await one_turn(plan, store, tmp_path)

    async with open_live(
        plan, store=store, project=tmp_path, session_id=session_id, resume=True
    ) as live:
        await live.execute("And?")
        assert live.turns == 2

    last = requests_in(store.read(session_id).records())[-1]
    assert [each["content"] for each in last.messages][:1] == ["Hello"]
    assert len(last.messages) == 3
    assert kinds(store, session_id).count("messages") == 0


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_a_call_that_was_cut_short_is_answered_before_the_next_request(
    context: str, store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of([{"tool_calls": [call("todo")]}, "Done."], tools=(LIST,), context=context)
    whole = await one_turn(plan, store, tmp_path)
    cut = next(e.seq for e in store.read(whole).records() if e.kind == "tool.call")
    session_id, display = fork(store, whole, at=cut), Lines()

    async with open_live(
        plan_of(["Going on."], tools=(LIST,), context=context),
        store=store,
        project=tmp_path,
        session_id=session_id,
        resume=True,
        display_system=display,
    ) as live:
        await live.execute("Go on.")

    last = requests_in(store.read(session_id).records())[-1]
    assert repair_history(last.messages)[1] == []
    assert "[interrupted]" in str(last.messages)
    assert any("was cut short" in line for line in display.lines)


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_a_memory_with_a_file_of_its_own_is_put_right_too(
    context: str, store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of(["Going on."], context=context)
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "tool": "todo"}]}
    async with open_live(plan, store=store, project=tmp_path) as live:
        await live.session.coordinator.get_mounted("context").add_message(asked)

    async with open_live(
        plan, store=store, project=tmp_path, session_id=live.session_id, resume=True
    ) as resumed:
        messages = await resumed.session.coordinator.get_mounted("context").get_messages()
        assert await resumed.execute("Go on.") == "Going on."

    assert repair_history(messages) == (messages, [])
    assert [each["role"] for each in messages] == ["assistant", "tool"]


async def test_a_plan_that_does_not_mount_is_in_the_log(
    store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of(["Hi."], loop="loop-that-is-not-there")
    with pytest.raises(SessionError):
        async with open_live(plan, store=store, project=tmp_path, session_id="broken"):
            pass

    first, *_ = store.read("broken").records()
    assert first.kind == "session.opened"
    assert "loop-that-is-not-there" in first.data["error"]["message"]
    assert store.read("broken").holder is None


async def test_a_session_killed_in_its_first_turn_has_a_title(
    store: SessionStore, tmp_path: Path
) -> None:
    titles: list[str] = []
    async with open_live(plan_of(["Hi."]), store=store, project=tmp_path) as live:
        hooks = live.session.coordinator.hooks
        hooks.register("execution:start", lambda event, data: titles.append(store.list()[0].title))
        await live.execute("Hello there\nand more")

    assert titles == ["Hello there"]


async def test_a_changed_plan_is_told_and_does_not_stop_the_session(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id, display = await one_turn(plan_of(["Hi."]), store, tmp_path), Lines()

    async with open_live(
        plan_of(["Hi."], loop="loop-streaming", tools=(LIST,)),
        store=store,
        project=tmp_path,
        session_id=session_id,
        resume=True,
        display_system=display,
    ) as live:
        assert await live.execute("Still there?") == "Hi."

    (line,) = [each for each in display.lines if "other settings" in each]
    assert "session.orchestrator" in line
    assert "tools.tool-todo" in line


async def test_an_unchanged_plan_is_not_told(store: SessionStore, tmp_path: Path) -> None:
    plan, display = plan_of(["Hi."], context="context-persistent"), Lines()
    session_id = await one_turn(plan, store, tmp_path)

    for takeover in (True, False):
        async with open_live(
            plan,
            store=store,
            project=tmp_path,
            session_id=session_id,
            resume=True,
            takeover=takeover,
            display_system=display,
        ):
            pass

    assert display.lines == []


async def test_what_modules_keep_in_session_state_survives(
    store: SessionStore, tmp_path: Path
) -> None:
    todos = [{"content": "Write it.", "status": "pending", "activeForm": "Writing"}]
    plan = plan_of(["Hi."])
    async with open_live(plan, store=store, project=tmp_path) as live:
        live.session.coordinator.session_state["todos"] = todos
        await live.execute("Hello")

    async with open_live(
        plan, store=store, project=tmp_path, session_id=live.session_id, resume=True
    ) as resumed:
        assert resumed.session.coordinator.session_state["todos"] == todos


async def test_what_was_spent_before_still_counts_after_a_resume(
    store: SessionStore, tmp_path: Path
) -> None:
    step = {"text": "Dear.", "usage": {"cost_usd": "0.1"}}
    async with open_live(plan_of([step, step]), store=store, project=tmp_path) as live:
        await live.execute("One")
        await live.execute("Two")
        assert live.cost_usd == Decimal("0.2")

    async with open_live(
        plan_of([step]), store=store, project=tmp_path, session_id=live.session_id, resume=True
    ) as resumed:
        await resumed.execute("Three")
        assert resumed.cost_usd == Decimal("0.3")


async def test_a_session_has_one_writer_until_it_is_taken_over(
    store: SessionStore, tmp_path: Path
) -> None:
    plan, display = plan_of(["First.", "Never."], context="context-simple"), Lines()
    async with open_live(plan, store=store, project=tmp_path, display_system=display) as first:
        await first.execute("Hello")
        with pytest.raises(SessionHeldError):
            await reopened(plan, store, tmp_path, first, takeover=False)
        assert await reopened(plan_of(["Mine."]), store, tmp_path, first, takeover=True) == "Mine."
        calls = kinds(store, first.session_id).count("model.call")

        with pytest.raises(RecordingFailedError):
            await first.execute("Me again")

    assert kinds(store, first.session_id).count("model.call") == calls
    assert any("cannot be written" in line for line in display.lines)


async def reopened(
    plan: dict[str, Any],
    store: SessionStore,
    folder: Path,
    other: LiveSession,
    *,
    takeover: bool,
) -> str:
    async with open_live(
        plan,
        store=store,
        project=folder,
        session_id=other.session_id,
        resume=True,
        takeover=takeover,
    ) as live:
        return await live.execute("Now here")


@pytest.mark.attack("D2")
async def test_a_full_log_stops_the_turn_before_the_next_model_call(tmp_path: Path) -> None:
    big = {"tool_calls": [call("todo", todos=[])], "text": "x" * 20_000}
    plan, display = plan_of([big] * 9, tools=(LIST,)), Lines()
    store = SessionStore(tmp_path / "home", max_session_bytes=100_000)
    heard: list[str] = []
    async with open_live(plan, store=store, project=tmp_path, display_system=display) as live:
        hooks = live.session.coordinator.hooks
        calls: list[str] = []
        hooks.register(FAILED, lambda event, data: heard.append(data["error"]))
        hooks.register("llm:request", lambda event, data: calls.append(event))

        with pytest.raises(RecordingFailedError, match="cannot be written"):
            await live.execute("Fill it up.")

        made = len(calls)
        with pytest.raises(RecordingFailedError):
            await live.execute("And more.")
        assert len(calls) == made

    assert len(heard) == 1
    assert sum("cannot be written" in line for line in display.lines) == 1
    assert len(requests_in(store.read(live.session_id).records())) in (made, made + 1)


async def test_secrets_never_reach_the_disk(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cr3t-value-of-a-key-42"
    monkeypatch.setenv("SOME_API_KEY", secret)
    plan = plan_of([{"text": f"It is {secret}.", "tool_calls": [call("todo", todos=secret)]}, "x"])
    async with open_live({**plan, "tools": [LIST]}, store=store, project=tmp_path) as live:
        await live.execute(f"My key is {secret}")

    for file in (tmp_path / "home").rglob("*"):
        assert file.is_dir() or secret.encode() not in file.read_bytes()
    assert "[REDACTED:SOME_API_KEY]" in json.dumps(
        [each.data for each in store.read(live.session_id).records()]
    )
