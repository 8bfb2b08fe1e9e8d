"""Names and texts of files: which are valid, which are protected, and why one is refused."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath
from typing import Literal

from amplifier_sandbox.visible_text import exact

Rule = Literal[
    "no_project",  # the working folder is, or contains, the user's home folder
    "outside",  # it is not beneath a folder that was allowed
    "link",  # a symbolic link is in the way
    "protected",  # it decides what runs or what is allowed, so no tool writes it
    "read_only",  # the folder, or the file itself, is for reading
    "kind",  # it is no regular file
    "size",  # it is larger than the limit
    "name",  # no file can have this name
    "changed",  # it is not what it was when it was read
]


class RefusedError(Exception):
    """Access to a file was refused by `rule`; the message says what to do instead."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule: Rule = rule


_LONGEST_SHOWN = 300
_FOLDERS = {".git", ".amplifier", ".ssh", ".gnupg"}
_SHELL_FILES = {
    *(".profile", ".login", ".logout", ".inputrc", ".gitconfig"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"),
    *(".kshrc", ".mkshrc", ".cshrc", ".tcshrc", "config.fish"),
}
_PROTECTED = _FOLDERS | _SHELL_FILES
# The short (8.3) name of `.git` on Windows.
_SHORT_NAME = re.compile(r"git~\d+")


def shown(name: str) -> str:
    """Return the name in one short line without control characters."""
    half = _LONGEST_SHOWN // 2
    if len(name) <= _LONGEST_SHOWN:
        cut = name
    else:
        cut = f"{name[:half]}...{name[-half:]}"
    return exact(cut)


def require_sound(name: str) -> None:
    """Raise RefusedError if no file can have this name."""
    if "\0" in name:
        raise RefusedError("name", f"`{shown(name)}` has a NUL character in it.")
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise RefusedError("name", f"`{shown(name)}` is not valid Unicode.") from error


def protected_part(path: PurePosixPath) -> str | None:
    """Return the part of a path that makes it protected, if one does.

    Some file systems accept several spellings of one name: other letter case, invisible
    characters, dots and blanks at the end. All of them are protected everywhere.
    """
    return next((part for part in path.parts if _is_protected(part)), None)


def _is_protected(part: str) -> bool:
    plain = unicodedata.normalize("NFKC", part).casefold()
    plain = "".join(each for each in plain if unicodedata.category(each) != "Cf")
    # On NTFS, a colon starts the name of a stream of the same file.
    plain = plain.partition(":")[0].rstrip(". ")
    return plain in _PROTECTED or _SHORT_NAME.fullmatch(plain) is not None


def decoded(path: str, data: bytes) -> str:
    """Return a file's text; raise RefusedError if it is not UTF-8."""
    if b"\0" in data:
        raise RefusedError("kind", f"`{shown(path)}` is a binary file of {len(data):,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            "kind",
            f"`{shown(path)}` is not UTF-8: byte {error.start:,} is 0x{data[error.start]:02x}. "
            "These tools read and write UTF-8 only.",
        ) from error
