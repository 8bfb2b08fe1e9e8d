"""Read skills, and collect those of a session in a library."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from amplifier_sandbox.files.names import RefusedError, decoded, shown
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.home import expanded
from amplifier_sandbox.ownership import exposure_in, is_own_place

FILE_NAME = "SKILL.md"

_FILE_BYTES = 64_000
# A small YAML text can take a parser minutes; this is more than any heading needs.
_HEADING_BYTES = 8_000
_HEADING_DEPTH = 20
_HEADING = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def _in_one_line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


class _Heading(BaseModel):
    """The two keys that are used; others, such as a license, are left alone."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, strict=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    description: Annotated[str, AfterValidator(_in_one_line), Field(min_length=1, max_length=1024)]


class BrokenSkillError(Exception):
    """A SKILL.md is not valid; the message says why."""


class Skill(NamedTuple):
    """The content of a SKILL.md when the session began, and its folder.

    It is read only once: what a tool writes there later must not become instructions.
    """

    name: str
    description: str
    body: str
    folder: Root


def read_skill(folder: Root) -> Skill:
    """Read the SKILL.md of a folder; blocks.

    Raises:
        BrokenSkillError: it is not valid.
        RefusedError, OSError: it cannot be read.
    """
    text = decoded(FILE_NAME, folder.read(FILE_NAME, _FILE_BYTES))
    found = _HEADING.match(text)
    if found is None:
        raise BrokenSkillError("it does not begin with a heading between two `---` lines")
    if len(found[1]) > _HEADING_BYTES:
        raise BrokenSkillError(f"its heading has more than {_HEADING_BYTES:,} characters")
    try:
        _require_quick_to_read(found[1])
        given: Any = yaml.safe_load(found[1])
        heading = _Heading.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "heading"
        raise BrokenSkillError(f"{where}: {first['msg']}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BrokenSkillError(f"its heading is no YAML: {reason}") from error
    return Skill(heading.name, heading.description, text[found.end() :].strip(), folder)


def _require_quick_to_read(heading: str) -> None:
    """Raise for what a parser takes long to read: aliases minutes, deep nesting half of one."""
    events = cast("Iterator[yaml.Event]", yaml.parse(heading, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - its stubs leave the text out
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise BrokenSkillError("its heading has an alias, and none is needed there")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _HEADING_DEPTH:
            raise BrokenSkillError(f"its heading is nested more than {_HEADING_DEPTH} levels deep")


_MOST_FOLDERS = 200
# The total length of all descriptions, because they are part of every request.
_LIST_CHARS = 8_000
_DESCRIPTION_CHARS = 300


class LeftOut(NamedTuple):
    """A skill or folder that is not offered, and why."""

    kind: Literal["untrusted", "broken", "duplicate", "beyond"]
    path: str
    reason: str


class _Place:
    """A configured folder, and its real path."""

    def __init__(self, path: Path) -> None:
        self.path, self.real = path, Path(os.path.realpath(path))

    def is_of(self, working: Path, project: Path) -> bool:
        """Whether it belongs to the project, by its name or by its real path."""
        return self.path.is_relative_to(working) or self.real.is_relative_to(project)


class Library:
    """The skills of a session by name, and what was left out."""

    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        self.left_out: list[LeftOut] = []

    def collect(self, paths: Iterable[Path], working: Path, *, trust_project: bool) -> None:
        """Read the skills of all folders, the user's before the project's; blocks.

        The first skill of a name wins, so that a project cannot replace one of the user.
        """
        working = Path(os.path.abspath(working))  # noqa: PTH100 - `resolve` would follow links
        project = Path(os.path.realpath(working))
        places = [_Place(Path(os.path.normpath(working / expanded(path)))) for path in paths]
        # False sorts first: the user's folders, whatever the order in the configuration.
        for place in sorted(places, key=lambda place: place.is_of(working, project)):
            if not self._is_folder(place.path):
                continue
            if not place.is_of(working, project):
                self._collect_from(place.path)
            elif not trust_project:
                reason = "skills of a project are offered only when it is trusted"
                self.left_out.append(LeftOut("untrusted", str(place.path), reason))
            elif not place.real.is_relative_to(project):
                reason = "it is a link that leads out of the project"
                self.left_out.append(LeftOut("broken", str(place.path), reason))
            else:
                self._collect_from(place.path)

    def _is_folder(self, path: Path) -> bool:
        try:
            return path.is_dir()
        except OSError as error:
            # Before Python 3.14, `is_dir` raises for a folder that may not be entered.
            self.left_out.append(LeftOut("broken", str(path), str(error.strerror)))
            return False

    def _collect_from(self, folder: Path) -> None:
        try:
            root = Root(folder, writable=False)
            entries, count = root.list_dir(".", _MOST_FOLDERS)
        except OSError as error:
            self.left_out.append(LeftOut("broken", str(folder), str(error.strerror)))
            return
        if count > _MOST_FOLDERS:
            reason = f"it has {count:,} entries, of which the first {_MOST_FOLDERS} were read"
            self.left_out.append(LeftOut("beyond", str(root.path), reason))
        for entry in entries:
            if not stat.S_ISREG(entry.status.st_mode) and not entry.name.startswith("."):
                self._add(root, entry.name)

    def _add(self, root: Root, name: str) -> None:
        path = f"{root.path}/{shown(name)}/{FILE_NAME}"
        if is_own_place(root.path):
            exposure = exposure_in(root.path / name)
        else:
            exposure = None
        if exposure is not None:
            reason = f"{exposure.why} Then: {exposure.fix}"
            self.left_out.append(LeftOut("broken", path, reason))
            return
        try:
            folder = Root(root.path / name, writable=False)
            # `Root` has followed a link if `name` is one, or became one after it was listed.
            if not os.path.samestat(folder.stat("."), root.stat(name)):
                raise RefusedError("changed", "it was replaced in this moment")
            skill = read_skill(folder)
        except (BrokenSkillError, RefusedError) as error:
            self.left_out.append(LeftOut("broken", path, str(error)))
        except OSError as error:
            self.left_out.append(LeftOut("broken", path, str(error.strerror)))
        else:
            first = self.skills.setdefault(skill.name, skill)
            if first is not skill:
                reason = f"the name `{skill.name}` is taken by {first.folder.path}"
                self.left_out.append(LeftOut("duplicate", path, reason))

    def listed(self) -> tuple[list[str], int]:
        """Return a line for each skill that fits, and how many do not fit."""
        lines = list[str]()
        room = _LIST_CHARS
        for skill in self.skills.values():
            text = skill.description
            if len(text) > _DESCRIPTION_CHARS:
                text = f"{text[:_DESCRIPTION_CHARS]}..."
            room -= len(line := f"- {skill.name}: {text}") + 1
            if room < 0:
                break
            lines.append(line)
        return lines, len(self.skills) - len(lines)
