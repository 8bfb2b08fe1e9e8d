"""A trial mount without side effects: no real credentials, no network, and undone afterwards."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from amplifier_core._mounting import adopt
from amplifier_core.coordinator import NAMED, ModuleCoordinator

__all__ = [
    "MOUNT_SECONDS",
    "PLACEHOLDER",
    "NetworkRefusedError",
    "is_credential",
    "masked_credentials",
    "mounted",
    "refused_network",
    "replaced",
]

PLACEHOLDER = "placeholder-for-validation"
MOUNT_SECONDS = 30.0

_INHERITED: Any = object()

_CREDENTIAL_WORDS = frozenset(
    {
        "APIKEY",
        "CREDENTIAL",
        "CREDENTIALS",
        "KEY",
        "KEYS",
        "PASSPHRASE",
        "PASSWD",
        "PASSWORD",
        "PAT",
        "SECRET",
        "SECRETS",
        "TOKEN",
        "TOKENS",
    }
)


class _Shared(AbstractContextManager[None]):
    """A change of the whole process that lasts while any user is inside.

    The first one in makes the change and the last one out undoes it, in whatever order they leave.
    """

    def __init__(self, effect: Callable[[], AbstractContextManager[None]]) -> None:
        self._effect = effect
        self._held: AbstractContextManager[None] | None = None
        self._inside = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._held is None:
                self._held = self._effect()
                self._held.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._held is not None:
                held = self._held
                self._held = None
                held.__exit__(None, None, None)


def is_credential(variable: str) -> bool:
    """Whether an environment variable of this name usually has a secret."""
    return not _CREDENTIAL_WORDS.isdisjoint(variable.upper().split("_"))


@contextmanager
def _masked_environment() -> Generator[None]:
    environment = os.environ  # noqa: TID251 - hidden from modules, not read as configuration
    real = {name: value for name, value in environment.items() if is_credential(name)}
    environment.update(dict.fromkeys(real, PLACEHOLDER))
    try:
        yield
    finally:
        environment.update(real)


# A placeholder instead of nothing, because many providers mount nothing without a key.
masked_credentials: _Shared = _Shared(_masked_environment)


class NetworkRefusedError(ConnectionError):
    """A module tried to connect to a host while it was being validated."""


_attempts: ContextVar[list[str] | None] = ContextVar("attempts", default=None)
_everybodys_attempts: list[list[str]] = []


def _refuse(target: object) -> NetworkRefusedError:
    own = _attempts.get()
    # A thread of the module has another context: its attempt counts for all that are inside.
    for attempts in _everybodys_attempts if own is None else [own]:
        attempts.append(str(target))
    return NetworkRefusedError(f"no network while a module is validated; it wanted {target}")


@contextmanager
def replaced(owner: object, name: str, value: Any) -> Generator[None]:
    """Replace an attribute of `owner` inside the block."""
    own: Any = vars(owner).get(name, _INHERITED)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _local_only(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            raise _refuse(address)
        return method(self, address)

    return call


def _no_look_up(host: Any, port: Any, *_: Any, **__: Any) -> Any:
    raise _refuse((host, port))


@contextmanager
def _closed_sockets() -> Generator[None]:
    with (
        replaced(socket.socket, "connect", _local_only(socket.socket.connect)),
        replaced(socket.socket, "connect_ex", _local_only(socket.socket.connect_ex)),
        replaced(socket, "getaddrinfo", _no_look_up),
    ):
        yield


_no_network = _Shared(_closed_sockets)


@contextmanager
def refused_network() -> Generator[list[str]]:
    """Refuse every connection to a host and list the attempts; unix sockets are allowed."""
    attempts: list[str] = []
    _everybodys_attempts.append(attempts)
    token = _attempts.set(attempts)
    try:
        with _no_network:
            yield attempts
    finally:
        _attempts.reset(token)
        # By identity, because two lists may have equal attempts.
        _everybodys_attempts[:] = [each for each in _everybodys_attempts if each is not attempts]


@asynccontextmanager
async def mounted(
    mount: Callable[..., Any],
    coordinator: ModuleCoordinator,
    mount_point: str,
    config: dict[str, Any] | None = None,
) -> AsyncGenerator[Any]:
    """Mount with masked credentials, yield what `mount` returned, then run every cleanup.

    A module that `mount` returned instead of mounting it is mounted, as a session would do.
    """
    slot: Any = coordinator.mount_points[mount_point]
    before: Any = dict(slot) if mount_point in NAMED else slot
    try:
        with masked_credentials:
            returned = await _within(MOUNT_SECONDS, "mount()", mount(coordinator, config or {}))
        cleanup = await adopt(coordinator, mount_point, returned, before)
        coordinator.register_cleanup(cleanup)
        yield returned
    finally:
        await _within(MOUNT_SECONDS, "cleanup", coordinator.cleanup())


async def _within(seconds: float, what: str, work: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise TimeoutError(f"{what} did not end within {seconds:g} s") from error
