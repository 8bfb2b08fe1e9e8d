"""One clock decides: the database's, whatever the machines of clients and workers say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import amplifier_runtime
from amplifier_runtime.database.database import Connection, Database, one_of, read_now

_SOURCES = sorted(Path(amplifier_runtime.__file__).parent.rglob("*.py"))
# What reads the wall clock of the machine that runs it, by the last part of its name.
_WALL_CLOCKS = {"now", "utcnow", "today", "time_ns", "localtime", "gmtime", "ctime"}


def _asks_the_machine(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in _WALL_CLOCKS:
        return True
    owner = function.value
    return function.attr == "time" and isinstance(owner, ast.Name) and owner.id == "time"


@pytest.mark.parametrize("source", _SOURCES, ids=lambda path: path.stem)
def test_no_file_of_the_runtime_reads_the_clock_of_its_machine(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    assert [each.lineno for each in calls if _asks_the_machine(each)] == []


async def test_the_present_is_milliseconds_of_the_database(database: Database) -> None:
    whole_seconds = (
        "SELECT CAST(strftime('%s', 'now') AS INTEGER) AS seconds"
        if database.is_sqlite
        else "SELECT CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT) AS seconds"
    )

    def read(connection: Connection) -> tuple[int, int, int]:
        before = one_of(connection, whole_seconds)
        now = read_now(connection)
        after = one_of(connection, whole_seconds)
        assert before is not None
        assert after is not None
        return before["seconds"], now, after["seconds"]

    before, now, after = await database.run(read)
    assert before * 1000 <= now <= (after + 1) * 1000
