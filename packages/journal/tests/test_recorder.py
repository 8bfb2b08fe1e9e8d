"""The recorder: sees everything through the kernel's own mechanisms, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from amplifier_core.effects import declaration_of
from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.models import ProviderInfo, ToolResult
from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from amplifier_journal.readings.requests import requests_in
from contract.requirements import requirement
from end_to_end.recorded_sessions import Lines, call, plan_of, record

LIST = {"module": "tool-todo"}


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home")


def records_of(store: SessionStore, session_id: str, kind: str) -> list[Any]:
    return [each for each in store.read(session_id).records() if each.kind == kind]


class Waiting:
    """A tool that runs until it is told to stop."""

    name = "wait"
    description = "Waits."
    input_schema: ClassVar[dict[str, Any]] = {}
    effect = "pure"
    deadline_seconds = 30
    output_trusted = True
    colour = "blue"

    def __init__(self) -> None:
        self.started = asyncio.Event()

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.started.set()
        await asyncio.sleep(30)
        return ToolResult(output="done")


class Streaming:
    """A provider that streams chunks, as some published ones do."""

    name = "chunks"

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="chunks", display_name="Chunks")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        raise AssertionError("it streams")

    def parse_tool_calls(self, response: Any) -> list[Any]:
        return []

    async def stream(self, request: Any, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
        for text in ("Piece ", "by piece."):
            yield {"content": text}
        yield {"usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}


async def test_recorded_modules_keep_protocol_attributes_and_declarations(
    store: SessionStore, tmp_path: Path
) -> None:
    async with open_live(plan_of(["Hi."]), store=store, project=tmp_path) as live:
        coordinator, tool = live.session.coordinator, Waiting()
        await coordinator.mount("tools", tool)

        seen: Any = coordinator.get("tools", "wait")
        assert seen is not tool
        assert isinstance(coordinator.get("tools", "wait"), Tool)
        assert declaration_of(seen) == declaration_of(tool)
        assert seen.colour == "blue"
        seen.colour = "green"
        assert tool.colour == "green"
        assert not hasattr(seen, "no_such_attribute")
        assert isinstance(coordinator.get("context"), ContextManager)
        assert isinstance(coordinator.get("orchestrator"), Orchestrator)
        provider: Any = coordinator.get("providers", "mock")
        assert isinstance(coordinator.get("providers", "mock"), Provider)
        assert provider.priority == 100
        assert not hasattr(provider, "stream")


async def test_events_inside_a_call_are_marked_with_it(store: SessionStore, tmp_path: Path) -> None:
    session_id = await record("parallel_tools", store, tmp_path)

    events = [each.data for each in records_of(store, session_id, "event")]
    calls = {each.data["call"]: each.data for each in records_of(store, session_id, "model.call")}
    assert all(each["inside"] in calls for each in events if each["name"].startswith("llm:"))
    written = [each["inside"] for each in events if each["name"] == "artifact:write"]
    tools = {each.data["call"]: each.data for each in records_of(store, session_id, "tool.call")}
    assert [tools[each]["tool"] for each in written] == ["write_file", "write_file"]
    assert all(not each["inside"] for each in events if each["name"] in ("tool:pre", "tool:post"))


async def test_parallel_calls_of_one_tool_are_told_apart_by_their_ids(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = await record("parallel_tools", store, tmp_path)

    calls = [each.data for each in records_of(store, session_id, "tool.call")]
    by_id = {each["tool_call_id"]: each["input"].get("file_path") for each in calls}
    assert by_id["call_1"] == "one.txt"
    assert by_id["call_2"] == "two.txt"
    assert len(by_id) == len(calls) == 6


async def test_a_request_shares_what_it_can_with_the_one_before(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = await record("parallel_tools", store, tmp_path)

    written = [each.data["request"] for each in records_of(store, session_id, "model.call")]
    assert [each["same"] for each in written] == [0, 1, 6]
    assert [each["messages"] for each in written] == [1, 6, 9]
    whole = requests_in(store.read(session_id).records())[-1]
    assert [each["role"] for each in whole.messages[:3]] == ["user", "assistant", "tool"]
    assert len(records_of(store, session_id, "part")) == 1


async def test_a_child_session_has_a_log_of_its_own(store: SessionStore, tmp_path: Path) -> None:
    session_id = await record("sub_agents", store, tmp_path)

    (child,) = records_of(store, session_id, "child")
    child_id = child.data["session_id"]
    reader = store.read(child_id)
    assert reader.metadata["parent_id"] == session_id
    (task,) = records_of(store, session_id, "tool.call")
    assert child.data["inside"] == task.data["call"]
    (answer,) = records_of(store, child_id, "turn.ended")
    assert answer.data["answer"] == "Roses are red."
    assert reader.holder is None


class Editor:
    """A tool that has an agent write."""

    name = "edit"
    description = "Has a verse written."
    input_schema: ClassVar[dict[str, Any]] = {}

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        spawn = self._coordinator.get_capability("agents.spawn")
        return ToolResult(output=await spawn("poet", "A verse."))


@requirement("AGENT-5")
async def test_an_agent_that_a_module_spawns_has_a_log_too(
    store: SessionStore, tmp_path: Path
) -> None:
    poet = {"module": "provider-mock", "config": {"script": ["Roses are red."]}}
    plan = plan_of(
        [{"tool_calls": [call("edit")]}, "There."],
        tools=({"module": "tool-task"},),
        agents={"poet": {"providers": [poet]}},
    )
    async with open_live(plan, store=store, project=tmp_path) as live:
        await live.session.coordinator.mount("tools", Editor(live.session.coordinator))
        await live.execute("A verse, please.")

    (child,) = records_of(store, live.session_id, "child")
    (edit,) = records_of(store, live.session_id, "tool.call")
    assert child.data["inside"] == edit.data["call"]
    (answer,) = records_of(store, child.data["session_id"], "turn.ended")
    assert answer.data["answer"] == "Roses are red."
    assert not (await replay(store.read(live.session_id))).differences


async def test_a_cancellation_is_recorded_with_what_it_interrupted(
    store: SessionStore, tmp_path: Path
) -> None:
    script = [{"tool_calls": [call("wait")]}, "Going on."]
    async with open_live(plan_of(script), store=store, project=tmp_path) as live:
        tool = Waiting()
        await live.session.coordinator.mount("tools", tool)
        running = asyncio.ensure_future(live.execute("Wait."))
        async with asyncio.timeout(120):
            await tool.started.wait()
            await live.cancel(immediate=True)
            await running
        assert await live.execute("Go on.") == "Going on."

    (cancel,) = records_of(store, live.session_id, "cancel")
    (waiting,) = records_of(store, live.session_id, "tool.call")
    assert cancel.data == {"immediate": True, "during": [waiting.data["call"]]}
    (result,) = records_of(store, live.session_id, "tool.result")
    assert result.data["error"]["type"] == "CancelledError"
    ends = [each.data["stop_reason"] for each in records_of(store, live.session_id, "turn.ended")]
    assert ends == ["cancelled", "completed"]
    assert not (await replay(store.read(live.session_id))).differences


async def test_a_graceful_cancellation_is_recorded_too(store: SessionStore, tmp_path: Path) -> None:
    script = [{"tool_calls": [call("todo")]}, "Never said."]
    async with open_live(plan_of(script, tools=(LIST,)), store=store, project=tmp_path) as live:

        async def stop(event: str, data: dict[str, Any]) -> None:
            await live.cancel()

        live.session.coordinator.hooks.register("tool:pre", stop)
        await live.execute("Stop soon.")

    (cancel,) = records_of(store, live.session_id, "cancel")
    assert cancel.data["immediate"] is False


async def test_approvals_and_lines_are_recorded(store: SessionStore, tmp_path: Path) -> None:
    session_id = await record("approval", store, tmp_path)

    asked = [each.data for each in records_of(store, session_id, "approval")]
    assert [each["decision"] for each in asked] == ["Allow once", "Deny"]
    assert all(each["prompt"].startswith("Allow ") for each in asked)
    failed_over = await record("failover", store, tmp_path)
    shown = [each.data["message"] for each in records_of(store, failed_over, "display")]
    assert any("continuing with second" in each for each in shown)


async def test_a_streamed_answer_is_recorded_and_replays(
    store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of(["unused"], loop={"module": "loop-streaming", "config": {}})
    async with open_live(plan, store=store, project=tmp_path) as live:
        coordinator = live.session.coordinator
        _ = coordinator.unmount("providers", "mock")
        await coordinator.mount("providers", Streaming())
        assert await live.execute("Stream.") == "Piece by piece."

    (result,) = records_of(store, live.session_id, "model.result")
    assert [each.get("content") for each in result.data["chunks"]] == ["Piece ", "by piece.", None]
    assert str(await replay(store.read(live.session_id))).endswith("without a difference.")


class StreamingWithoutKeywords(Streaming):
    """A provider whose `stream` takes no keywords but `tools`."""

    async def stream(  # pyright: ignore[reportIncompatibleMethodOverride] - the point of it
        self, request: Any, tools: Any
    ) -> AsyncIterator[dict[str, Any]]:
        yield {"content": "Narrow."}


async def test_a_recorded_stream_gets_no_keyword_that_its_provider_does_not_accept(
    store: SessionStore, tmp_path: Path
) -> None:
    loop = {"module": "loop-streaming", "config": {"extended_thinking": True}}
    plan = plan_of(["unused"], loop=loop)
    async with open_live(plan, store=store, project=tmp_path) as live:
        coordinator = live.session.coordinator
        _ = coordinator.unmount("providers", "mock")
        await coordinator.mount("providers", StreamingWithoutKeywords())
        assert await live.execute("Stream.") == "Narrow."


async def test_a_message_that_is_refused_is_not_recorded(
    store: SessionStore, tmp_path: Path
) -> None:
    async with open_live(plan_of(["Hi."]), store=store, project=tmp_path) as live:
        with pytest.raises(ValueError, match="role"):
            await live.session.coordinator.get_mounted("context").add_message(
                {"content": "no role"}
            )

    assert not records_of(store, live.session_id, "message")


async def test_nothing_is_shown_or_asked_where_the_app_has_no_way_to(
    store: SessionStore, tmp_path: Path
) -> None:
    async with open_live(plan_of(["Hi."]), store=store, project=tmp_path) as live:
        assert live.session.coordinator.display_system is None
        assert live.session.coordinator.approval_system is None


async def test_files_that_a_turn_wrote_are_named_by_their_checkpoint(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = await record("parallel_tools", store, tmp_path)

    (checkpoint,) = records_of(store, session_id, "checkpoint")
    assert checkpoint.data == {"turn": 1, "id": 1}


async def test_a_module_that_does_not_load_is_in_the_log(
    store: SessionStore, tmp_path: Path
) -> None:
    plan = plan_of(["Hi."], tools=({"module": "tool-that-is-not-there"},))
    async with open_live(plan, store=store, project=tmp_path, display_system=Lines()) as live:
        await live.execute("Hello")

    first, *_ = store.read(live.session_id).records()
    assert "failed" in [each["state"] for each in first.data["modules"]]
    names = [each.data["name"] for each in records_of(store, live.session_id, "event")]
    assert "module:load_failed" in names


async def turn_after_detaching(live: LiveSession) -> None:
    live.recorder.detach()
    await live.session.execute("Unrecorded.")


async def test_a_detached_recorder_records_nothing_more(
    store: SessionStore, tmp_path: Path
) -> None:
    async with open_live(plan_of(["One.", "Two."]), store=store, project=tmp_path) as live:
        await live.execute("Recorded.")
        await turn_after_detaching(live)

    assert len(records_of(store, live.session_id, "model.call")) == 1
