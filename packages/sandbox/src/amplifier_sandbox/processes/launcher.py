"""A separate program, run as `python -I -S launcher.py PLAN argv...`, that confines what it starts.

It stays the parent of what it started, adopts every orphan below it, and kills all of them on
SIGTERM, when its own parent dies and when the program itself has ended. It imports only the
standard library, because every import slows the start of each confined program.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_RULE_PATH_BENEATH = 1

_EXECUTE = 1
_WRITE_FILE = 2
_READ_FILE = 4
_READ_DIR = 8
_TRUNCATE = 1 << 14
_IOCTL_DEVICE = 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_ALL_SINCE_3 = (1 << 15) - 1
_ALL_SINCE_5 = (1 << 16) - 1
_BIND_AND_CONNECT_TCP = 3
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3
# Landlock's MAKE_CHAR and MAKE_BLOCK.
_MAKE_DEVICES = (1 << 6) | (1 << 11)

_KILL_ROUNDS = 200


@functools.cache
def _libc() -> ctypes.CDLL:
    # Not at import: Windows has no such library.
    return ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    ]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _prctl(option: int, value: int) -> None:
    _checked(_libc().prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def restrict_files(plan: dict[str, Any]) -> None:
    """Let this process and its children access only the paths in `plan`."""
    version = landlock_version()
    handled = _ALL_SINCE_3 if version < 5 else _ALL_SINCE_5
    ruleset = _Ruleset(
        handled,
        _BIND_AND_CONNECT_TCP if version >= 4 and not plan["network"] else 0,
        _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    made = _libc().syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    descriptor = _checked(made)
    for path in plan["read"]:
        _allow(descriptor, path, _READ)
    for path in plan["devices"]:
        _allow(descriptor, path, handled & (_READ | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE))
    for path in plan["write"]:
        _allow(descriptor, path, handled & ~_MAKE_DEVICES)
    _checked(_libc().syscall(_RESTRICT_SELF, descriptor, 0))
    os.close(descriptor)


def _allow(ruleset: int, path: str, rights: int) -> None:
    assert sys.platform == "linux"
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        is_folder = Path(path).is_dir()
        # For a file, the kernel rejects rights that only folders have.
        rule = _PathBeneath(rights if is_folder else rights & _FILE_RIGHTS, descriptor)
        added = _libc().syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
        _checked(added)
    finally:
        os.close(descriptor)


def drop_capabilities() -> None:
    """Drop all capabilities, so that root has no more rights than an ordinary user."""
    for capability in range(64):
        # Fails beyond the kernel's last capability, and for a user who has none to drop.
        with suppress(OSError):
            _prctl(_PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked(_libc().capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())))


def filter_system_calls(program: bytes) -> None:
    """Install the filter for this process and its children."""
    instructions = ctypes.create_string_buffer(program, len(program))
    filters = _FilterProgram(len(program) // 8, ctypes.addressof(instructions))
    address = ctypes.c_void_p(ctypes.addressof(filters))
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    _checked(_libc().prctl(_PR_SET_SECCOMP, mode, address, ctypes.c_ulong(0), ctypes.c_ulong(0)))


def restrict_this_process(program: bytes) -> None:
    """Install a filter for a process that is not restricted yet."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    filter_system_calls(program)


def _start(plan: dict[str, Any], argv: list[str]) -> None:
    """Become the program, confined as planned; never returns."""
    assert sys.platform == "linux"
    try:
        # The program would inherit the signals that the launcher blocks.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        # Landlock and seccomp require it from a process without capabilities.
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if plan["seccomp"] >= 0:
            with os.fdopen(plan["seccomp"], "rb") as source:
                program = source.read()
            drop_capabilities()
            restrict_files(plan)
            filter_system_calls(program)
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"the program was not started: {error}\n")
    sys.stderr.flush()
    os._exit(126)


def _descendants() -> list[int]:
    """Return every process below this one."""
    children: dict[int, list[int]] = {}
    for folder in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, no need for paths
        if not folder.isdigit():
            continue
        with suppress(OSError):
            stat = Path("/proc", folder, "stat").read_bytes()
            # The name of a program may have spaces and brackets in it; the later fields do not.
            fields = stat[stat.rindex(b")") + 2 :].split()
            children.setdefault(int(fields[1]), []).append(int(folder))
    found: list[int] = []
    above = [os.getpid()]
    while above:
        below = children.get(above.pop(), [])
        found += below
        above += below
    return found


def _kill_all() -> None:
    """Kill everything below this process; stopped first, so that nothing forks meanwhile."""
    assert sys.platform == "linux"
    # In rounds, because a process may have forked before it was stopped.
    for _ in range(_KILL_ROUNDS):
        found = _descendants()
        if not found:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in found:
                with suppress(OSError):
                    os.kill(process, number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def main(arguments: list[str]) -> int:
    """Start the program, wait for it, kill what is left below it and return its exit code."""
    if sys.platform != "linux":
        sys.stderr.write(f"the program was not started: {sys.platform} has no Landlock\n")
        return 126
    plan = json.loads(arguments[0])
    argv = arguments[1:]
    parent = os.getppid()
    # Blocked before the fork, so that a child that ends immediately is not missed.
    ends = (signal.SIGTERM, signal.SIGCHLD)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The parent died before the line above, so its signal will not come.
    if os.getppid() != parent:
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        _start(plan, argv)
    code = _wait_for(child, ends)
    _kill_all()
    return code


def _wait_for(child: int, ends: tuple[signal.Signals, ...]) -> int:
    """Return the exit code of `child`, or that of SIGTERM if this process has to end first."""
    assert sys.platform == "linux"
    while signal.sigwait(ends) != signal.SIGTERM:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    return code if code >= 0 else 128 - code
    return 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
