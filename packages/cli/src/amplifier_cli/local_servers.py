"""Model servers on this machine, found on the ports where they usually listen."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

__all__ = ["LocalServer", "find_local_servers"]

_PORTS = {11434: "Ollama", 1234: "LM Studio", 8000: "vLLM", 8080: "llama.cpp"}
_SECONDS = 0.7
_MOST_BYTES = 1_000_000


class LocalServer(NamedTuple):
    """A server that lists models the way OpenAI's does."""

    usual_name: str
    base_url: str
    models: tuple[str, ...]


def find_local_servers() -> list[LocalServer]:
    """Ask the usual ports of this machine, all at once; none of them costs more than a second."""
    with ThreadPoolExecutor(len(_PORTS)) as asking:
        answers = asking.map(_ask, _PORTS)
    return [each for each in answers if each is not None]


def _ask(port: int) -> LocalServer | None:
    from urllib.request import ProxyHandler, build_opener  # noqa: PLC0415 - for this alone

    base_url = f"http://127.0.0.1:{port}/v1"
    # No proxy: what is on this machine is nobody else's business.
    direct = build_opener(ProxyHandler({}))
    try:
        with direct.open(f"{base_url}/models", timeout=_SECONDS) as answer:
            listed: Any = json.loads(answer.read(_MOST_BYTES))
        models = tuple(str(each["id"]) for each in listed["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return LocalServer(_PORTS[port], base_url, models)
