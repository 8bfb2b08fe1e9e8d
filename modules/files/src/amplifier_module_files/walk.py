"""Walk the files below a folder in the order of their names, following no links."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from amplifier_module_files.descriptors import is_out_of_descriptors
from amplifier_module_files.patterns import IgnoreRule, ignore_rules
from amplifier_sandbox.files.names import RefusedError
from amplifier_sandbox.files.rooted import Entry
from amplifier_sandbox.files.workspace import Place

_MOST_ENTRIES = 100_000
_BEYOND = f"after the first {_MOST_ENTRIES:,} of a folder"
_IGNORE_FILE = ".gitignore"
_IGNORE_BYTES = 64_000


class File(NamedTuple):
    """A regular file: its name in the working folder, and its parts relative to the walk's root."""

    name: str
    parts: tuple[str, ...]


# A file, or a folder with the rules for what is in it.
_Found = File | tuple[PurePosixPath, list[IgnoreRule]]


class Walk:
    """One walk; skipped entries are counted in `left_out` by reason."""

    def __init__(
        self, place: Place, *, hidden: bool, ignored: bool, is_stopped: Callable[[], bool]
    ) -> None:
        self.root = place.root
        self._is_stopped = is_stopped
        self._with_hidden = hidden
        self._with_ignored = ignored
        self._start = PurePosixPath(os.path.normpath(place.name))
        self.left_out: Counter[str] = Counter()

    def files(self) -> Iterator[File]:
        """Yield the files; blocks. Raises RefusedError or OSError if it cannot start."""
        if not stat.S_ISDIR(self.root.stat(str(self._start)).st_mode):
            yield File(str(self._start), (self._start.name,))
            return
        rules: list[IgnoreRule] = []
        for above in reversed(self._start.parents):
            rules = self._rules_of(above) + rules
        # A stack instead of recursion: a cloned folder may be nested deeper than Python recurses.
        waiting = self._inside(self._start, rules)
        while waiting and not self._is_stopped():
            each = waiting.pop()
            if isinstance(each, File):
                yield each
                continue
            try:
                waiting += self._inside(*each)
            except (OSError, RefusedError) as error:
                self._pass_by(error)

    def _inside(self, folder: PurePosixPath, rules: list[IgnoreRule]) -> list[_Found]:
        """Return the entries of a folder to visit, in reverse order for the stack."""
        entries, count = self.root.list_dir(str(folder), _MOST_ENTRIES)
        self.left_out[_BEYOND] += max(0, count - _MOST_ENTRIES)
        rules = self._rules_of(folder) + rules
        found = list[_Found]()
        for entry in reversed(entries):
            path = folder / entry.name
            reason = self._reason_against(entry, path, rules)
            if reason is not None:
                self.left_out[reason] += 1
            elif stat.S_ISDIR(entry.status.st_mode):
                found.append((path, rules))
            else:
                found.append(File(str(path), path.parts[len(self._start.parts) :]))
        return found

    def _reason_against(
        self, entry: Entry, path: PurePosixPath, rules: list[IgnoreRule]
    ) -> str | None:
        mode = entry.status.st_mode
        is_folder = stat.S_ISDIR(entry.status.st_mode)
        # `.git` is skipped even with hidden files: its objects are not what is searched for.
        if entry.name.startswith(".") and (entry.name == ".git" or not self._with_hidden):
            return "hidden"
        rule = next((rule for rule in rules if rule.fits(path.parts, is_folder)), None)
        if rule is not None and not rule.keeps:
            return "ignored"
        if stat.S_ISLNK(mode):
            return "links"
        if is_folder or stat.S_ISREG(mode):
            return None
        return "pipes, sockets or devices"

    def _rules_of(self, folder: PurePosixPath) -> list[IgnoreRule]:
        if self._with_ignored:
            return []
        try:
            data = self.root.read(str(folder / _IGNORE_FILE), _IGNORE_BYTES)
        except FileNotFoundError:
            return []
        except (OSError, RefusedError) as error:
            self._pass_by(error)
            return []
        return ignore_rules(data.decode(errors="replace"), len(folder.parts))

    def _pass_by(self, error: OSError | RefusedError) -> None:
        """Count an unreadable entry; raise if the process has run out of descriptors."""
        if isinstance(error, OSError) and is_out_of_descriptors(error):
            raise error
        self.left_out["unreadable"] += 1
