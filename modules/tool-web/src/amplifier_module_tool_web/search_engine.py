"""A configurable search backend: a GET request that returns JSON."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import quote

from amplifier_module_tool_web.config import SearchConfig, WebConfig
from amplifier_module_tool_web.destinations import FetchError, host_and_port, parse
from amplifier_module_tool_web.fetcher import Fetcher


class SearchEngine:
    """Queries the configured host, without redirects: they would send its key elsewhere."""

    def __init__(self, settings: WebConfig, search: SearchConfig) -> None:
        host, port = host_and_port(parse(search.url))
        # The user configured this host, so it may be a private address, such as their own machine.
        own = settings.model_copy(update={"allow_hosts": {host}, "ports": {port}})
        self._fetcher = Fetcher(own)
        self._search = search

    async def __call__(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Return `title`, `url` and `snippet` of each hit."""
        url = self._search.url.replace("{limit}", str(limit))
        url = url.replace("{query}", quote(query, safe=""))
        fetched = await self._fetcher.fetch(url, self._search.headers, redirects=0)
        try:
            found = json.loads(fetched.body)
        except (ValueError, RecursionError) as error:
            raise FetchError("The search engine did not answer with JSON.") from error
        for key in self._search.results.split("."):
            found = _value(found, key)
        if not isinstance(found, list):
            raise FetchError(f"The search engine's answer has no list `{self._search.results}`.")
        keys = self._search.keys.items()
        return [{name: _value(hit, key) for name, key in keys} for hit in cast("list[Any]", found)]


def _value(holder: Any, key: str) -> Any:
    if isinstance(holder, dict):
        return cast("dict[str, Any]", holder).get(key)
    return None
