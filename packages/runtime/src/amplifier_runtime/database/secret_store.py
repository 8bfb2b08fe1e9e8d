"""Keys in the database, each encrypted with a key that only workers and operators have.

The encryption key is in an environment variable: one, or several separated by commas. The first
encrypts and all decrypt. To rotate, put a new one before the old one, and remove the old one later.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from amplifier_foundation.installation import install_command
from amplifier_runtime.database.database import Connection, Database, all_among, all_of, execute
from amplifier_runtime.errors import SecretsError

__all__ = ["KEY_VARIABLE", "SHARED", "SecretStore", "new_key"]

KEY_VARIABLE = "AMPLIFIER_SECRETS_KEY"
SHARED = ""
"""The tenant of the keys that all tenants may use."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIBRARY = "cryptography.fernet"


def new_key() -> str:
    """Return a new key for the environment variable."""
    return _library().Fernet.generate_key().decode()


class SecretStore:
    """The table of secrets. Only `read` returns values in clear."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, tenant_id: str, name: str, value: str) -> None:
        """Encrypt and store a key; replaces one of the same name.

        Raises:
            SecretsError: the name is not valid, or there is no key to encrypt it with.
        """
        if not _NAME.fullmatch(name) or name == KEY_VARIABLE:
            raise SecretsError(
                f"`{name}` is not a valid name of a secret.",
                "Use letters, digits and underscores, as in OPENAI_API_KEY.",
            )
        sealed = _sealed(_cipher(), tenant_id, name, value)

        def work(connection: Connection) -> None:
            execute(
                connection,
                "INSERT INTO secrets (tenant_id, name, sealed, created_at) "
                "VALUES (:tenant, :name, :sealed, now_ms()) ON CONFLICT (tenant_id, name) "
                "DO UPDATE SET sealed = excluded.sealed, created_at = excluded.created_at",
                tenant=tenant_id,
                name=name,
                sealed=sealed,
            )

        await self._database.run(work)

    async def names(self) -> list[tuple[str, str, int]]:
        """Return tenant, name and creation time of each secret; never a value."""

        def work(connection: Connection) -> list[tuple[str, str, int]]:
            sql = "SELECT tenant_id, name, created_at FROM secrets ORDER BY tenant_id, name"
            rows = all_of(connection, sql)
            return [(row["tenant_id"], row["name"], row["created_at"]) for row in rows]

        return await self._database.run(work)

    async def remove(self, tenant_id: str, name: str) -> bool:
        """Remove a key; returns False if there is none."""

        def work(connection: Connection) -> bool:
            sql = "DELETE FROM secrets WHERE tenant_id = :tenant AND name = :name"
            return execute(connection, sql, tenant=tenant_id, name=name) == 1

        return await self._database.run(work)

    async def read(self, tenant_id: str, names: Sequence[str]) -> dict[str, str]:
        """Return those of the keys that exist; a tenant's own wins over one for all tenants.

        Raises:
            SecretsError: one of them cannot be decrypted here.
        """
        if not names:
            return {}

        def work(connection: Connection) -> list[dict[str, str]]:
            rows = all_among(
                connection,
                "SELECT tenant_id, name, sealed FROM secrets WHERE name IN :among "
                "AND tenant_id IN (:tenant, :shared) ORDER BY CASE WHEN tenant_id = :shared "
                "THEN 0 ELSE 1 END",
                names,
                tenant=tenant_id,
                shared=SHARED,
            )
            return [dict(row) for row in rows]

        rows = await self._database.run(work)
        if not rows:
            return {}
        cipher = _cipher()
        # Shared rows come first, so that the tenant's own replace them here.
        return {row["name"]: _opened(cipher, **row) for row in rows}

    async def rotate(self) -> int:
        """Encrypt all secrets again with the first key of the variable; returns how many."""
        cipher = _cipher()

        def work(connection: Connection) -> int:
            rows = all_of(connection, "SELECT tenant_id, name, sealed FROM secrets")
            for row in rows:
                value = _opened(cipher, **row)
                execute(
                    connection,
                    # Not if it was set again since it was read.
                    "UPDATE secrets SET sealed = :sealed "
                    "WHERE tenant_id = :tenant AND name = :name AND sealed = :before",
                    sealed=_sealed(cipher, row["tenant_id"], row["name"], value),
                    tenant=row["tenant_id"],
                    name=row["name"],
                    before=row["sealed"],
                )
            return len(rows)

        return await self._database.run(work)


def _library() -> Any:
    try:
        return importlib.import_module(_LIBRARY)
    except ImportError:
        raise SecretsError(
            "Secrets in the database need the library `cryptography`, which is not installed.",
            install_command("cryptography"),
        ) from None


def _cipher() -> Any:
    fernet = _library()
    texts = [each.strip() for each in os.environ.get(KEY_VARIABLE, "").split(",") if each.strip()]
    if not texts:
        raise SecretsError(
            f"`{KEY_VARIABLE}` is not set, so that no secret can be encrypted or decrypted here. "
            "Each worker needs the same key.",
            f"export {KEY_VARIABLE}=$(amplifier runtime secrets new-key)",
        )
    try:
        return fernet.MultiFernet([fernet.Fernet(each) for each in texts])
    except ValueError:
        # Without the original message, which may quote the key.
        raise SecretsError(
            f"`{KEY_VARIABLE}` is not a valid key, or a list of them with commas.",
            "amplifier runtime secrets new-key",
        ) from None


def _sealed(cipher: Any, tenant_id: str, name: str, value: str) -> str:
    # Owner and name are encrypted with the value: a row copied to another tenant is refused.
    text = json.dumps({"tenant": tenant_id, "name": name, "value": value})
    return cipher.encrypt(text.encode()).decode()


def _opened(cipher: Any, tenant_id: str, name: str, sealed: str) -> str:
    fix = f"amplifier runtime secrets set {name}"
    try:
        found = json.loads(cipher.decrypt(sealed.encode()))
    except _library().InvalidToken:
        why = f"The secret `{name}` was encrypted with a key that is not in `{KEY_VARIABLE}` here."
        raise SecretsError(why, fix) from None
    if (found["tenant"], found["name"]) != (tenant_id, name):
        raise SecretsError(f"The row of the secret `{name}` is a copy of another one.", fix)
    return found["value"]
