"""Probe a server: which kind it is, and its actual context window."""

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

# Assumed if a server reports none. A smaller one would leave no space for the tools of a usual
# session, so that no prompt could be sent at all; the user is warned.
FALLBACK_WINDOW = 32_768
# What these give a model unless they are configured otherwise; they truncate what is longer.
_USUAL_WINDOWS = {"ollama": 4_096, "lm-studio": 4_096}
_HOW_TO_WIDEN = {
    "ollama": "start it with OLLAMA_CONTEXT_LENGTH=32768",
    "lm-studio": "load the model with a longer context",
}
# So that a request is made: its error then says that the server does not answer.
_UNREACHED_WINDOW = 128_000
# The keys that servers and gateways use for the window in their list of models.
_WINDOW_KEYS = ("max_model_len", "context_window", "context_length")
_KEY_REFUSED = (401, 403)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_Fetch = Callable[..., Awaitable[dict[str, Any]]]


class Window(NamedTuple):
    """The context window in tokens, its source, and a remark for the user."""

    tokens: int
    source: str
    remark: str | None = None


@dataclass
class Server:
    """What a server reported about itself and the model in use."""

    model: str
    # The kind of server, if it is a known one.
    kind: str | None = None
    # Whether the server answered any request.
    reached: bool = False
    # Whether it answered one of them with 401 or 403.
    refuses_key: bool = False
    # Actual windows by source, and upper bounds of the window.
    windows: dict[str, int] = field(default_factory=dict[str, int])
    limits: dict[str, int] = field(default_factory=dict[str, int])

    def window(self, configured: int | None) -> Window:
        """Return the window to use: the smallest of all sources.

        Too small a window only compacts early; with one that is too large, many servers silently
        truncate the conversation.
        """
        named = {**self.limits, **self.windows}
        if configured is not None:
            named["config"] = configured
        elif not self.reached:
            named["not reached"] = _UNREACHED_WINDOW
        elif not self.windows:
            named["fallback"] = _USUAL_WINDOWS.get(self.kind or "", FALLBACK_WINDOW)
        source, tokens = min(named.items(), key=lambda item: item[1])
        remark = None
        if configured is not None and tokens < configured:
            remark = f"its window is {tokens} tokens ({source}), not the configured {configured}"
        elif configured is None and not self.reached:
            remark = "the server does not answer"
        elif configured is None and self.refuses_key and not self.windows:
            remark = "the server refuses the key, so its window is unknown"
        elif configured is None and not self.windows:
            remedy = _HOW_TO_WIDEN.get(self.kind or "", "set `context_window` if it is another")
            remark = f"its window is unknown, assuming {tokens:,} tokens; {remedy}"
        return Window(tokens, source, remark)


async def probe(base_url: str, key: str | None, model: str, seconds: float) -> Server:
    """Query the server at `base_url`; what it does not answer in time stays unknown."""
    server = Server(model)
    # In threads: importing the library and loading the certificates would block the event loop.
    httpx2: Any = await asyncio.to_thread(import_module, "httpx2")
    headers = {"authorization": f"Bearer {key}"} if key else None
    http = await asyncio.to_thread(httpx2.AsyncClient, headers=headers)
    deadline = asyncio.get_running_loop().time() + seconds

    async def fetch(url: str, body: Any = None) -> dict[str, Any]:
        try:
            async with asyncio.timeout_at(deadline):
                response = await http.request("GET" if body is None else "POST", url, json=body)
            server.reached = True
            server.refuses_key = server.refuses_key or response.status_code in _KEY_REFUSED
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
            # Broad: under these routes any server may answer anything.
            logger.exception("probe could not read an answer base_url=%s", base_url)
    return server


def server_root(base_url: str) -> str:
    """Return the base of a server's own routes, which are beside the common `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


def listed_window(entry: dict[str, Any]) -> int | None:
    """Return the window from an entry of a list of models."""
    return next((entry[key] for key in _WINDOW_KEYS if entry.get(key)), None)


async def _ask(server: Server, base: str, fetch: _Fetch) -> None:
    """Query routes that many servers have first, then those of the kind that it seems to be."""
    root = server_root(base)
    listed, props = await asyncio.gather(fetch(f"{base}/models"), fetch(f"{root}/props"))
    _read_models(server, listed.get("data") or [])
    if settings := props.get("default_generation_settings"):
        server.kind = "llama.cpp"
        # Per slot, which is what a conversation gets; `n_ctx_train` is only the model's maximum.
        _learn(server.windows, "llama.cpp /props", settings.get("n_ctx"))
    if server.windows or not server.model:
        return
    loaded, about = await asyncio.gather(
        fetch(f"{root}/api/ps"), fetch(f"{root}/api/v0/models/{quote(server.model)}")
    )
    _learn(server.windows, "LM Studio loaded_context_length", about.get("loaded_context_length"))
    _learn(server.limits, "LM Studio max_context_length", about.get("max_context_length"))
    if about.get("max_context_length"):
        server.kind = "lm-studio"
    if "models" in loaded:
        server.kind = "ollama"
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
