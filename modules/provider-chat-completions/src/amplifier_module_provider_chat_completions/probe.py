"""Asking a server what it is, and how long a conversation it really takes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote

logger = logging.getLogger(__name__)

# What to assume when nobody says: the smallest default among the servers we know, Ollama's.
FALLBACK_WINDOW = 4_096
# How servers and gateways spell the window in their list of models.
_WINDOW_KEYS = ("max_model_len", "context_window", "context_length")
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_Fetch = Callable[..., Awaitable[dict[str, Any]]]


class Window(NamedTuple):
    """How many tokens a conversation may have, who says so, and what a person should know."""

    tokens: int
    source: str
    remark: str | None = None


@dataclass
class Server:
    """What a server told about itself and the model in use."""

    model: str
    # Which of the servers we know it is, if any.
    kind: str | None = None
    # Whether anything at all answered.
    reached: bool = False
    # True windows by source, and what is only known to be no smaller than the true window.
    windows: dict[str, int] = field(default_factory=dict[str, int])
    limits: dict[str, int] = field(default_factory=dict[str, int])

    def window(self, configured: int | None) -> Window:
        """Return the window to work with: the smallest that anybody names."""
        named = {**self.limits, **self.windows}
        if configured is not None:
            named["config"] = configured
        elif not self.windows:
            named["fallback"] = FALLBACK_WINDOW
        source, tokens = min(named.items(), key=lambda item: item[1])
        remark = None
        if configured is not None and tokens < configured:
            remark = f"its window is {tokens} tokens ({source}), not the configured {configured}"
        elif configured is None and not self.windows:
            remark = f"its window is unknown, assuming {tokens} tokens; set `context_window`"
        return Window(tokens, source, remark)


async def probe(base_url: str, key: str | None, model: str, seconds: float) -> Server:
    """Ask the server at `base_url`; what it does not answer in time stays unknown."""
    server = Server(model)
    # In threads: importing the library and reading the certificates would hold up the loop.
    httpx2: Any = await asyncio.to_thread(import_module, "httpx2")
    headers = {"authorization": f"Bearer {key}"} if key else None
    http = await asyncio.to_thread(httpx2.AsyncClient, headers=headers)
    deadline = asyncio.get_running_loop().time() + seconds

    async def fetch(url: str, body: Any = None) -> dict[str, Any]:
        try:
            async with asyncio.timeout_at(deadline):
                response = await http.request("GET" if body is None else "POST", url, json=body)
            server.reached = True
            if response.is_success:
                return response.json()
            return {}
        except (TimeoutError, ValueError, httpx2.HTTPError, httpx2.InvalidURL):
            logger.debug("probe got no answer url=%s", url, exc_info=True)
            return {}

    async with http:
        try:
            await _ask(server, base_url.rstrip("/"), fetch)
        except Exception:
            # Whatever answers under these routes need not be a server that we know.
            logger.exception("probe could not read an answer base_url=%s", base_url)
    return server


def server_root(base_url: str) -> str:
    """Return where a server's own routes begin, beside those of the `/v1` it shares with others."""
    return base_url.rstrip("/").removesuffix("/v1")


def listed_window(entry: dict[str, Any]) -> int | None:
    """Return the window that an entry in a list of models names."""
    return next((entry[key] for key in _WINDOW_KEYS if entry.get(key)), None)


async def _ask(server: Server, base: str, fetch: _Fetch) -> None:
    """Ask what many servers answer first, and what only one does when it seems to be that one."""
    root = server_root(base)
    listed, props = await asyncio.gather(fetch(f"{base}/models"), fetch(f"{root}/props"))
    _read_models(server, listed.get("data") or [])
    if settings := props.get("default_generation_settings"):
        server.kind = "llama.cpp"
        # Of one slot, which is what a conversation gets; `n_ctx_train` is only what could be.
        _learn(server.windows, "llama.cpp /props", settings.get("n_ctx"))
    if server.windows or not server.model:
        return
    loaded, about = await asyncio.gather(
        fetch(f"{root}/api/ps"), fetch(f"{root}/api/v0/models/{quote(server.model)}")
    )
    _learn(server.windows, "LM Studio loaded_context_length", about.get("loaded_context_length"))
    _learn(server.limits, "LM Studio max_context_length", about.get("max_context_length"))
    if "models" in loaded:
        shown = await fetch(f"{root}/api/show", {"model": server.model})
        _read_ollama(server, loaded["models"], shown)


def _read_models(server: Server, entries: list[dict[str, Any]]) -> None:
    if not server.model and entries:
        server.model = entries[0]["id"]
    for entry in entries:
        if entry["id"] == server.model:
            server.kind = "vllm" if entry.get("owned_by") == "vllm" else None
            _learn(server.windows, "models list", listed_window(entry))


def _read_ollama(server: Server, loaded: list[dict[str, Any]], shown: dict[str, Any]) -> None:
    for each in loaded:
        if each.get("model") in (server.model, f"{server.model}:latest"):
            _learn(server.windows, "Ollama /api/ps", each.get("context_length"))
    if chosen := _NUM_CTX.search(shown.get("parameters", "")):
        _learn(server.windows, "Ollama num_ctx", int(chosen[1]))
    trained: dict[str, Any] = shown.get("model_info", {})
    for key, value in trained.items():
        if key.endswith(".context_length"):
            _learn(server.limits, "Ollama context_length", value)


def _learn(known: dict[str, int], source: str, tokens: Any) -> None:
    if isinstance(tokens, int) and tokens > 0:
        known[source] = tokens
