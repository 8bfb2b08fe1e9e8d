"""Databases for the runtime's tests: SQLite in a file, PostgreSQL on a private server."""

from __future__ import annotations

import asyncio
import shutil
import sys
import uuid
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate

# The programs that the tests start and the modules that their plans name are beside them.
_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))
# What starts processes; the rest runs in one, on SQLite unless a test is about PostgreSQL.
_OF_PROCESSES = {
    "test_children_crashes",
    "test_commands",
    "test_crash_pairs",
    "test_crash_points",
    "test_database_away",
    "test_double_crash",
    "test_events_crash",
    "test_example",
    "test_faults_j",
    "test_liveness",
    "test_recipes",
    "test_signals_processes",
    "test_versions",
}

# Most of what is here waits for a second worker, a deadline or a child. In every other file, what
# takes more than a second or so is marked where it is.
_SLOW = {
    "test_asking_log",
    "test_budgets",
    "test_children",
    "test_overlapping_runs",
    "test_rates",
    "test_return",
    "test_signals",
    "test_signals_steer",
    "test_spawn",
    "test_sweeping",
}

# The engine lets go of its connections without waiting for its threads that still use some.
_ENGINE_ENDS = "ignore:<psycopg.Connection object:ResourceWarning"

# What is lost with the machine anyway need not be kept safe, nor tidied up.
_SETTINGS = "fsync = off\nfull_page_writes = off\nautovacuum = off"
_FILLED = "filled"
_DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.fleet)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what is on PostgreSQL or of many processes to `make test-fleet`.

    The rest is the whole runtime in one process on SQLite: `make check` runs what is quick, and
    `make test-all` what is slow.
    """
    for item in items:
        if not item.path.is_relative_to(_HERE):
            continue
        if item.path.stem in _OF_PROCESSES:
            item.add_marker(pytest.mark.fleet)
        elif item.path.stem in _SLOW:
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.filterwarnings(_ENGINE_ENDS))


async def _fill(url: str) -> None:
    """Make the tables of the runtime and of its engine."""
    database = Database(url)
    await migrate(database)
    database.close()


@pytest.fixture(scope="session")
def postgres() -> Generator[LocalPostgres]:
    with LocalPostgres(settings=_SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def filled_server(postgres: LocalPostgres) -> LocalPostgres:
    """Return a server with a database to copy; making tables takes longer than most tests."""
    asyncio.run(_fill(postgres.create_database(_FILLED)))
    return postgres


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file to copy."""
    file = tmp_path_factory.mktemp("filled") / "runtime.sqlite"
    asyncio.run(_fill(f"sqlite:///{file}"))
    return file


@pytest.fixture(params=_DATABASES)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Callable[[], str]]:
    """Return what makes databases with all tables in them."""
    if request.param == "sqlite":
        file: Path = request.getfixturevalue("filled_file")
        yield lambda: f"sqlite:///{shutil.copy(file, tmp_path / f'{_name()}.sqlite')}"
        return
    server: LocalPostgres = request.getfixturevalue("filled_server")
    made: list[str] = []

    def copy() -> str:
        made.append(_name())
        return server.create_database(made[-1], template=_FILLED)

    yield copy
    # Hundreds of them would be gigabytes.
    for name in made:
        server.drop_database(name)


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


@pytest.fixture(params=_DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.sqlite'}"
    server: LocalPostgres = request.getfixturevalue("postgres")
    return server.create_database(_name())


def _name() -> str:
    return f"test_{uuid.uuid4().hex}"


@pytest.fixture
def database(url: str) -> Generator[Database]:
    database = Database(url, patience_seconds=5)
    yield database
    database.close()


@pytest.fixture
def echo_plan() -> dict[str, Any]:
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
    }
