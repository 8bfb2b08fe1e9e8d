"""Reading: what the records of a session say, as the command and the server show it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amplifier_foundation.live import open_live
from amplifier_foundation.store import SessionStore
from amplifier_journal.readings.explanation import explain
from amplifier_journal.readings.plan_changes import plan_changes
from amplifier_journal.readings.spending import spending
from amplifier_journal.readings.state import state_of
from amplifier_journal.readings.timeline import timeline
from contract.requirements import requirement
from end_to_end.recorded_sessions import NAMES, call, plan_of, record


class Instruction(NamedTuple):
    text: str
    origin: str


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home")


async def records_of(name: str, store: SessionStore, folder: Path) -> list[Any]:
    return list(store.read(await record(name, store, folder)).records())


def priced(text: str, cost: str, **more: Any) -> dict[str, Any]:
    return {
        "text": text,
        "usage": {"cost_usd": cost, "input_tokens": 100, "output_tokens": 7},
    } | more


async def test_the_last_request_is_explained_part_by_part(
    store: SessionStore, tmp_path: Path
) -> None:
    steps = [
        {"tool_calls": [call("todo")]},
        {"text": "Done.", "usage": {"input_tokens": 400, "cache_read_tokens": 300}},
    ]
    given = [Instruction("Be brief.", "bundle:a.md"), Instruction("Be kind.", "bundle:b.md")]
    async with open_live(
        plan_of(steps, tools=({"module": "tool-todo"},)),
        store=store,
        project=tmp_path,
        instructions=given,
    ) as live:
        hooks = live.session.coordinator.hooks
        hooks.register("tool:post", lambda event, data: INJECTION, name="reminder")
        await live.execute("What is left?")

    explained = explain(store.read(live.session_id).records())

    assert explained is not None
    shown = [(part.role, part.origin) for part in explained.parts]
    assert shown[:4] == [
        ("system", "bundle:a.md"),
        ("system", "bundle:b.md"),
        ("user", "the user, in turn 1"),
        ("assistant", "the model, in turn 1"),
    ]
    assert ("tool", "result of `todo` in turn 1") in shown
    assert ("tool_spec", "tool `todo` of tool-todo") in shown
    assert ("user", "added to this request only, by a hook, the loop or the memory") in shown
    assert [part.value for part in explained.parts[:2]] == ["Be brief.", "Be kind."]
    assert abs(sum(part.tokens for part in explained.parts) - 400) <= len(explained.parts)
    assert {part.cached for part in explained.parts} == {True, False}
    assert (explained.stop_reason, explained.why) == ("completed", "the provider reports `stop`")


INJECTION = {
    "action": "inject_context",
    "context_injection": "Mind the list.",
    "context_injection_role": "user",
    "ephemeral": True,
}


async def test_the_rule_that_decided_is_named(store: SessionStore, tmp_path: Path) -> None:
    explained = explain(await records_of("denial", store, tmp_path))

    assert explained is not None
    (decision,) = explained.decisions
    assert (decision.tool, decision.decision) == ("write_file", "denied")
    assert "rule 1: deny `write_file`" in decision.reason


async def test_why_a_turn_stopped_is_told(store: SessionStore, tmp_path: Path) -> None:
    records = await records_of("failure", store, tmp_path)
    failed = next(each for each in records if each.kind == "model.call").data["call"]

    explained = explain(records, failed)

    assert explained is not None
    assert (explained.stop_reason, explained.why) == ("error", "InvalidRequestError: no")
    assert explain([]) is None


@requirement("PROV-12")
async def test_the_leaves_add_up_to_what_the_session_cost(
    store: SessionStore, tmp_path: Path
) -> None:
    poet = {"module": "provider-mock", "config": {"script": [priced("A verse.", "0.0000003")]}}
    task = {"tool_calls": [call("task", prompt="A verse.", agent="poet")]}
    plan = plan_of(
        [priced("", "0.1", **task), priced("Done.", "0.2")],
        tools=({"module": "tool-task"},),
        agents={"poet": {"description": "Writes.", "providers": [poet]}},
    )
    async with open_live(plan, store=store, project=tmp_path) as live:
        await live.execute("Have a verse written.")
        cost = live.cost_usd
    records = list(store.read(live.session_id).records())
    children = {e: list(store.read(e).records()) for e in state_of(records).children}

    spent = spending(records, children)

    assert spent.cost_usd == cost == Decimal("0.3000003")
    assert sum((each.cost_usd or 0 for each in spent.leaves), Decimal(0)) == cost
    assert sum((each.cost_usd or 0 for each in spent.by_module()), Decimal(0)) == cost
    assert spent.by_module()[0].module == "provider-mock"
    assert spent.by_module()[0].calls == 3
    assert {"provider-mock", "tool-task", "loop"} == {each.module for each in spent.by_module()}
    assert spent.unpriced_calls == 0


async def test_a_failover_is_not_charged_twice(store: SessionStore, tmp_path: Path) -> None:
    records = await records_of("failover", store, tmp_path)

    kinds = [(each.kind, each.name) for each in spending(records).leaves]

    assert kinds.count(("composite", "failover")) == 2
    assert kinds.count(("model", "second")) == 2
    assert state_of(records).cost_usd == spending(records).cost_usd == 0


async def test_the_time_of_a_person_is_not_the_loops(store: SessionStore, tmp_path: Path) -> None:
    records = await records_of("approval", store, tmp_path)
    asked = next(each for each in records if each.kind == "approval")
    ended = next(each for each in records if each.kind == "turn.ended")
    asked.data["seconds"] = 3600.0
    ended.data["seconds"] += 3600.0

    shares = {each.module: each.seconds for each in spending(records).by_module()}

    assert shares["user"] >= 3600.0
    assert shares["loop"] < 60.0


@pytest.mark.parametrize("name", NAMES)
async def test_every_session_has_a_timeline_without_gaps_in_its_nesting(
    name: str, store: SessionStore, tmp_path: Path
) -> None:
    spans = timeline(await records_of(name, store, tmp_path))

    known = {span.id: span for span in spans}
    assert spans[0].kind == "turn"
    for span in spans:
        assert 0 <= span.start <= span.end
        if span.parent is not None:
            assert known[span.parent].start <= span.start + 1e-6
            assert span.end <= known[span.parent].end + 1e-6
    if name == "cancel":
        assert [span.ok for span in spans if span.kind == "model"].count(False) == 1


def test_plans_differ_in_lines_that_say_where() -> None:
    before = {"session": {"context": "a"}, "tools": [{"module": "x", "config": {"n": 1}}]}
    after = {"session": {"context": "b"}, "tools": [{"module": "x", "config": {"n": 2}}]}

    assert plan_changes(before, after) == [
        'session.context: "a" -> "b"',
        "tools.x.config.n: 1 -> 2",
    ]
    assert plan_changes(before, before) == []
    assert plan_changes(None, after) == []
