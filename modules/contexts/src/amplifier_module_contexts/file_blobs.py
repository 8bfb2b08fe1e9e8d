"""Blobs in files: one for each text, written whole or not at all."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from amplifier_kit.durable_files import make_private_folder, write_whole
from amplifier_module_contexts.blobs import handles_for

_HANDLE = re.compile(r"result-[0-9a-f]{12,64}")


class FileBlobs:
    """Texts in a folder, on the disk before `put` returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, text: str) -> str:
        """Store `text`, unless it is there already."""
        return await asyncio.to_thread(self._put, text)

    async def get(self, handle: str) -> str | None:
        """Return the text, or None when there is no such file."""
        return await asyncio.to_thread(self._get, handle)

    def _put(self, text: str) -> str:
        short, long = handles_for(text)
        handle = short if self._get(short) in (None, text) else long
        if self._get(handle) is None:
            make_private_folder(self._folder)
            write_whole(self._folder / handle, text.encode("utf-8", "surrogatepass"))
        return handle

    def _get(self, handle: str) -> str | None:
        # A handle comes from a model; it must not name a file elsewhere.
        if not _HANDLE.fullmatch(handle):
            return None
        try:
            return (self._folder / handle).read_bytes().decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return None
