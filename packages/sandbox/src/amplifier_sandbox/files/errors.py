"""The error for a file that may not be used, whoever asks."""

from __future__ import annotations

from typing import Literal

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
    """A file was not touched; `rule` says by which rule, the message what to do instead."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule: Rule = rule
