"""What all commands of a session and its sub-agents share: limits, a network, background jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from amplifier_module_tool_bash.jobs import Jobs
from amplifier_sandbox.network.destinations import Destination
from amplifier_sandbox.network.session_network import (
    NetworkAccess,
    NetworkError,
    SessionNetwork,
)
from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.session_bounds import SessionBounds

logger = logging.getLogger(__name__)


@dataclass
class SessionParts:
    """The shared parts; the session that made them closes them."""

    bounds: SessionBounds
    jobs: Jobs
    # Only bubblewrap has namespaces.
    has_network: bool
    # Folders outside of the workspace that a command was given.
    given: set[Path] = field(default_factory=set[Path])
    _network: SessionNetwork | None = None
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
        network = await self._made() if self.has_network else None
        if network is None:
            if destinations:
                raise SandboxError(self._why_not or "only bubblewrap gives commands a network")
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

    async def _made(self) -> SessionNetwork | None:
        """Return the network, made for the first command of the session."""
        async with self._making:
            if self._network is None and not self._why_not:
                try:
                    self._network = await asyncio.to_thread(SessionNetwork.create)
                except NetworkError as error:
                    logger.warning("no network for commands: %s", error)
                    self._why_not = str(error)
        return self._network
