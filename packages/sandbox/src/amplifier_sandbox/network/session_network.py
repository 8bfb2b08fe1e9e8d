"""The network that all programs of a session share: their own servers, and a filtering proxy."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from amplifier_sandbox.network import make_namespace
from amplifier_sandbox.network.destinations import Destination
from amplifier_sandbox.network.proxy import Pass, Proxy

_SECONDS = 30
_FOLDERS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
# Package managers repeat a refused request for up to minutes, although nothing can come of it.
_NO_RETRIES = dict.fromkeys(
    ("CARGO_NET_RETRY", "PIP_RETRIES", "UV_HTTP_RETRIES", "npm_config_fetch_retries"), "0"
)


class NetworkError(Exception):
    """This machine cannot give a session a network of its own."""


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """How one program gets into the network of its session."""

    # Put before the command line; enters the namespaces.
    enter: tuple[str, ...]
    env: dict[str, str]
    # Where the proxy listens on localhost.
    port: int
    allowed: Pass = field(repr=False)


class SessionNetwork:
    """A network namespace with nothing in it but its own loopback and our proxy.

    What one program serves on localhost, the next one can reach. The machine's own local servers
    and the internet are outside; the proxy leads to what each program was given.
    """

    def __init__(self, spaces: tuple[int, int], listener: socket.socket, nsenter: str) -> None:
        self._spaces = spaces
        self._nsenter = nsenter
        self._port: int = listener.getsockname()[1]
        self._proxy = Proxy(listener)
        # A session may end without a cleanup.
        self.close = weakref.finalize(self, _release, spaces, listener)

    @classmethod
    def create(cls) -> SessionNetwork:
        """Make the namespaces; blocks for the time of one small program.

        Raises:
            NetworkError: they cannot be made here.
        """
        if sys.platform != "linux":
            raise NetworkError(f"{sys.platform} has no network namespaces; Linux has")
        nsenter = shutil.which("nsenter", path=_FOLDERS)
        if nsenter is None:
            raise NetworkError("`nsenter` of util-linux is not installed")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # Isolated: neither the environment nor the workspace adds code to it.
            argv = [sys.executable, "-I", "-S", make_namespace.__file__, str(theirs.fileno())]
            done = subprocess.run(
                argv,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={},
                pass_fds=(theirs.fileno(),),
                timeout=_SECONDS,
            )
            if done.returncode != 0:
                last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
                raise NetworkError(f"a network for the session cannot be made: {last}")
            _, found, _, _ = socket.recv_fds(ours, 1, 3)
        user, net, listening = found
        return cls((user, net), socket.socket(fileno=listening), nsenter)

    @asynccontextmanager
    async def admit(self, destinations: Sequence[Destination]) -> AsyncGenerator[NetworkAccess]:
        """Let one program in until the block ends; it may connect to `destinations`."""
        async with self._proxy.admit(destinations) as allowed:
            # Opened by the program that enters, so that it does not pass them on.
            user, net = (f"/proc/{os.getpid()}/fd/{each}" for each in self._spaces)
            enter = (
                self._nsenter,
                f"--user={user}",
                f"--net={net}",
                "--preserve-credentials",
                "--",
            )
            env = _environment(allowed.token, self._port)
            if not destinations:
                env |= _NO_RETRIES
            yield NetworkAccess(enter, env, self._port, allowed)


class LocalProxy:
    """The proxy on localhost of the machine, for systems without network namespaces.

    The sandbox of each program opens this one port. Programs of the session do not reach each
    other's servers: that would take all of the machine's localhost.
    """

    def __init__(self) -> None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        self._port: int = listener.getsockname()[1]
        self._proxy = Proxy(listener)
        # A session may end without a cleanup.
        self.close = weakref.finalize(self, listener.close)

    @asynccontextmanager
    async def admit(self, destinations: Sequence[Destination]) -> AsyncGenerator[NetworkAccess]:
        """Let one program connect to `destinations` until the block ends."""
        async with self._proxy.admit(destinations) as allowed:
            env = _environment(allowed.token, self._port)
            yield NetworkAccess((), env, self._port, allowed)


def _release(spaces: tuple[int, int], listener: socket.socket) -> None:
    """Let the namespaces go."""
    listener.close()
    for each in spaces:
        os.close(each)


def _environment(token: str, port: int) -> dict[str, str]:
    """Return the variables by which programs find the proxy."""
    url = f"http://{token}:-@127.0.0.1:{port}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    # Servers that programs of the session have started are reached directly.
    direct = "localhost,127.0.0.1,::1"
    return {**dict.fromkeys(names, url), "no_proxy": direct, "NO_PROXY": direct}
