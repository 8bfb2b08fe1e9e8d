"""The keys that a plan refers to: looked up by the worker that claimed a turn, never stored."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from amplifier_foundation.credentials import find_key, find_key_in_keyring
from amplifier_foundation.errors import SettingsError
from amplifier_foundation.installation import install_command
from amplifier_kit.secrets.log_records import scrub_log_records
from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.plan_references import Reference, mapped, references_in, replaced
from amplifier_runtime.database.secret_store import KEY_VARIABLE, SecretStore
from amplifier_runtime.errors import MissingKeyError

__all__ = ["PlanKeys"]

# One reference to these would give the author of a plan all secrets, or the whole database.
_WITHHELD = frozenset({KEY_VARIABLE, "AMPLIFIER_DATABASE_URL"})


class PlanKeys:
    """The keys that the plans of one turn refer to, in memory while it runs."""

    def __init__(self, database: Database, tenant_id: str) -> None:
        self._secrets = SecretStore(database)
        self._tenant_id = tenant_id
        # The text with references, by the text it was resolved to.
        self._written: dict[str, str] = {}
        self._values: set[str] = set()

    def values(self) -> list[str]:
        """Return the keys found so far, which no log may show."""
        return sorted(self._values)

    async def resolve(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of a plan with its references replaced by the keys.

        Raises:
            MissingKeyError: one of them was not found.
            SecretsError: it is in the database and cannot be decrypted.
        """
        wanted: set[Reference] = set()

        def note(text: str) -> str:
            wanted.update(references_in(text))
            return text

        mapped(plan, note)
        if not wanted:
            return plan
        names = sorted({each.name for each in wanted if each.place in ("any", "secret")})
        stored = await self._secrets.read(self._tenant_id, names)
        found = {each: _find(each, stored) for each in wanted}
        self._values.update(found.values())

        def change(text: str) -> str:
            changed = replaced(text, found.__getitem__)
            if changed != text:
                self._written[changed] = text
            return changed

        return mapped(plan, change)

    def blank_in_logs(self) -> Callable[[], None]:
        """Blank the keys found so far in the process's log records; returns how to stop it."""
        if not self._values:
            return _nothing
        return scrub_log_records(Scrubber(dict.fromkeys(self._values, "key"), guesses=False))

    def seal(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of a plan with resolved keys put back to their references."""
        return mapped(plan, lambda text: self._written.get(text, text))


def _nothing() -> None:
    """Do nothing, because nothing is blanked."""


def _find(wanted: Reference, stored: dict[str, str]) -> str:
    place, name = wanted
    value: str | None = None
    if name in _WITHHELD:
        raise MissingKeyError(name, "Plans may not use it.")
    if place in ("any", "secret"):
        value = stored.get(name)
    if place == "env":
        value = os.environ.get(name)
    elif place == "keyring":
        value = _of_keyring(name)
    elif place == "any" and value is None:
        value = _of_this_machine(name)
    if not value:
        raise MissingKeyError(name)
    return value


def _of_this_machine(name: str) -> str | None:
    try:
        found = find_key(name)
    except SettingsError as error:
        raise MissingKeyError(name, f"{error.message} {error.why}") from None
    if found is None:
        return None
    return found.value


def _of_keyring(name: str) -> str | None:
    if importlib.util.find_spec("keyring") is None:
        command = install_command("keyring")
        raise MissingKeyError(name, f"Install the keyring on each worker: {command}")
    return find_key_in_keyring(name)
