"""The input models of the tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_OneLine = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00\r\n]+$")]


class SearchInput(BaseModel):
    """Where to search, and whether to look at what is usually left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    path: str = Field(default=".", max_length=4_096, description="Folder or file to search.")
    include_hidden: bool = Field(default=False, description="Also names that begin with a dot.")
    include_ignored: bool = Field(default=False, description="Also what .gitignore leaves out.")


class Grep(SearchInput):
    """The lines to find."""

    pattern: _OneLine = Field(description="Regular expression, matched within one line.")
    glob: _OneLine | None = Field(default=None, description="Only files like this: *.py")
    literal: bool = Field(default=False, description="The pattern is plain text.")
    ignore_case: bool = Field(default=False, description="Take capitals for small letters.")
    files_only: bool = Field(default=False, description="Show files and counts, no lines.")


class Glob(SearchInput):
    """The files to find."""

    pattern: _OneLine = Field(
        description="Without a slash a name at any depth: *.py. With one, a path: src/**/*.{ts,tsx}"
    )
