"""Convert a fetched page to text."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_module_tool_web.destinations import FetchError
from amplifier_module_tool_web.fetcher import Fetched
from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.seccomp import computing_program

_CONVERTER = Path(__file__).with_name("converter.py")
_TEXT = ("json", "xml", "javascript", "yaml", "toml")


class Page(NamedTuple):
    """The text of a page, and what is missing."""

    url: str
    title: str
    text: str
    missing: str


async def page_of(fetched: Fetched) -> Page:
    """Return the text of a fetched page; raises `FetchError` if it is not text."""
    given = fetched.content_type
    if given in ("text/html", "application/xhtml+xml"):
        kind = "html"
    else:
        kind = "text"
    if kind == "text" and not (given.startswith("text/") or given.endswith(_TEXT)):
        raise FetchError(f"{fetched.url} is no text but `{given}`. Try a page about it.")
    size = len(fetched.body)
    for _ in range(6):
        found = await _converted(fetched, kind, size)
        if found is not None:
            if found["is_complete"]:
                missing = ""
            else:
                missing = "parts are too long or too deeply nested"
            if size < len(fetched.body) or not fetched.is_complete:
                missing = f"only the first {size:,} bytes were read"
            return Page(fetched.url, found["title"], found["text"], missing)
        # The parser's memory grows with the page, so half of it may stay below the limit.
        size //= 2
    raise FetchError(f"{fetched.url} is too complicated to be read as text. Try another page.")


async def _converted(fetched: Fetched, kind: str, size: int) -> dict[str, Any] | None:
    """Return the converter's result for the first `size` bytes; None if it exceeded a limit."""
    arguments = [kind, fetched.charset, fetched.url, _filter()]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(_CONVERTER), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},  # a parser needs no keys
    )
    try:
        output, _ = await process.communicate(fetched.body[:size])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return json.loads(output)
    return None


def _filter() -> str:
    """Return the seccomp filter for the parser; empty except on Linux, on two architectures."""
    try:
        if sys.platform == "linux":
            return computing_program().hex()
        return ""
    except SandboxError:
        return ""
