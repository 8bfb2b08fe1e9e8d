"""`amplifier.lock`: the commit and the content hash of everything a project takes from elsewhere.

JSON with sorted keys, so that a change reads well in review, and without paths of one machine, so
that everybody shares it. Modules are kept by their id, bundles by their source.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from amplifier_foundation.sources.errors import (
    DriftError,
    FetchError,
    LockFileError,
    MissingSourceError,
)
from amplifier_foundation.sources.uri import Source

__all__ = ["ELSEWHERE", "LOCK_NAME", "Lock", "Pin", "check_pin", "pins_fully"]

LOCK_NAME = "amplifier.lock"
# The source of a pin whose path is outside the project. The lock is shared between machines, so
# the path itself is not written.
ELSEWHERE = "path"
_VERSION = 1
_LONGEST_WHY = 200
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SECTIONS = ("bundles", "modules")


class Pin(NamedTuple):
    """The source and content that one module or bundle must have.

    `accepted` has no effect; locks of earlier versions have it.
    """

    source: str
    sha256: str
    commit: str | None = None
    version: str | None = None
    accepted: tuple[str, ...] = ()


class Lock:
    """The pins of one project; a lock without a file has none.

    `missing` are the modules, and the addresses that bundles include, that could not be fetched
    when the lock was made, each with the reason. Bundles are used without them until it is made
    again: trying at each start would make a session depend on the network.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.modules: dict[str, Pin] = {}
        self.bundles: dict[str, Pin] = {}
        self.missing: dict[str, str] = {}

    @classmethod
    def read(cls, path: Path, text: str | None = None) -> Lock:
        """Return the lock in a file, or an empty one if there is no file.

        `text` is the content of the file, if it was read before.

        Raises:
            LockFileError: the file exists and is not a valid lock.
        """
        lock = cls(path)
        try:
            text = path.read_text(encoding="utf-8") if text is None else text
        except FileNotFoundError:
            return lock
        try:
            lock._fill(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LockFileError(
                f"{path} cannot be read.",
                why=f"{error}.",
                fix="Restore it, or remove it and type: amplifier module lock",
            ) from error
        return lock

    def write(self) -> None:
        """Write the lock atomically: after a crash it is the old one or the new one."""
        content: dict[str, Any] = {"version": _VERSION} | {
            section: {name: _as_json(pin) for name, pin in getattr(self, section).items()}
            for section in _SECTIONS
        }
        if self.missing:
            content["missing"] = self.missing
        text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f".{self.path.name}.{os.urandom(8).hex()}")
        try:
            with unfinished.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)

    def pin(self, module_id: str, pin: Pin) -> None:
        """Record the pin of a module; `write` saves it."""
        self.modules[module_id] = pin

    def note_missing(self, name: str, error: FetchError) -> None:
        """Record why a module or an address could not be fetched."""
        self.missing[name] = " ".join((error.why or error.message).split())[:_LONGEST_WHY]

    def refuse_missing(self, name: str) -> None:
        """Raise MissingSourceError for what could not be fetched when the lock was made."""
        if name in self.missing:
            raise MissingSourceError(
                f"There is no `{name}`.",
                why=f"It could not be had when it was locked: {self.missing[name]}",
            )

    def check(self, module_id: str, *, source: str, sha256: str) -> None:
        """Compare a module with its pin; one without a pin passes.

        Raises:
            DriftError: it has another source or another content.
        """
        pin = self.modules.get(module_id)
        if pin is not None:
            check_pin(module_id, pin, source=source, sha256=sha256)

    def portable(self, path: Path) -> str:
        """Return a path as the lock writes it: relative to its folder, else only `path`."""
        folder = self.path.parent.resolve()
        if path.is_relative_to(folder):
            return f"./{path.relative_to(folder).as_posix()}"
        return ELSEWHERE

    def _fill(self, content: dict[str, Any]) -> None:
        if content["version"] != _VERSION:
            raise ValueError(f"it has version {content['version']}, and this reads {_VERSION}")
        for section in _SECTIONS:
            entries: dict[str, Any] = content[section]
            pins = {name: _from_json(name, entry) for name, entry in entries.items()}
            setattr(self, section, pins)
        self.missing = {str(name): str(why) for name, why in content.get("missing", {}).items()}


def check_pin(name: str, pin: Pin, *, source: str, sha256: str | None = None) -> None:
    """Raise DriftError if the source, or the content if it is known, is not what is pinned."""
    if source != pin.source:
        raise DriftError(name, "source", expected=pin.source, found=source)
    if sha256 is not None and sha256 != pin.sha256:
        raise DriftError(name, "content", expected=pin.sha256, found=sha256)


def pins_fully(pin: Pin | None, source: Source) -> TypeGuard[Pin]:
    """Whether a pin is complete for its source: for git it needs a commit too."""
    return pin is not None and (source.kind != "git" or pin.commit is not None)


def _as_json(pin: Pin) -> dict[str, Any]:
    return {key: value for key, value in pin._asdict().items() if value}


def _from_json(name: str, entry: dict[str, Any]) -> Pin:
    unknown = entry.keys() - set(Pin._fields)
    if unknown:
        raise ValueError(f"`{name}` has the unknown key `{min(unknown)}`")
    accepted: list[str] = entry.get("accepted", [])
    texts = [entry.get("source"), entry.get("commit", ""), entry.get("version", ""), *accepted]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"`{name}` has a value that is no text, or no source")
    # An abbreviated hash or commit would not pin anything.
    if not _SHA256.fullmatch(entry["sha256"]):
        raise ValueError(f"`{name}` has a sha256 that is not of 64 digits")
    if "commit" in entry and not _COMMIT.fullmatch(entry["commit"]):
        raise ValueError(f"`{name}` has a commit that is not a full one")
    pin = Pin(entry["source"], entry["sha256"], entry.get("commit"), entry.get("version"))
    return pin._replace(accepted=tuple(accepted))
