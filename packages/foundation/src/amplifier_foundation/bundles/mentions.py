"""Files that an instruction mentions, as `@name:path` or `@path`, and that are added to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.bundles.bundle import Missing, Place, Written
from amplifier_foundation.bundles.references import find, leads_out, plain_files
from amplifier_foundation.config.plain_files import is_file, is_folder
from amplifier_foundation.config.project_files import (
    granted_text,
    how_to_grant,
    is_of_project,
    may_act,
)
from amplifier_foundation.errors import BundleError, MissingBundleError
from amplifier_foundation.settings import Settings

_MOST_NAMES = 500
_HIDDEN = frozenset({".git", "__pycache__"})


def folder_listing(folder: Path, settings: Settings) -> str:
    """Return the names in a folder, one per line, folders first and with a slash.

    For a project's folder, only names that the user decided about are listed, because a file name
    is text that a model reads.

    Raises:
        OSError: the folder cannot be read.
    """
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _HIDDEN:
                continue
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                if _may_be_named(path, settings):
                    folders.append(f"{entry.name}/")
            elif may_act(path, settings):
                files.append(entry.name)
    names = [*sorted(folders), *sorted(files)]
    shown = [f"- {name}" for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown.append(f"- and {len(names) - _MOST_NAMES:,} more")
    return "\n".join(["Folder with:", "", *(shown or ["- nothing"])])


def _may_be_named(folder: Path, settings: Settings) -> bool:
    """Return whether a folder is not the project's, or has a file that the user decided about."""
    if not is_of_project(folder, settings):
        return True
    if not settings.trusted:
        return False
    if settings.acting is None:
        return True
    real = folder.resolve()
    return any((settings.project / name).resolve().is_relative_to(real) for name in settings.acting)


_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_BACKTICKS = re.compile(r"`+")
# After a letter, a dot or a slash, an `@` is part of an e-mail address or a package.
_MENTION = re.compile(r"(?<![\w@./:`+-])@((?:[\w.-]+:)?[\w./~-]+)")


# How deep files may mention each other. It bounds the recursion; nobody writes longer chains.
_MAX_CHAIN = 50
_STANDING = ("AGENTS.md", "CLAUDE.md")


class Instruction(NamedTuple):
    """A part of the system message, and its origin: `bundle:my/context/x.md`, or `file:<path>`."""

    text: str
    origin: str


def mentions_in(text: str) -> list[str]:
    """Return what a Markdown text mentions, each once; code is left alone."""
    prose = _without_code(_FENCED.sub(" ", text))
    # Punctuation at the end belongs to the sentence, not to the path.
    return list(dict.fromkeys(found.rstrip(".-/") for found in _MENTION.findall(prose)))


def _without_code(text: str) -> str:
    """Return a text without code spans, which are enclosed by equally long runs of backticks.

    A regular expression with a back-reference to the first run would take quadratic time.
    """
    runs = [match.span() for match in _BACKTICKS.finditer(text)]
    last_of_length: dict[int, int] = {}
    closing_run: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        if length in last_of_length:
            closing_run[number] = last_of_length[length]
        last_of_length[length] = number
    prose: list[str] = []
    place = 0
    number = 0
    while number < len(runs):
        closed_by = closing_run.get(number)
        if closed_by is not None:
            prose.append(text[place : runs[number][0]])
            place = runs[closed_by][1]
            number = closed_by
        number += 1
    return " ".join([*prose, text[place:]])


class Texts:
    """The texts of one composed bundle, each file once.

    `notices` and `missing` are filled as texts are read.
    """

    def __init__(self, namespaces: Mapping[str, Path], settings: Settings) -> None:
        self.notices: list[str] = []
        self.missing: list[Missing] = []
        self._namespaces = namespaces
        self._settings = settings

    def of(
        self,
        written: Written | None,
        context: tuple[Written, ...] = (),
        standing: tuple[Path, ...] = (),
    ) -> list[Instruction]:
        """Return an instruction, the files it mentions, those they mention, then the others.

        A file of `context` that does not exist is added to `missing`.

        Raises:
            BundleError: a file cannot be read, or leads out of its bundle.
        """
        shown: dict[Path, Instruction] = {}
        parts: list[Instruction] = []
        if written is not None:
            parts.append(Instruction(written.text, written.place.origin))
            self._follow(written, shown)
        for reference in context:
            path = self._context(reference)
            if path is not None:
                self._show(path, reference.text, shown)
        for path in standing:
            self._show(path, path.name, shown)
        return [*parts, *shown.values()]

    def _context(self, reference: Written) -> Path | None:
        if reference.found is not None:
            return reference.found
        place = reference.place
        try:
            path = self._find(reference.text, place)
            if path is None and leads_out(reference.text, place, self._namespaces):
                raise BundleError(
                    f"There is no file `{reference.text}` in the bundle of `{place.file}`.",
                    why="It leads out of the bundle, whose files are all that it may show.",
                )
            if path is None:
                raise MissingBundleError("There is no such file.")
        except MissingBundleError as error:
            self.missing.append(Missing.of("context file", reference.text, place, error))
            return None
        return path

    def _find(self, reference: str, place: Place) -> Path | None:
        """Return the file, or else the folder, that a reference leads to."""
        path = find(reference, place, self._namespaces, plain_files)
        if path is None and (":" in reference or reference.startswith("./")):
            path = find(reference, place, self._namespaces, plain_files, is_folder)
        return path

    def _follow(self, written: Written, shown: dict[Path, Instruction], chain: int = 0) -> None:
        for mention in mentions_in(written.text):
            path = self._mentioned(mention, written.place)
            if path is not None and chain < _MAX_CHAIN:
                self._show(path, mention, shown, chain + 1)
            elif path is not None:
                why = f"it is mentioned over more than {_MAX_CHAIN} files"
                self.notices.append(f"@{mention} in `{written.place.file}` is not shown: {why}.")

    def _mentioned(self, mention: str, place: Place) -> Path | None:
        try:
            path = self._find(mention, place)
        except MissingBundleError as unknown:
            self.notices.append(f"@{mention} is not shown. {unknown.why}")
            return None
        if path is not None:
            return path
        if ":" in mention or mention.startswith("./"):
            self.notices.append(
                f"@{mention} in `{place.file}` is not shown: there is no such file."
            )
            return None
        # Anything else is a handle such as `@alice`, or a file that a project may or may not have.
        return self._outside(mention)

    def _outside(self, mention: str) -> Path | None:
        """Return the file of the user or of the project that a bundle mentions by its path."""
        settings = self._settings
        root = settings.project
        path = settings.project / mention
        if mention.startswith("~/.amplifier/"):
            root = settings.home
            path = settings.home / mention.removeprefix("~/.amplifier/")
        # Only Markdown: `@~/.amplifier/credentials.yaml` must not reach a model.
        if path.suffix != ".md" or not is_file(path):
            return None
        if not path.resolve().is_relative_to(root.resolve()):
            return None
        if not may_act(path, settings):
            if settings.trusted:
                known = "trusted without it"
            else:
                known = "not trusted"
            fix = how_to_grant(path, root)
            self.notices.append(f"@{mention} is not shown: `{root}` is {known} ({fix}).")
            return None
        return path

    def _show(
        self, path: Path, reference: str, shown: dict[Path, Instruction], chain: int = 0
    ) -> None:
        real = path.resolve()
        if real in shown:
            return
        if is_folder(path):
            text = self._listing(path)
        else:
            text = granted_text(path, self._settings, error=BundleError).strip()
        place = self._place_of(path)
        origin = place.origin if place else f"file:{path}"
        shown[real] = Instruction(f"# @{reference}\n\n{text}", origin)
        # Outside of bundles, as in AGENTS.md, mentions are not followed.
        if place is not None and not is_folder(path):
            self._follow(Written(text, place), shown, chain)

    def _listing(self, folder: Path) -> str:
        try:
            return folder_listing(folder, self._settings)
        except OSError as error:
            raise BundleError(f"`{folder}` cannot be read.", why=f"{error.strerror}.") from error

    def _place_of(self, path: Path) -> Place | None:
        """Return the place of a file in the bundle with the nearest root, or None."""
        around = [each for each in self._namespaces.items() if path.is_relative_to(each[1])]
        if not around:
            return None
        name, root = max(around, key=lambda each: len(each[1].parts))
        return Place(path, root, name)


def standing_instructions(settings: Settings) -> tuple[Path, ...]:
    """Return the AGENTS.md or CLAUDE.md of the user, and that of a trusted project."""
    folders = [settings.home, *([settings.project] if settings.trusted else [])]
    found = (
        next((path for name in _STANDING if is_file(path := folder / name)), None)
        for folder in folders
    )
    return tuple(path for path in found if path is not None)
