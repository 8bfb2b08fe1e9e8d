"""The PostgreSQL of `make cluster` is for its user alone, and its role cannot run programs."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from amplifier_runtime.cluster import cluster
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_sandbox.platforms.users import is_administrator

pytestmark = [pytest.mark.fleet, pytest.mark.attack("review M14")]

_ROLES = ("postgres", "amplifier")


@pytest.fixture(scope="module")
def server() -> Generator[LocalPostgres]:
    with LocalPostgres(settings="fsync = off") as server:
        yield server


def connect(url: str) -> sa.Engine:
    address = sa.make_url(url).set(drivername="postgresql+psycopg")
    return sa.create_engine(address, poolclass=sa.NullPool)


def query(url: str, sql: str) -> list[object]:
    with connect(url).begin() as connection:
        return list(connection.execute(sa.text(sql)).scalars())


def without_secrets(url: str, **changes: str) -> str:
    """Return a URL as somebody would write it who knows no more than the port."""
    address = sa.make_url(url).set(password=None, query={}, **changes)  # pyright: ignore[reportArgumentType] - names of its parts
    return address.render_as_string(hide_password=False)


@pytest.mark.parametrize("role", _ROLES)
def test_nobody_connects_without_the_password(server: LocalPostgres, role: str) -> None:
    url = without_secrets(server.url, username=role, database="postgres")
    with pytest.raises(DBAPIError, match=r"no password supplied|does not exist"):
        query(url, "SELECT 1")


@pytest.mark.parametrize("role", _ROLES)
@pytest.mark.skipif(not is_administrator(), reason="only root can be another user")
def test_another_user_of_the_machine_runs_no_program(
    server: LocalPostgres, role: str, tmp_path: Path
) -> None:
    proof = Path("/tmp") / f"ran-{tmp_path.name}"
    setpriv = shutil.which("setpriv")
    psql = shutil.which("psql")
    assert setpriv is not None
    assert psql is not None
    done = subprocess.run(
        [
            *(setpriv, "--reuid=12345", "--regid=12345", "--clear-groups"),
            *(psql, "-w", "-h", "127.0.0.1", "-p", str(server.port), "-U", role, "postgres"),
            *("-c", f"COPY (SELECT 1) TO PROGRAM 'id > {proof}'"),
        ],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        timeout=30,
        check=False,
    )
    ran = proof.exists()
    proof.unlink(missing_ok=True)
    assert (ran, done.returncode != 0) == (False, True), done.stderr


def test_the_application_cannot_run_programs_or_read_files(server: LocalPostgres) -> None:
    url = server.create_database("programs")
    [is_superuser] = query(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    assert is_superuser is False
    for sql in (
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT pg_read_file('/etc/passwd')",
        "CREATE ROLE another SUPERUSER",
        "CREATE DATABASE another",
        "ALTER SYSTEM SET log_connections = 'on'",
    ):
        with pytest.raises(DBAPIError):
            query(url, sql)


def test_the_application_uses_only_databases_that_it_owns(server: LocalPostgres) -> None:
    url = server.create_database("owned")
    sql = "SELECT pg_get_userbyid(datdba) = current_user FROM pg_database WHERE datname = 'owned'"
    assert query(url, sql) == [True]
    for other in ("postgres", "template1"):
        address = sa.make_url(url).set(database=other)
        with pytest.raises(DBAPIError, match="permission denied"):
            query(address.render_as_string(hide_password=False), "SELECT 1")


def test_every_line_of_the_server_asks_for_a_password(server: LocalPostgres) -> None:
    settings = Path(tempfile.gettempdir()).glob("amplifier-postgresql-*/data/postgresql.conf")
    is_its = f"port = {server.port}\n"
    [own] = [each for each in settings if is_its in each.read_text(encoding="utf-8")]
    # The folder of the socket and of the data, with the rules in it.
    folder = own.parent.parent
    assert f"unix_socket_directories = '{folder}'" in own.read_text(encoding="utf-8")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    rules = (folder / "data" / "pg_hba.conf").read_text(encoding="utf-8").splitlines()
    methods = {line.split()[-1] for line in rules if line.strip() and not line.startswith("#")}
    assert methods == {"scram-sha-256"}


def test_the_password_is_in_a_private_file_and_not_in_the_address(server: LocalPostgres) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no owners and modes of files")
    address = sa.make_url(server.create_database("file"))
    assert address.password is None
    assert "passfile" in address.query
    path = Path(str(address.query["passfile"]))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.stat().st_uid == os.geteuid()


def test_the_cluster_works_as_a_role_without_power() -> None:
    with cluster(workers=1) as url:
        [is_superuser] = query(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        assert is_superuser is False
        assert query(url, "SELECT state FROM amplifier.workers") == ["alive"]
