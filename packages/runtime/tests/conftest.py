"""Databases for the runtime's tests: SQLite in a file, PostgreSQL on a private server."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from amplifier_runtime.database import Database
from amplifier_runtime.local_postgres import LocalPostgres
from amplifier_runtime.migrating import migrate

# The programs that the tests start and the modules that their plans name are beside them.
_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))
_IN_ONE_PROCESS = {"test_store", "test_steps", "test_turns", "test_tenants"}


@pytest.fixture(scope="session")
def postgres() -> Generator[LocalPostgres]:
    with LocalPostgres(settings="fsync = off") as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what starts workers to `make test-fleet`, and the rest to `make test-all`."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            mark = pytest.mark.slow if item.path.stem in _IN_ONE_PROCESS else pytest.mark.fleet
            item.add_marker(mark)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.fleet)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runtime.sqlite'}"
    server: LocalPostgres = request.getfixturevalue("postgres")
    return server.create_database(f"test_{uuid.uuid4().hex}")


@pytest.fixture
async def database(url: str) -> AsyncGenerator[Database]:
    database = Database(url, patience_seconds=5)
    await migrate(database)
    yield database
    database.close()


@pytest.fixture
def echo_plan() -> dict[str, Any]:
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
    }
