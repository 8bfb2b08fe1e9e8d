"""The configuration of tool-web; its README says what each key means."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

_Key = Literal["title", "url", "snippet"]


class SearchConfig(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """A search engine that answers a GET with JSON; the defaults are those of SearXNG."""

    url: str = Field(pattern=r"^https?://[^/{}]+/.*\{query\}")
    headers: dict[str, str] = {}
    results: str = Field(default="results", description="Path to the list, with dots.")
    keys: dict[_Key, str] = {"title": "title", "url": "url", "snippet": "content"}


class WebConfig(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """What may be reached, how much of it is read, and who searches."""

    allow_hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset({80, 443})
    timeout_seconds: float = Field(default=30.0, gt=0, description="For one call, all in all.")
    max_bytes: int = Field(default=2_000_000, gt=0, description="Of a page, decompressed.")
    page_characters: int = Field(default=16_000, gt=0, description="Of text in one result.")
    search: SearchConfig | None = None
