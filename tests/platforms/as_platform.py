"""Run as `python as_platform.py PLATFORM FILE ...` or `... PLATFORM -m MODULE ...`: hides Linux.

PLATFORM is `darwin`, `win32`, or `linux`, which hides nothing. What a platform lacks is missing, so
that code which uses it fails here as it would there. What a platform does differently is not shown:
that needs a real machine. Python's own library and those of others are imported first, because
their branches for another platform need what was not built for this one.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

# What the standard library imports while it still believes in Linux: its own branches for another
# platform need modules that were not built for this one.
_FIRST = (
    *("argparse", "asyncio", "concurrent.futures", "ctypes", "ctypes.util", "getpass", "hashlib"),
    *("http.client", "importlib.metadata", "inspect", "logging.handlers", "mimetypes"),
    *("multiprocessing.connection", "multiprocessing.context", "multiprocessing.util"),
    *("pathlib", "pdb", "platform", "selectors", "shutil", "socketserver", "sqlite3", "ssl"),
    *("subprocess", "sysconfig", "tempfile", "threading", "tty", "urllib.request", "uuid"),
    *("webbrowser", "zoneinfo", "pty", "pwd", "grp", "fcntl", "termios", "resource", "syslog"),
)
# Libraries with a branch for Windows that imports what only Windows has.
_FIRST_LIBRARIES = (
    *("anyio", "anyio._backends._asyncio", "click", "httpx2", "keyring", "mcp", "mcp.client.stdio"),
    *("opentelemetry.sdk.trace", "prompt_toolkit", "prompt_toolkit.input.defaults"),
    *("prompt_toolkit.output.defaults", "psycopg", "pydantic", "rich.console", "sqlalchemy"),
    *("dbos", "openai", "anthropic", "google.genai", "jsonschema_rs", "html_to_markdown"),
    *("prompt_toolkit.application", "prompt_toolkit.shortcuts", "coverage"),
)

_ONLY_LINUX: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("O_DIRECT", "O_LARGEFILE", "O_NOATIME", "O_PATH", "O_TMPFILE", "copy_file_range"),
        *("eventfd", "fdatasync", "getrandom", "getxattr", "listxattr", "memfd_create"),
        *("pidfd_open", "posix_fadvise", "posix_fallocate", "removexattr", "sched_getaffinity"),
        *("sched_setaffinity", "setns", "setxattr", "splice", "unshare", "waitid"),
        *("getresuid", "setresuid", "pipe2", "preadv2", "pwritev2"),
    ),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX"),
    socket: ("AF_NETLINK", "AF_PACKET", "AF_VSOCK", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
}
# Without what Python's own library for Linux uses: AF_UNIX, SIGCHLD, os.set_blocking, os.statvfs.
_NOT_WINDOWS: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "chown"),
        *("fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups"),
        *("getloadavg", "getpgid", "getpgrp", "getsid", "getuid", "killpg", "lchown", "mkfifo"),
        *("openpty", "pread", "pwrite", "setsid", "setuid"),
        *("sysconf", "uname", "wait4"),
    ),
    signal: (
        *("SIGALRM", "SIGCONT", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGSTOP"),
        *("SIGUSR1", "SIGUSR2", "SIGXFSZ", "pause", "sigwait"),
    ),
    socket: ("recv_fds", "send_fds"),
    select: ("poll",),
}
_MODULES_NOT_ON_WINDOWS = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
_PROGRAMS_OF_LINUX = ("bwrap", "nsenter", "systemd-run", "unshare")
_FOLDERS_OF_LINUX = ("/proc", "/sys")
# As macOS numbers it.
_GET_PATH = 50


def _console_of_windows(locks: ModuleType) -> ModuleType:
    """Return what our code uses of `msvcrt`, on the locks of this machine."""
    made = ModuleType("msvcrt")

    def locking(fd: int, mode: int, count: int) -> None:
        try:
            # From the place in the file, like the call of Windows.
            locks.lockf(fd, locks.LOCK_EX | locks.LOCK_NB, count, 0, os.SEEK_CUR)
        except BlockingIOError as error:
            raise PermissionError(error.errno, error.strerror) from error

    members = {"LK_NBLCK": 2, "locking": locking, "kbhit": lambda: False, "getwch": lambda: ""}
    made.__dict__.update(members)
    return made


def _copy_nothing(*_: object, **__: object) -> None:
    """Copy the extended attributes of a file where there are none."""


class _Event(NamedTuple):
    """What our code uses of `select.kevent`: the end of a process."""

    ident: int
    filter: int
    flags: int
    fflags: int


def _add_what_macos_has(open_process: Callable[[int], int]) -> None:
    """Add what our code uses of `kqueue` and F_GETPATH, on what this machine has for it."""
    assert sys.platform == "linux"
    names = ("KQ_FILTER_PROC", "KQ_EV_ADD", "KQ_EV_ONESHOT", "KQ_NOTE_EXIT")

    class Queue:
        def control(self, changes: Sequence[_Event], most: int) -> list[_Event]:
            (event,) = changes
            descriptor = open_process(event.ident)
            try:
                select.select([descriptor], [], [])
            finally:
                os.close(descriptor)
            return [event]

        def close(self) -> None:
            """There is nothing to close."""

    select.__dict__.update(dict.fromkeys(names, 1), kqueue=Queue, kevent=_Event)
    plain = fcntl.fcntl

    def control(descriptor: int, command: int, argument: int | bytes = 0) -> int | bytes:
        if command == _GET_PATH:
            return os.fsencode(Path(f"/proc/self/fd/{descriptor}").readlink()) + b"\0"
        return plain(descriptor, command, argument)

    fcntl.__dict__.update(F_GETPATH=_GET_PATH, fcntl=control)


class _Missing(importlib.abc.MetaPathFinder):
    """Says that a module does not exist."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in _MODULES_NOT_ON_WINDOWS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def _import(names: Sequence[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            # Not installed, so nothing imports it later.
            continue


def _hide_attributes(table: dict[ModuleType, tuple[str, ...]]) -> None:
    for module, names in table.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def _is_hidden(path: object) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    name = os.fsdecode(path)  # pyright: ignore[reportUnknownArgumentType] - any PathLike
    return name.startswith(tuple(f"{each}/" for each in _FOLDERS_OF_LINUX)) or (
        name in _FOLDERS_OF_LINUX or Path(name).name in _PROGRAMS_OF_LINUX
    )


def _hide_paths(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: files of Linux cannot be opened or listed."""
    if event in ("open", "os.listdir", "os.scandir") and arguments and _is_hidden(arguments[0]):
        raise FileNotFoundError(2, "hidden: only Linux has it", arguments[0])


def hide(platform: str, *, libraries: bool) -> None:
    """Make this process take its machine for `platform`."""
    if platform == "linux":
        return
    assert sys.platform == "linux", "only on Linux can be hidden what only Linux has"
    _import(_FIRST)
    if libraries:
        _import(_FIRST_LIBRARIES)
    process_end = os.pidfd_open
    _hide_attributes(_ONLY_LINUX)
    # They looked for what is hidden now when they were imported.
    tempfile.__dict__["_O_TMPFILE_WORKS"] = False
    shutil.__dict__["_copyxattr"] = _copy_nothing
    if platform == "darwin":
        _add_what_macos_has(process_end)
    if platform == "win32":
        sys.modules["msvcrt"] = _console_of_windows(sys.modules["fcntl"])
        signal.__dict__["SIGBREAK"] = signal.SIGUSR1
        os.__dict__["O_BINARY"] = 0
        _hide_attributes(_NOT_WINDOWS)
        for name in _MODULES_NOT_ON_WINDOWS:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, _Missing())
    sys.addaudithook(_hide_paths)
    sys.platform = platform


def main(platform: str, *command: str) -> None:
    """Run a file or a module under the mask."""
    # Small programs of ours use no libraries, whose import takes seconds.
    hide(platform, libraries=command[0] == "-m" or "everything" in command[0])
    if command[0] == "-m":
        sys.argv = list(command[1:])
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
