"""Workers in processes of their own for measurements, and what they and PostgreSQL use meanwhile.

`python -m benchmarks.runtime.fleet URL CONCURRENCY SECONDS` is such a worker, with all parts of a
real one, whose model takes SECONDS to answer.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.runtime.side import ANSWER, Tool

from amplifier_core import events
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_core.models import HookResult, ProviderInfo
from amplifier_runtime.database.database import Database, all_of, one_of
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import WorkerSettings, run_worker
from amplifier_runtime.worker_parts import all_parts

PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
ASK = "Ask me first."
"""The prompt of a turn that waits for a person before its tools run."""
NAMES = ("left", "right")


class Model:
    """Calls two tools at once, then answers: two model calls and two unsafe tools a turn."""

    name = "model"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def get_info(self) -> ProviderInfo:
        """Return a name."""
        return ProviderInfo(id="model", display_name="Model")

    async def list_models(self) -> list[Any]:
        """Return none."""
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return what the response calls."""
        return response.tool_calls or []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Answer when it is time."""
        await asyncio.sleep(self._seconds)
        if request.messages[-1].role == "tool":
            return ChatResponse(content=[TextBlock(text=ANSWER)])
        calls = [ToolCall(id=f"call_{name}", name=name, arguments={"n": 1}) for name in NAMES]
        blocks = [ToolCallBlock(id=each.id, name=each.name, input=each.arguments) for each in calls]
        return ChatResponse(content=[*blocks], tool_calls=calls)


class Modules(TurnPart):
    """Mounts the model and the tools, and asks where the prompt says so."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def prepare(self, run: TurnRun) -> None:
        """Mount."""
        coordinator = run.session.coordinator
        await coordinator.mount("providers", Model(self._seconds), name="model")
        for name in NAMES:
            await coordinator.mount("tools", Tool(name), name=name)

    async def attach(self, run: TurnRun) -> None:
        """Ask."""

        async def ask(event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(
                action="ask_user", approval_prompt="Go on?", approval_timeout=1_000_000.0
            )

        if run.claim.prompt == ASK:
            run.session.coordinator.hooks.register(events.TOOL_PRE, ask)


def start(url: str, concurrency: int, seconds: float = 0.0) -> subprocess.Popen[bytes]:
    """Start a worker."""
    words = (url, str(concurrency), str(seconds))
    return subprocess.Popen([sys.executable, "-m", "benchmarks.runtime.fleet", *words])


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return what processes have used so far."""
    assert sys.platform == "linux", "only Linux has /proc"
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return how much memory a process has."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    line = next(each for each in lines if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def server_cpu_seconds(database: Database) -> float:
    """Return what the server's processes that live now have used so far."""
    row = database.transact(lambda c: one_of(c, "SELECT pg_backend_pid() AS pid"))
    assert row is not None
    parent = Path(f"/proc/{row['pid']}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    postmaster = parent.split()[1]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="utf-8")
    return cpu_seconds([int(each) for each in children.split()])


def tables(database: Database) -> dict[str, dict[str, int]]:
    """Return rows, bytes and writes of every table."""
    sql = (
        "SELECT schemaname || '.' || relname AS name, pg_total_relation_size(relid) AS bytes, "
        "n_tup_ins AS inserted, n_tup_upd AS updated, n_tup_hot_upd AS in_place, "
        "n_tup_del AS deleted "
        "FROM pg_stat_user_tables"
    )
    rows = database.transact(lambda connection: all_of(connection, sql))
    numbers = ("bytes", "inserted", "updated", "in_place", "deleted")
    return {row["name"]: {each: int(row[each]) for each in numbers} for row in rows}


def connections(database: Database) -> int:
    """Return how many clients the server has, apart from this one."""
    sql = (
        "SELECT COUNT(*) AS number FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    row = database.transact(lambda connection: one_of(connection, sql))
    assert row is not None
    return row["number"]


def written(database: Database) -> tuple[int, int]:
    """Return the bytes of WAL and the transactions so far."""
    sql = (
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS wal, xact_commit AS commits "
        "FROM pg_stat_database WHERE datname = current_database()"
    )
    row = database.transact(lambda connection: one_of(connection, sql))
    assert row is not None
    return int(row["wal"]), int(row["commits"])


def work(url: str, concurrency: int, seconds: float) -> None:
    """Be a worker."""
    database = Database(url, connections=4)
    parts = [*all_parts(database), Modules(seconds)]
    asyncio.run(run_worker(WorkerSettings(url, concurrency=concurrency, parts=parts)))
    database.close()


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
