"""The code blocks of the public contracts, word for word, and a way to run them as written.

A block is named by its document and the line it starts at: `S1:209`. Blocks are fragments: they use
names that the surrounding prose explains (`coordinator`, `MyTool`). A test gives those names and
runs the text itself, so that a block that stops working fails its test.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from inspect import CO_COROUTINE
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, NamedTuple

__all__ = ["BLOCKS", "Block", "local_names", "run_block", "run_body"]

_FOLDER = Path(__file__).parent
_HEADER = "===== "


class Block(NamedTuple):
    """One block: `kind` is its language, `section` the heading it stands under."""

    name: str
    kind: str
    section: str
    text: str


@cache
def _read_blocks() -> dict[str, Block]:
    blocks: dict[str, Block] = {}
    for document in sorted(_FOLDER.glob("S*.txt")):
        _, *parts = document.read_text(encoding="utf-8").split(f"\n{_HEADER}")
        for part in parts:
            header, _, text = part.partition("\n")
            place, _, section = header.partition(" | ")
            name, kind = place.split()
            blocks[name] = Block(name, kind, section, text)
    return blocks


BLOCKS = _read_blocks()


async def run_block(name: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a block as the body of an async module, and return the names it leaves behind.

    `names` are those that the block takes for granted; the dictionary is the one it runs in.
    """
    namespace = {} if names is None else names
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(BLOCKS[name].text, name, "exec", flags=flags, dont_inherit=True)
    if code.co_flags & CO_COROUTINE:
        await FunctionType(code, namespace)()
    else:
        exec(code, namespace)
    return namespace


async def run_body(name: str, names: dict[str, Any]) -> Any:
    """Run a block that contains `return` as the body of a function, and return what it returns.

    Names that the block assigns are looked up in `names` first: they are the function's parameters.
    """
    parameters = ", ".join(names)
    body = textwrap.indent(BLOCKS[name].text, "    ")
    source = f"async def body({parameters}):\n{body}"
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return await namespace["body"](**names)


@contextmanager
def local_names(name: str) -> Generator[dict[str, Any], None, None]:
    """Collect the local names of every function that the block defines, as it last returned.

    Most of what a `mount` of the contracts reads from its coordinator stays in local names.
    """
    seen: dict[str, Any] = {}

    def note(frame: FrameType, event: str, _value: Any) -> None:
        if event == "return" and frame.f_code.co_filename == name:
            seen.update(frame.f_locals)

    earlier = sys.getprofile()
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(earlier)
