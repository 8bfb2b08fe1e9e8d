"""One side of the comparison, in a process of its own; prints what its turns took.

Usage: python -m benchmarks.runtime.side SIDE URL TURNS CONCURRENCY.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from dbos import DBOS, SetWorkflowID

from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock
from amplifier_core.models import ProviderInfo, ToolResult
from amplifier_core.session import AmplifierSession
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database, execute
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.database.row_keys import new_id
from amplifier_runtime.database.store import to_json
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import Worker, WorkerSettings

PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
ANSWER = "The answer of the model, which is a sentence of some length as they are. " * 4
RESPONSE = ChatResponse(content=[TextBlock(text=ANSWER)])
RESULT = ToolResult(output="What the tool found out, in a line.")
NAMES = ("left", "right")


class Model:
    """Answers at once."""

    name = "model"

    def get_info(self) -> ProviderInfo:
        """Return a name."""
        return ProviderInfo(id="model", display_name="Model")

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the answer."""
        return RESPONSE


class Tool:
    """Answers at once; unsafe, so that its intent is journaled too."""

    description, effect = "A tool.", "unsafe"

    def __init__(self, name: str) -> None:
        self.name = name
        self.input_schema: dict[str, Any] = {}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the result."""
        return RESULT


class Loop:
    """One model call, two tools at once, and nothing else."""

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, **kwargs: Any
    ) -> str:
        """Run the turn."""
        await context.add_message({"role": "user", "content": prompt})
        messages = [Message(**each) for each in await context.get_messages()]
        response = await providers["model"].complete(ChatRequest(messages=messages))
        await context.add_message({"role": "assistant", "content": response.content[0].text})
        for result in await asyncio.gather(*(tools[name].execute({"n": 1}) for name in NAMES)):
            await context.add_message({"role": "user", "content": result.output})
        return response.content[0].text


async def mount(session: AmplifierSession) -> None:
    """Put the modules in place."""
    coordinator = session.coordinator
    coordinator.interpose("orchestrator", lambda name, loop: Loop(), name="benchmark")
    await coordinator.mount("providers", Model(), name="model")
    for name in NAMES:
        await coordinator.mount("tools", Tool(name), name=name)


class Modules(TurnPart):
    """Mounts them in every turn, and tells when it has ended: no client has to poll for that."""

    def __init__(self) -> None:
        self.ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def attach(self, run: TurnRun) -> None:
        """Mount."""
        await mount(run.session)

    async def close(self, run: TurnRun) -> None:
        """Tell."""
        self.ended[run.claim.session_id].set()


async def durable(url: str, turns: int, concurrency: int) -> dict[str, float]:
    """Measure turns of the runtime."""
    database = Database(url)
    await migrate(database)
    client = Client(database, "t")
    modules = Modules()
    settings = WorkerSettings(url, concurrency=concurrency, parts=[modules])
    async with Worker(settings) as worker:
        for number in range(turns):
            await client.create_session(f"s{number}", PLAN)

        async def one(number: int) -> None:
            turn = await client.submit(f"s{number}", "Do it.", idempotency_key="k")
            worker.wake()
            await modules.ended[f"s{number}"].wait()
            assert (await client.result(turn.turn_id)).answer == ANSWER

        figures = await measured(one, turns, concurrency)
    database.close()
    return figures


@DBOS.step()
async def keep(value: Any) -> Any:
    """Journal one value by its position."""
    return value


@DBOS.workflow()
async def bare_turn(response: Any, result: Any) -> str:
    """Journal what a turn journals: the answer, two intents, two outcomes."""
    await keep(response)
    await asyncio.gather(*(keep({"started": name}) for name in NAMES))
    await asyncio.gather(*(keep(result) for _ in NAMES))
    return ANSWER


async def bare(url: str, turns: int, concurrency: int) -> dict[str, float]:
    """Measure bare DBOS steps, and the product's rows written by hand beside them."""
    database = Database(url)
    await migrate(database)
    client = Client(database, "t")
    DBOS(config={"name": "bare", "system_database_url": url, "log_level": "WARNING"})
    DBOS.launch()
    for number in range(turns):
        await client.create_session(f"s{number}", PLAN)
    response, result = RESPONSE.model_dump(mode="json"), RESULT.model_dump(mode="json")

    async def one(number: int) -> None:
        turn_id = new_id("turn")
        await database.run(lambda c: submit_by_hand(c, turn_id, f"s{number}"))
        await database.run(lambda c: claim_by_hand(c, turn_id, f"s{number}"))
        with SetWorkflowID(turn_id):
            handle = await DBOS.start_workflow_async(bare_turn, response, result)
        await handle.get_result()
        await database.run(lambda c: finish_by_hand(c, turn_id, f"s{number}"))

    figures = await measured(one, turns, concurrency)
    DBOS.destroy()
    database.close()
    return figures


def submit_by_hand(connection: Connection, turn_id: str, session_id: str) -> None:
    """Write the rows of a new turn."""
    sql = "UPDATE sessions SET turn_count = turn_count + 1 WHERE session_id = :session"
    execute(connection, sql, session=session_id)
    execute(
        connection,
        "INSERT INTO turns (turn_id, tenant_id, session_id, ordinal, idempotency_key, prompt, "
        "ready_at, submitted_at, state) VALUES (:turn, 't', :session, 1, 'k', 'Do it.', 1, 1, "
        "'ready')",
        turn=turn_id,
        session=session_id,
    )


def claim_by_hand(connection: Connection, turn_id: str, session_id: str) -> None:
    """Write what taking a turn writes."""
    execute(connection, "UPDATE turns SET state = 'running' WHERE turn_id = :turn", turn=turn_id)
    sql = "UPDATE sessions SET epoch = epoch + 1 WHERE session_id = :session"
    execute(connection, sql, session=session_id)


def finish_by_hand(connection: Connection, turn_id: str, session_id: str) -> None:
    """Write the result and the messages."""
    sql = "UPDATE turns SET state = 'done', answer = :answer WHERE turn_id = :turn"
    execute(connection, sql, turn=turn_id, answer=ANSWER)
    for position, text in enumerate(("Do it.", ANSWER, RESULT.output, RESULT.output)):
        execute(
            connection,
            "INSERT INTO messages VALUES (:session, :position, :turn, :message)",
            session=session_id,
            position=position,
            turn=turn_id,
            message=to_json({"role": "user", "content": text}),
        )


async def in_process(url: str, turns: int, concurrency: int) -> dict[str, float]:
    """Measure the same turns in sessions that nobody keeps."""

    async def one(number: int) -> None:
        async with AmplifierSession(PLAN) as session:
            await mount(session)
            assert await session.execute("Do it.") == ANSWER

    return await measured(one, turns, concurrency)


async def measured(
    one: Callable[[int], Awaitable[None]], turns: int, concurrency: int
) -> dict[str, float]:
    """Run the turns, so many at a time, and return milliseconds for each."""
    room = asyncio.Semaphore(concurrency)

    async def bounded(number: int) -> None:
        async with room:
            await one(number)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(bounded, range(turns)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall": 1000 * wall / turns, "cpu": 1000 * cpu / turns}


SIDES = {"durable": durable, "bare": bare, "in_process": in_process}


if __name__ == "__main__":
    side, address, count, at_a_time = sys.argv[1:]
    print(json.dumps(asyncio.run(SIDES[side](address, int(count), int(at_a_time)))))
