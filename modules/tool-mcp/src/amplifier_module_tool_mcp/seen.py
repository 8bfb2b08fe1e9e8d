"""The record of tool definitions that somebody has seen and let pass, one file for all sessions."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from amplifier_kit.durable_files import make_private_folder, write_whole
from amplifier_module_tool_mcp.definitions import Definition
from amplifier_sandbox.home import expanded
from amplifier_sandbox.ownership import exposure_of


class RecordError(Exception):
    """The record cannot be relied on, so nothing counts as seen."""


class SeenRecord:
    """Definitions by server; a server that is started differently is another server."""

    def __init__(self, path: Path) -> None:
        self._path = expanded(path)

    async def of(self, server: str, source: str) -> dict[str, Any] | None:
        """Return what was seen of a server, by tool; None when it was never seen.

        Raises:
            RecordError: the file cannot be read.
        """
        table = (await asyncio.to_thread(self._read)).get(server)
        if table is not None and table["source"] == source:
            return table["tools"]
        return None

    async def add(self, server: str, source: str, definitions: Sequence[Definition]) -> None:
        """Write down that these were seen.

        Raises:
            RecordError: the file cannot be read or written.
        """
        await asyncio.to_thread(self._add, server, source, definitions)

    def _add(self, server: str, source: str, definitions: Sequence[Definition]) -> None:
        try:
            make_private_folder(self._path.parent)
            lock_path = self._path.with_name(f"{self._path.name}.lock")
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                servers = self._read()
                if servers.get(server, {}).get("source") != source:
                    servers[server] = {"source": source, "tools": {}}
                servers[server]["tools"] |= {each.tool: each.stored() for each in definitions}
                write_whole(self._path, json.dumps(servers, indent=1).encode())
        except OSError as error:
            raise RecordError(f"`{self._path}` cannot be written: {error}") from error

    def _read(self) -> dict[str, Any]:
        exposure = exposure_of(self._path)
        if exposure is not None:
            raise RecordError(f"{exposure.why} Then: {exposure.fix}")
        try:
            servers: Any = json.loads(self._path.read_bytes())
            for table in servers.values():
                if not isinstance(table["source"], str) or not isinstance(table["tools"], dict):
                    raise TypeError("a server has no source or no tools")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecordError(
                f"`{self._path}` cannot be relied on ({error}); repair it, or delete it to be "
                "asked about every tool again"
            ) from error
        return cast("dict[str, Any]", servers)
