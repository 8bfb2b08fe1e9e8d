"""Calls under their keys: found again in any order, told apart, and loudly when they diverge."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest
from runtime_stage import plan_with

from amplifier_core.correlation import tool_call
from amplifier_core.llm_errors import RateLimitError
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock
from amplifier_core.models import ToolResult
from amplifier_core.session import AmplifierSession
from amplifier_runtime.database.engine import Write
from amplifier_runtime.errors import Fenced, Suspended
from amplifier_runtime.turns.claims import Claim
from amplifier_runtime.turns.journal import Journal, kept_model
from amplifier_runtime.turns.steps import DIVERGED, OUTCOME_UNKNOWN, install_durable_steps
from amplifier_runtime.turns.turn_run import TurnRun

SAID = ChatResponse(content=[TextBlock(text="yes")])


class Model:
    """Says what it is given to say, and counts."""

    name = "model"

    def __init__(self, *said: Any) -> None:
        self._said = list(said)
        self.asked: list[Any] = []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.asked.append(request)
        said = self._said.pop(0) if self._said else SAID
        if isinstance(said, Exception):
            raise said
        return said

    async def stream(self, request: ChatRequest, **kwargs: Any) -> Any:
        self.asked.append(request)
        for word in ("y", "e", "s"):
            yield {"content": word}
        yield {"usage": {"input_tokens": 1, "output_tokens": 1}}


class Tool:
    """Says which call of it this was."""

    description = "A tool."
    input_schema: dict[str, Any] = {}

    def __init__(self, effect: str, name: str = "tool", wait: asyncio.Event | None = None) -> None:
        self.name = name
        self.effect = effect
        self.calls: list[Any] = []
        self.begun = asyncio.Event()
        self._wait = wait

    async def execute(self, input: dict[str, Any]) -> Any:
        self.calls.append(input)
        self.begun.set()
        if self._wait is not None:
            await self._wait.wait()
        if "fail" in input:
            raise ValueError("no")
        return ToolResult(output=f"call {len(self.calls)}")


class Play:
    """One run with the journal of those before it."""

    def __init__(
        self, entries: dict[str, Any], epoch: int, write: Write | None = None, **modules: Any
    ) -> None:
        self.entries = entries
        self.events: list[str] = []
        claim = Claim("turn", "t", "s", None, 1, "p", epoch, epoch, 0, {}, {}, [], None)
        self.session = AmplifierSession(plan_with("loop-basic"))
        for name, module in modules.items():
            point = "providers" if isinstance(module, Model) else "tools"
            self.session.coordinator.mount_points[point][name] = module
        journal = Journal(dict(entries), epoch)
        self.run = TurnRun(claim, self.session, journal, write or self._write, lambda name: None)
        install_durable_steps(self.run)
        for event in (DIVERGED, OUTCOME_UNKNOWN):
            self.session.coordinator.hooks.register(event, self._hear)

    async def _write(self, key: str, value: Any) -> None:
        await asyncio.sleep(0)
        self.entries[key] = value

    async def _hear(self, event: str, data: Any) -> None:
        self.events.append(event)

    def get(self, name: str) -> Any:
        coordinator = self.session.coordinator
        return coordinator.get("providers").get(name) or coordinator.get("tools")[name]

    async def ask(self, text: str, name: str = "model") -> str:
        request = ChatRequest(messages=[Message(role="user", content=text)])
        return (await self.get(name).complete(request)).content[0].text

    async def use(self, given: dict[str, Any], call_id: str = "", name: str = "tool") -> Any:
        with tool_call(name, call_id):
            return (await self.get(name).execute(given)).output


async def test_a_kept_answer_is_given_again_and_the_model_is_not_asked() -> None:
    entries: dict[str, Any] = {}
    assert await Play(entries, 1, model=Model()).ask("q") == "yes"
    again = Model()
    second = Play(entries, 2, model=again)
    assert await second.ask("q") == "yes"
    assert again.asked == []
    assert second.events == []


async def test_a_kept_failure_is_raised_again_with_its_class_and_fields() -> None:
    entries: dict[str, Any] = {}
    limited = RateLimitError("slow down", provider="x", retry_after=3.0)
    with pytest.raises(RateLimitError):
        await Play(entries, 1, model=Model(limited)).ask("q")
    again = Model()
    with pytest.raises(RateLimitError) as raised:
        await Play(entries, 2, model=again).ask("q")
    assert raised.value.retry_after == 3.0
    assert again.asked == []


async def test_parallel_model_calls_are_found_in_another_order() -> None:
    entries: dict[str, Any] = {}
    said = [ChatResponse(content=[TextBlock(text=text)]) for text in "ab"]
    first = Play(entries, 1, model=Model(*said))
    assert (await first.ask("a"), await first.ask("b")) == ("a", "b")
    again = Model()
    second = Play(entries, 2, model=again)
    assert (await second.ask("b"), await second.ask("a")) == ("b", "a")
    assert (again.asked, second.events) == ([], [])


async def test_another_question_at_the_same_place_takes_the_new_path_loudly_and_once() -> None:
    entries: dict[str, Any] = {}
    first = Play(entries, 1, model=Model())
    await first.ask("one")
    await first.ask("two")
    model = Model()
    second = Play(entries, 2, model=model)
    await second.ask("one")
    await second.ask("something else")
    assert len(model.asked) == 1
    assert second.events == [DIVERGED]
    third = Play(entries, 3, model=model)
    await third.ask("one")
    await third.ask("something else")
    await third.ask("three")
    assert len(model.asked) == 2
    assert third.events == []


async def test_a_kept_stream_shows_the_keywords_that_the_model_accepts() -> None:
    stream = Play({}, 1, model=Model()).get("model").stream
    assert inspect.signature(stream) == inspect.signature(Model().stream)


async def test_a_stream_is_kept_whole_and_given_again_without_the_model() -> None:
    entries: dict[str, Any] = {}
    request = ChatRequest(messages=[Message(role="user", content="q")])
    live = [chunk async for chunk in Play(entries, 1, model=Model()).get("model").stream(request)]
    assert len(live) == 4
    again = Model()
    kept = [chunk async for chunk in Play(entries, 2, model=again).get("model").stream(request)]
    assert again.asked == []
    assert kept[0] == {"content": "yes"}
    assert kept[1] == live[3]
    assert len(entries) == 1


async def test_identical_parallel_calls_are_told_apart_by_their_ids() -> None:
    entries: dict[str, Any] = {}
    first = Play(entries, 1, tool=Tool("pure"))
    assert [await first.use({}, "a"), await first.use({}, "b")] == ["call 1", "call 2"]
    second = Play(entries, 2, tool=Tool("pure"))
    assert [await second.use({}, "b"), await second.use({}, "a")] == ["call 2", "call 1"]


async def test_calls_without_an_id_are_told_apart_by_input_and_count() -> None:
    entries: dict[str, Any] = {}
    first = Play(entries, 1, tool=Tool("unsafe"))
    assert await first.use({"x": 1}) == "call 1"
    assert await first.use({"x": 1}) == "call 2"
    assert await first.use({"x": 2}) == "call 3"
    tool = Tool("unsafe")
    second = Play(entries, 2, tool=tool)
    assert await second.use({"x": 2}) == "call 3"
    assert await second.use({"x": 1}) == "call 1"
    assert await second.use({"x": 1}) == "call 2"
    assert tool.calls == []


@pytest.mark.parametrize(("effect", "runs"), [("pure", 1), ("idempotent", 1), ("unsafe", 0)])
async def test_only_what_may_be_run_again_is_run_again(effect: str, runs: int) -> None:
    entries: dict[str, Any] = {}
    hanging = Play(entries, 1, tool=Tool(effect, wait=asyncio.Event()))
    task = asyncio.create_task(hanging.use({}, "a"))
    async with asyncio.timeout(120):
        await hanging.get("tool").begun.wait()
    task.cancel()
    tool = Tool(effect)
    second = Play(entries, 2, tool=tool)
    answer = await second.use({}, "a")
    assert len(tool.calls) == runs
    assert second.events == ([] if runs else [OUTCOME_UNKNOWN])
    if not runs:
        assert "may or may not have taken effect" in answer
        third = Play(entries, 3, tool=tool)
        assert await third.use({}, "a") == answer
        assert (tool.calls, third.events) == ([], [])


async def test_a_tool_that_raises_raises_again_and_is_not_run() -> None:
    entries: dict[str, Any] = {}
    for epoch in (1, 2):
        tool = Tool("unsafe")
        with pytest.raises(ValueError, match="no"):
            await Play(entries, epoch, tool=tool).use({"fail": True}, "a")
        assert len(tool.calls) == (epoch == 1)


async def test_a_run_that_is_to_stop_keeps_what_is_in_flight_and_begins_nothing() -> None:
    entries: dict[str, Any] = {}
    gate = asyncio.Event()
    slow, other = Tool("unsafe", wait=gate), Tool("unsafe", "other")
    play = Play(entries, 1, tool=slow, other=other)
    task = asyncio.create_task(play.use({}, "a"))
    async with asyncio.timeout(120):
        await slow.begun.wait()
    play.run.stop("drain")
    late = asyncio.create_task(play.use({}, "b", name="other"))
    await asyncio.sleep(0)
    assert not late.done()
    gate.set()
    with pytest.raises(Suspended, match="drain"):
        await late
    assert await task == "call 1"
    assert other.calls == []
    with pytest.raises(Suspended):
        await play.use({}, "c", name="other")


async def test_a_fenced_run_runs_no_unsafe_tool_and_asks_no_model() -> None:
    async def refuse(key: str, value: Any) -> None:
        raise Fenced

    tool, model = Tool("unsafe"), Model()
    play = Play({}, 1, refuse, tool=tool, model=model)
    with pytest.raises(Fenced):
        await play.use({}, "a")
    with pytest.raises(Fenced):
        await play.ask("q")
    assert (tool.calls, model.asked) == ([], [])


async def test_a_worker_given_up_between_intent_and_effect_does_not_run_the_tool() -> None:
    async def given_up() -> None:
        play.run.end(Fenced())

    tool, entries = Tool("unsafe"), dict[str, Any]()
    play = Play(entries, 1, tool=tool)
    play.run.fence_check = given_up
    with pytest.raises(Fenced):
        await play.use({}, "a")
    assert tool.calls == []
    assert [key for key in entries if key.endswith(":started")]


async def test_a_journal_that_cannot_be_written_suspends_the_run_and_no_loop_can_eat_it() -> None:
    async def fail(key: str, value: Any) -> None:
        raise OSError("disk full")

    play = Play({}, 1, fail, tool=Tool("pure"))
    with pytest.raises(Suspended, match="fault"):
        await play.use({}, "a")


async def test_calls_inside_a_tool_are_kept_under_its_key() -> None:
    entries: dict[str, Any] = {}

    class Asking(Tool):
        async def execute(self, input: dict[str, Any]) -> Any:
            return ToolResult(output=await play.ask("inner"))

    model = Model()
    play = Play(entries, 1, model=model, tool=Asking("pure"))
    assert await play.use({}, "a") == "yes"
    assert await play.ask("inner") == "yes"
    assert len(model.asked) == 2
    assert sum("llm:tool:a" in key for key in entries) == 1


async def test_what_is_mounted_keeps_its_attributes_to_read_and_to_set() -> None:
    tool = Tool("pure")
    play = Play({}, 1, tool=tool)
    assert play.get("tool").effect == "pure"
    play.get("tool").description = "another"
    assert tool.description == "another"


def test_an_answer_that_cannot_be_written_whole_is_kept_all_the_same() -> None:
    """It is paid for by then; an object that a provider put into it becomes a text."""
    answer = ChatResponse(content=[TextBlock(text="Done.")], metadata={"raw": object()})

    kept = json.loads(json.dumps(kept_model(answer)))

    assert ChatResponse.model_validate(kept).content == answer.content


def test_what_is_none_is_kept_too() -> None:
    assert kept_model(ToolResult(output="42")) == {"success": True, "output": "42", "error": None}
