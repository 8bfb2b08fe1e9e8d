"""What all commands of a session and its sub-agents share: limits, a network, background jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from amplifier_kit.threads import open_in_thread
from amplifier_module_tool_bash.jobs import Jobs
from amplifier_sandbox.network.destinations import Destination
from amplifier_sandbox.network.session_network import (
    LocalProxy,
    NetworkAccess,
    NetworkError,
    SessionNetwork,
)
from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.sandbox import Level
from amplifier_sandbox.processes.session_bounds import SessionBounds

logger = logging.getLogger(__name__)


@dataclass
class SessionParts:
    """The shared parts; the session that made them closes them."""

    bounds: SessionBounds
    jobs: Jobs
    level: Level
    # Folders outside of the workspace that a command was given.
    given: set[Path] = field(default_factory=set[Path])
    _network: SessionNetwork | LocalProxy | None = None
    _why_not: str = ""
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def network(
        self, destinations: Sequence[Destination]
    ) -> AsyncGenerator[NetworkAccess | None]:
        """Let one command into the network of the session; None if there is none.

        Raises:
            SandboxError: the command needs a destination, and there is no such network.
        """
        # Without namespaces, a command that asks for nothing has no network at all.
        is_needed = self.level == "bubblewrap" or (self.level == "seatbelt" and destinations)
        network = await self._made() if is_needed else None
        if network is None:
            if destinations:
                raise SandboxError(self._why_not or f"{self.level} gives commands no network")
            yield None
            return
        async with network.admit(destinations) as access:
            yield access

    async def close(self) -> None:
        """End the jobs and the network."""
        await self.jobs.close()
        if self._network is not None:
            self._network.close()
            self._network = None

    async def _made(self) -> SessionNetwork | LocalProxy | None:
        """Return the network, made for the first command of the session."""
        async with self._making:
            if self._network is None and not self._why_not:
                make = LocalProxy if self.level == "seatbelt" else SessionNetwork.create
                try:
                    self._network = await open_in_thread(make)
                except NetworkError as error:
                    logger.warning("no network for commands: %s", error)
                    self._why_not = str(error)
        return self._network
