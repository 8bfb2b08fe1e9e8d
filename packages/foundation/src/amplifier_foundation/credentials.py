"""Keys, from the environment, a file that only its owner may read, or the system's keyring."""

from __future__ import annotations

import importlib
import importlib.util
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplifier_foundation import paths
from amplifier_foundation.config.plain_files import open_plain, require_own
from amplifier_foundation.errors import SettingsError
from amplifier_kit.durable_files import make_private_folder, write_whole

__all__ = ["Credential", "find_key", "find_key_in_keyring", "masked", "store_key"]

_KEYRING_SERVICE = "amplifier"


class Credential:
    """A key and where it was found; neither `repr` nor `str` shows its value."""

    __slots__ = ("name", "origin", "value")

    def __init__(self, name: str, value: str, origin: str) -> None:
        self.name = name
        self.value = value
        self.origin = origin

    def __repr__(self) -> str:
        return f"<Credential {self}>"

    def __str__(self) -> str:
        return f"{self.name} ({masked(self.value)}, {self.origin})"


def masked(value: str) -> str:
    """Return what may be shown of a key: enough to distinguish two keys, too little to use one."""
    # Four characters of a short key would give away too much of it.
    if len(value) >= 20:
        return f"...{value[-4:]}"
    return "..."


def find_key(
    name: str, *, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> Credential | None:
    """Return the key, or None; a project's files are never searched for it.

    Raises:
        SettingsError: others can read the file with the keys, or it is damaged.
    """
    value = (os.environ if environ is None else environ).get(name)
    if value:
        return Credential(name, value, "environment")
    path = paths.credentials_file(home or paths.home())
    value = _read_file(path).get(name)
    if value:
        return Credential(name, value, str(path))
    value = find_key_in_keyring(name)
    if value:
        return Credential(name, value, "keyring")
    return None


def store_key(name: str, value: str, *, home: Path | None = None) -> Path:
    """Write a key into the file that only its owner may read, and return its path.

    Raises:
        SettingsError: others can read the file that is there, or it is damaged.
    """
    import yaml  # noqa: PLC0415 - only when a key is stored

    path = paths.credentials_file(home or paths.home())
    keys = _read_file(path)
    keys[name] = value
    make_private_folder(path.parent)
    write_whole(path, yaml.safe_dump(keys, sort_keys=True).encode())
    return path


def _read_file(path: Path) -> dict[str, str]:
    try:
        file = open_plain(path)
    except FileNotFoundError:
        return {}
    except OSError as unreadable:
        raise SettingsError(
            f"The keys in `{path}` cannot be read.", why=f"{unreadable.strerror}."
        ) from unreadable
    with file:
        # Check the open file, not its path: the file there could be replaced before it is read.
        _refuse_readable(path, os.fstat(file.fileno()))
        require_own(path, SettingsError, file=file)
        text = file.read().decode("utf-8", "replace")
    return _parse(path, text)


def _refuse_readable(path: Path, found: os.stat_result) -> None:
    # A file of another user is refused by `require_own`: here chmod is the fix, there it fails.
    # Windows has no modes; there `require_own` asks for the profile.
    if sys.platform != "win32" and found.st_uid == os.geteuid() and found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise SettingsError(
            f"The keys in `{path}` were not read.",
            why=f"Others on this machine have access to the file (mode {mode:04o}).",
            fix=f"chmod 600 {path}",
        )


def _parse(path: Path, text: str) -> dict[str, str]:
    from amplifier_foundation.config.documents import (  # noqa: PLC0415 - most starts need no YAML here
        parse_mapping,
    )

    try:
        keys = parse_mapping(text, where=str(path), error=SettingsError)
    except SettingsError:
        # YAML errors quote the line they stumble over, and here that is a key.
        why = "Each line is `NAME: value`."
        raise SettingsError(f"`{path}` is not valid YAML.", why=why) from None
    return {name: str(value) for name, value in keys.items() if value is not None}


def find_key_in_keyring(name: str) -> str | None:
    """Return the key of this name in the system's keyring; None without a keyring or a key."""
    if importlib.util.find_spec("keyring") is None:
        return None
    keyring: Any = importlib.import_module("keyring")
    try:
        return keyring.get_password(_KEYRING_SERVICE, name)
    except Exception:
        # Each backend raises errors of its own; a keyring that fails counts as one without the key.
        import logging  # noqa: PLC0415 - a start without trouble does not need it

        logging.getLogger(__name__).exception("keyring failed name=%s", name)
        return None
