"""Tests of every tool that spawns: what holds for a session holds for its grandchildren."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult
from amplifier_core.testing import EventRecorder
from contract.requirements import requirement

# The tools that spawn, with the arguments by which each asks an agent, waits for it and reads it.
SPAWNS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "foreground": [("task", {"prompt": "Go on."})],
    "background": [
        ("task", {"prompt": "Go on.", "background": True}),
        ("task_result", {"handle": "task-1", "wait_seconds": 5}),
    ],
}
every_way = pytest.mark.parametrize("way", SPAWNS)


def model(*script: Any) -> list[dict[str, Any]]:
    return [{"module": "provider-mock", "config": {"script": list(script)}}]


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


def family(way: str, leaf: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Return the plan of a session that asks a child that asks a grandchild to do `leaf`."""

    def delegates(agent: str) -> list[dict[str, Any]]:
        steps = [call(tool, dict(given)) for tool, given in SPAWNS[way]]
        steps[0]["tool_calls"][0]["arguments"]["agent"] = agent
        return model(*steps, "Done.")

    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": delegates("child"),
        "tools": [{"module": "tool-task"}, {"module": "tool-filesystem"}],
        "agents": {
            "child": {"providers": delegates("grandchild")},
            "grandchild": {"providers": model(leaf, "Done.")},
        },
        **sections,
    }


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


WRITE = call("write_file", {"file_path": "leaf.txt", "content": "written"})


@every_way
@pytest.mark.parametrize("guard", ["deny", "fail", None])
@requirement("LAW-9")
async def test_a_guard_of_the_root_denies_the_same_call_in_a_grandchild(
    way: str, guard: str | None, tmp_path: Any
) -> None:
    seen: list[tuple[str, str]] = []

    async def decide(event: str, data: dict[str, Any]) -> HookResult:
        if data["tool_name"] != "write_file":
            return HookResult()
        seen.append((data["session_id"], data["parent_id"]))
        if guard == "fail":
            raise RuntimeError("the guard is broken")
        return HookResult(action="deny", reason="no writing") if guard else HookResult()

    async with AmplifierSession(family(way, WRITE), session_id="root") as root:
        root.coordinator.hooks.register("tool:pre", decide, on_error="deny")
        async with asyncio.timeout(120):
            await root.execute("Start.")

    [(session_id, parent_id)] = seen
    assert session_id.startswith(f"{parent_id}-")
    assert parent_id.startswith("root-")
    assert (tmp_path / "work" / "leaf.txt").exists() is (guard is None)


@every_way
async def test_the_person_is_asked_for_a_grandchild_too(way: str, tmp_path: Any) -> None:
    asked: list[str] = []

    class Approvals:
        async def request_approval(
            self, prompt: str, options: list[str], timeout: float, default: str
        ) -> str:
            asked.append(prompt)
            return "Deny"

    async def ask(event: str, data: dict[str, Any]) -> HookResult:
        is_write = data["tool_name"] == "write_file"
        question = {"approval_prompt": "May it write?", "approval_options": ["Allow", "Deny"]}
        return HookResult.model_validate({"action": "ask_user", **question} if is_write else {})

    plan = family(way, WRITE)
    async with AmplifierSession(plan, approval_system=Approvals()) as root:
        root.coordinator.hooks.register("tool:pre", ask, on_error="deny")
        async with asyncio.timeout(120):
            await root.execute("Start.")

    assert asked == ["May it write?"]
    assert not (tmp_path / "work" / "leaf.txt").exists()


@every_way
@pytest.mark.parametrize(("depth", "agents"), [(1, 1), (2, 2)])
async def test_a_budget_of_the_root_gives_the_leases_of_the_whole_tree(
    way: str, depth: int, agents: int
) -> None:
    budget = {"module": "hooks-budget", "config": {"depth": depth}, "required": True}
    recorder = EventRecorder()

    async with AmplifierSession(family(way, WRITE, hooks=[budget])) as root:
        root.coordinator.hooks.register("task:started", recorder.record)
        async with asyncio.timeout(120):
            await root.execute("Start.")

    assert len(recorder.get_events()) == agents


@every_way
async def test_cancelling_the_root_at_once_reaches_a_grandchild(way: str) -> None:
    hangs = {"text": "I wait.", "delay_seconds": 3600}
    running, ended = asyncio.Event(), asyncio.Event()

    async def note(event: str, data: dict[str, Any]) -> None:
        if data["depth"] == 2:
            (running if event == "task:started" else ended).set()

    async with AmplifierSession(family(way, hangs)) as root:
        for event in ("task:started", "task:finished"):
            root.coordinator.hooks.register(event, note)
        turn = asyncio.create_task(root.execute("Start."))
        async with asyncio.timeout(120):
            await running.wait()
            await root.coordinator.request_cancel(immediate=True)
            await turn
            await ended.wait()
