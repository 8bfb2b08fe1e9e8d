"""What is there when a run is over: in the database, at the vendor, and in the file of effects."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amplifier_runtime.database.database import Connection, Database, Row, all_of, one_of
from chaos.people import People, View
from chaos.script import SessionScript, TurnScript
from chaos.storm import Damage
from chaos.vendor import Ask

# What must not be there any more when all turns have ended.
_LEFT = {
    "open turns": "turns WHERE state NOT IN ('done')",
    "open questions": "approvals WHERE state = 'open'",
    "open holds": "holds WHERE state = 'open'",
    "live events": "live_events",
    "open children": "children WHERE stop_reason IS NULL",
}


@dataclass(frozen=True)
class Kept:
    """One model call in the journal: of which epoch, and when it was committed."""

    epoch: int
    at: float


@dataclass(frozen=True)
class Event:
    """One record of a log."""

    seq: int
    turn_id: str
    kind: str
    data: dict[str, Any]
    at: int

    @property
    def name(self) -> str:
        """The name of an event, else the kind of the record."""
        if self.kind == "event":
            return self.data["name"]
        return self.kind


@dataclass
class Evidence:
    """All of it; turns, logs and histories are those of the children too."""

    sessions: list[SessionScript]
    scripts: dict[str, TurnScript]
    complaints: list[str]
    views: dict[str, View]
    damage: Damage
    asks: list[Ask]
    effects: list[list[str]]
    turns: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    kept: dict[tuple[str, str], Kept] = field(default_factory=dict[tuple[str, str], Kept])
    logs: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    histories: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict[str, list[dict[str, Any]]]
    )
    accounts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    left: dict[str, int] = field(default_factory=dict[str, int])
    answers: int = 0

    def dump(self, path: Path) -> None:
        """Write it down for whoever wants to know why."""
        names = ("damage", "asks", "effects", "turns", "logs", "histories", "accounts", "left")
        told = {name: getattr(self, name) for name in names}
        path.write_text(json.dumps(told, default=vars, indent=1), encoding="utf-8")


async def gather(
    database: Database,
    sessions: list[SessionScript],
    people: People,
    damage: Damage,
    asks: list[Ask],
    effects: list[list[str]],
) -> Evidence:
    """Read everything at one moment."""
    found = Evidence(
        sessions, people.scripts, people.complaints, people.views, damage, asks, effects
    )

    def work(connection: Connection) -> None:
        found.turns = [dict(row) for row in all_of(connection, "SELECT * FROM turns")]
        found.kept = _kept(connection)
        found.logs = _logs(connection)
        found.histories = _histories(connection)
        found.accounts = [dict(row) for row in all_of(connection, "SELECT * FROM accounts")]
        found.left = {name: _count(connection, what) for name, what in _LEFT.items()}
        found.answers = _count(connection, "approvals WHERE state = 'answered'")

    await database.run(work)
    return found


def _count(connection: Connection, what: str) -> int:
    row = one_of(connection, f"SELECT COUNT(*) AS found FROM {what}")
    assert row is not None
    return row["found"]


def _kept(connection: Connection) -> dict[tuple[str, str], Kept]:
    """Read the journal's model calls, with the server's own word for when each was committed."""
    rows = all_of(
        connection,
        "SELECT workflow_uuid, key, value, "
        "EXTRACT(EPOCH FROM pg_xact_commit_timestamp(xmin))::float AS at "
        "FROM dbos.workflow_events WHERE key LIKE 'llm:%'",
    )
    return {(row["workflow_uuid"], row["key"]): _kept_call(row) for row in rows}


def _kept_call(row: Row) -> Kept:
    return Kept(json.loads(row["value"])["epoch"], row["at"])


def _logs(connection: Connection) -> dict[str, list[Event]]:
    logs: defaultdict[str, list[Event]] = defaultdict(list)
    for row in _ordered(connection, "events", "seq"):
        data = json.loads(row["data"])
        event = Event(row["seq"], row["turn_id"], row["name"], data, row["created_at"])
        logs[row["session_id"]].append(event)
    return dict(logs)


def _histories(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    histories: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _ordered(connection, "messages", "position"):
        histories[row["session_id"]].append(json.loads(row["message"]))
    return dict(histories)


def _ordered(connection: Connection, table: str, place: str) -> Sequence[Row]:
    return all_of(connection, f"SELECT * FROM {table} ORDER BY session_id, {place}")
