"""A skill: a folder with a SKILL.md, which says what it is for and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, cast

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from amplifier_sandbox.files.names import decoded
from amplifier_sandbox.files.rooted import Root

FILE_NAME = "SKILL.md"

_FILE_BYTES = 64_000
# A parser of YAML can be kept busy by little text; this is more than any heading needs.
_HEADING_BYTES = 8_000
_HEADING = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def _in_one_line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


class _Heading(BaseModel):
    """The two keys that are used; others, such as a license, are left alone."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, strict=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    description: Annotated[str, AfterValidator(_in_one_line), Field(min_length=1, max_length=1024)]


class BrokenSkillError(Exception):
    """A SKILL.md cannot be used; the message says why."""


class Skill(NamedTuple):
    """What a SKILL.md says, as it was when the session began, and the folder it lies in."""

    name: str
    description: str
    body: str
    folder: Root


def read_skill(folder: Root) -> Skill:
    """Read the SKILL.md of a folder; blocks.

    Raises:
        BrokenSkillError: it is not what it should be.
        RefusedError, OSError: it cannot be read.
    """
    text = decoded(FILE_NAME, folder.read(FILE_NAME, _FILE_BYTES))
    found = _HEADING.match(text)
    if found is None:
        raise BrokenSkillError("it does not begin with a heading between two `---` lines")
    if len(found[1]) > _HEADING_BYTES:
        raise BrokenSkillError(f"its heading has more than {_HEADING_BYTES:,} characters")
    try:
        _require_no_alias(found[1])
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


def _require_no_alias(heading: str) -> None:
    """Raise for an alias: merged again and again, ten lines of them take minutes."""
    events = cast("Iterator[yaml.Event]", yaml.parse(heading, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - its stubs leave the text out
    if any(isinstance(event, yaml.AliasEvent) for event in events):
        raise BrokenSkillError("its heading has an alias, and none is needed there")
