"""Ten varied sessions, run with real modules and recorded while they run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_core.llm_errors import LLMError
from amplifier_foundation.live import LiveSession, open_live
from amplifier_foundation.store import SessionStore

Plan = dict[str, Any]


class Answers:
    """An approval system that gives the same answers every time."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        return self._answers.pop(0)


class Lines:
    """A display system that keeps what it is shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(message)


class Session(NamedTuple):
    """What one session is made of and what is done with it."""

    plan: Plan
    run: Callable[[LiveSession], Awaitable[Any]]
    answers: tuple[str, ...] = ()


def call(name: str, **arguments: Any) -> Plan:
    return {"name": name, "arguments": arguments}


def plan_of(
    script: list[Any],
    *,
    loop: Any = "loop-basic",
    context: Any = "context-simple",
    provider: Plan | None = None,
    tools: tuple[Any, ...] = (),
    hooks: tuple[Any, ...] = (),
    **sections: Any,
) -> Plan:
    config = {"script": script, **(provider or {})}
    return {
        "session": {"orchestrator": loop, "context": context},
        "providers": [{"module": "provider-mock", "config": config}],
        "tools": list(tools),
        "hooks": list(hooks),
        **sections,
    }


def files(saved: Path) -> Plan:
    return {"module": "tool-filesystem", "config": {"checkpoint_dir": str(saved)}}


def asking(prompt: str, *more: str) -> Callable[[LiveSession], Awaitable[Any]]:
    async def run(live: LiveSession) -> None:
        for each in (prompt, *more):
            await live.execute(each)

    return run


async def fail_then_succeed(live: LiveSession) -> None:
    with contextlib.suppress(LLMError):
        await live.execute("This one fails.")
    await live.execute("And this one works.")


async def cancel_in_the_middle(live: LiveSession) -> None:
    """Stop the second model call of a turn while it waits, then go on with another turn."""
    calls = 0
    waiting = asyncio.Event()

    async def count(event: str, data: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            waiting.set()

    live.session.coordinator.hooks.register("llm:request", count, name="watch")
    running = asyncio.ensure_future(live.execute("Look, and take your time."))
    async with asyncio.timeout(120):
        await waiting.wait()
        await live.cancel(immediate=True)
        await running
        await live.execute("Go on.")


WRITES = [call("write_file", file_path=f"{name}.txt", content=name) for name in ("one", "two")]
LOOKS = [call("read_file", file_path="notes.md"), call("list_directory", path=".")]
LONG = "word " * 400


def approvals(saved: Path, **config: Any) -> Plan:
    grants = {"grants_file": str(saved / "grants.json")}
    return {"module": "hooks-approval", "config": {**grants, **config}}


def streaming(saved: Path) -> Session:
    script = [{"thinking": "Let me see.", "text": "It streams."}, "And again."]
    plan = plan_of(script, loop="loop-streaming", provider={"stream": True})
    return Session(plan, asking("Stream something.", "Once more."))


def parallel_tools(saved: Path) -> Session:
    script = [{"tool_calls": [*WRITES, *LOOKS]}, {"tool_calls": LOOKS}, "Written and read."]
    plan = plan_of(script, tools=(files(saved),))
    return Session(plan, asking("Write two files and read one."))


def denial(saved: Path) -> Session:
    rule = {"tool": "write_file", "action": "deny", "why": "not here"}
    script = [{"tool_calls": WRITES[:1]}, "It was not allowed."]
    hooks = (approvals(saved, rules=[rule]),)
    return Session(plan_of(script, tools=(files(saved),), hooks=hooks), asking("Write a file."))


def approval(saved: Path) -> Session:
    script = [{"tool_calls": WRITES}, {"tool_calls": WRITES[:1]}, "Done as allowed."]
    plan = plan_of(script, tools=(files(saved),), hooks=(approvals(saved),))
    return Session(plan, asking("Write files, if you may."), ("Allow once", "Deny"))


def compaction(saved: Path) -> Session:
    plan = plan_of(
        [f"{number} {LONG}" for number in range(6)],
        context={"module": "context-simple", "config": {"spill_chars": 100_000}},
        provider={"context_window": 4_000, "max_output_tokens": 500},
    )
    return Session(plan, asking(*[f"Tell me more, {number}. {LONG}" for number in range(6)]))


def sub_agents(saved: Path) -> Session:
    poet = {"module": "provider-mock", "config": {"script": ["Roses are red."]}}
    plan = plan_of(
        [{"tool_calls": [call("task", prompt="A verse.", agent="poet")]}, "The poet wrote."],
        tools=({"module": "tool-task"},),
        agents={"poet": {"description": "Writes verses.", "providers": [poet]}},
    )
    return Session(plan, asking("Have a verse written."))


def failure(saved: Path) -> Session:
    error = {"error": {"type": "InvalidRequestError", "message": "no"}}
    return Session(plan_of([error, "It works."]), fail_then_succeed)


def cancel(saved: Path) -> Session:
    slow = {"text": "Never said.", "delay_seconds": 60}
    plan = plan_of([{"tool_calls": LOOKS}, slow, "Going on."], tools=(files(saved),))
    return Session(plan, cancel_in_the_middle)


def structured_output(saved: Path) -> Session:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    loop = {"module": "loop-basic", "config": {"output_schema": schema}}
    return Session(plan_of(["not JSON", '{"n": 3}'], loop=loop), asking("Give me a number."))


def failover(saved: Path) -> Session:
    down = {"script": [{"error": "ProviderUnavailableError"}], "after_script": "repeat"}
    up = {"script": [{"tool_calls": LOOKS[:1]}, "Answered by the second."]}
    plan = {
        **plan_of([], tools=(files(saved),)),
        "providers": [
            {"module": "provider-failover", "config": {"providers": ["first", "second"]}},
            {"module": "provider-mock", "instance_id": "first", "config": down},
            {"module": "provider-mock", "instance_id": "second", "config": up},
        ],
    }
    return Session(plan, asking("Who answers?"))


TEN = (
    streaming,
    parallel_tools,
    denial,
    approval,
    compaction,
    sub_agents,
    failure,
    cancel,
    structured_output,
    failover,
)
NAMES = tuple(each.__name__ for each in TEN)


async def record(name: str, store: SessionStore, folder: Path) -> str:
    """Run one of the ten in `folder`, recorded in `store`, and return its id."""
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    (project / "notes.md").write_text("# Notes\nA line.\n", encoding="utf-8")
    session = TEN[NAMES.index(name)](folder / "saved")
    async with open_live(
        session.plan,
        store=store,
        project=project,
        approval_system=Answers(*session.answers),
        display_system=Lines(),
    ) as live:
        await session.run(live)
        return live.session_id
