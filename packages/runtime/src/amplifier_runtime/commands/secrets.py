"""`amplifier runtime secrets`: the keys that plans refer to, encrypted in the database."""

from __future__ import annotations

import json
import sys

import click

from amplifier_foundation.errors import FoundationError
from amplifier_runtime.commands.address import database_option, run_on
from amplifier_runtime.commands.output import ask_secret, say
from amplifier_runtime.database.clock import iso
from amplifier_runtime.database.database import Connection, Database, all_of
from amplifier_runtime.database.migrate import check_schema
from amplifier_runtime.database.plan_references import clear_keys_in
from amplifier_runtime.database.row_keys import NAME
from amplifier_runtime.database.secret_store import SHARED, SecretStore, new_key

__all__ = ["secrets"]

_tenant_option = click.option(
    "--tenant", default=SHARED, metavar="ID", help="Whose key it is; without it, for all tenants."
)


@click.group()
def secrets() -> None:
    """Keys that plans refer to as ${NAME}, encrypted in the database."""


@secrets.command("set")
@database_option
@_tenant_option
@click.argument("name")
def set_(url: str, tenant: str, name: str) -> None:
    """Store the key NAME, which is read from the terminal or from standard input."""
    # Never an argument: other users of the machine can list those, and shells keep them.
    if sys.stdin.isatty():
        given = ask_secret(name)
    else:
        given = sys.stdin.readline()
    value = given.strip()
    if not value:
        raise FoundationError(
            "No value was given.", fix=f"printenv {name} | amplifier runtime secrets set {name}"
        )

    async def work(database: Database) -> None:
        await check_schema(database)
        await SecretStore(database).set(tenant, name, value)

    run_on(url, work)
    say(f"{name} is stored. In a plan, write ${{{name}}}.")


@secrets.command("list")
@database_option
def list_(url: str) -> None:
    """List the names of the keys, never their values."""

    async def work(database: Database) -> list[tuple[str, str, int]]:
        await check_schema(database)
        return await SecretStore(database).names()

    found = run_on(url, work)
    for tenant, name, at in found:
        say(f"{name}  {f'tenant {tenant}' if tenant else 'all tenants'}  since {iso(at)}")
    if not found:
        say("No secrets are stored.")


@secrets.command()
@database_option
@_tenant_option
@click.argument("name")
def remove(url: str, tenant: str, name: str) -> None:
    """Remove the key NAME."""

    async def work(database: Database) -> bool:
        await check_schema(database)
        return await SecretStore(database).remove(tenant, name)

    if not run_on(url, work):
        raise FoundationError(f"There is no secret `{name}`.", fix="amplifier runtime secrets list")
    say(f"{name} is removed.")


@secrets.command("new-key")
def new_key_() -> None:
    """Print a new key for AMPLIFIER_SECRETS_KEY."""
    say(new_key())


@secrets.command()
@database_option
def rotate(url: str) -> None:
    """Encrypt all keys again, with the first key of AMPLIFIER_SECRETS_KEY."""

    async def work(database: Database) -> int:
        await check_schema(database)
        return await SecretStore(database).rotate()

    say(f"{run_on(url, work)} secrets are encrypted with the first key.")


@secrets.command()
@database_option
def check(url: str) -> None:
    """List sessions of before whose plans have a key in clear."""

    def read(connection: Connection) -> list[str]:
        rows = all_of(connection, f"SELECT {NAME} AS name, tenant_id, plan FROM sessions")
        return [
            f"session {row['name']} of tenant {row['tenant_id']}: {', '.join(found)}"
            for row in rows
            if (found := clear_keys_in(json.loads(row["plan"])))
        ]

    async def work(database: Database) -> list[str]:
        await check_schema(database)
        return await database.run(read)

    lines = run_on(url, work)
    for line in lines:
        say(line)
    say(f"{len(lines)} sessions have a key in clear in their plan.")
