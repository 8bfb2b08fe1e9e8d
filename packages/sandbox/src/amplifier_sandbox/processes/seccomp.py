"""The system calls that a confined program may not make, as a program for the kernel's filter.

It is classic BPF in the kernel's format: eight bytes per instruction, and no library is needed.
"""

from __future__ import annotations

import errno
import platform
import stat
import struct
from functools import cache

from amplifier_sandbox.processes.limits import SandboxError

# Address families by their numbers on Linux; other systems have other ones, or lack them.
_AF_UNIX = 1
_AF_INET = 2
_AF_INET6 = 10
_AF_NETLINK = 16
# The numbers on x86_64 and on aarch64; None where an architecture has no such call.
_Numbers = tuple[int | None, int | None]

_FORBIDDEN: dict[str, _Numbers] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    # The operations of io_uring are not system calls, so this filter would not see them.
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Landlock does not control these, so they are forbidden altogether without mount namespaces.
_METADATA: dict[str, _Numbers] = {
    "chmod": (90, None),
    "chown": (92, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "file_setattr": (469, 469),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "lchown": (94, None),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
}
# The numbers, and which argument is the mode.
_MODE_SETTERS: dict[str, tuple[int | None, int | None, int]] = {
    "chmod": (90, None, 1),
    "creat": (85, None, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "mkdir": (83, None, 1),
    "mkdirat": (258, 34, 2),
    "mknod": (133, None, 1),
    "mknodat": (259, 33, 2),
}
# The numbers, and which argument is the flags; the mode, which only a new file takes, is the next.
_OPENERS: dict[str, tuple[int | None, int | None, int]] = {
    "open": (2, None, 1),
    "openat": (257, 56, 2),
}
# For a program that has its input open already, and only computes and writes the result.
_COMPUTING: dict[str, _Numbers] = {
    "brk": (12, 214),
    "clock_gettime": (228, 113),
    "close": (3, 57),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getrandom": (318, 278),
    "lseek": (8, 62),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "read": (0, 63),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "sigaltstack": (131, 132),
    "write": (1, 64),
}
# A filter cannot follow the pointer to their arguments. They are answered as missing (ENOSYS), so
# that libraries fall back to clone and openat.
_UNREADABLE: dict[str, _Numbers] = {"clone3": (435, 435), "openat2": (437, 437)}
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)
_CONNECT = (42, 203)
_CLONE = (56, 220)
_IOCTL = (16, 29)
_NEWEST_KNOWN = 469
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_FIRST_X32 = 0x40000000

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_NEW_NAMESPACES = 0x7E020000
# Both put characters into the input of a terminal.
_TIOCSTI = 0x5412
_TIOCLINUX = 0x541C
# S_IFCHR is a bit of both kinds of devices, and of nothing else that `mknod` can make.
_LENDING = stat.S_ISUID | stat.S_ISGID | stat.S_IFCHR
# O_CREAT and the bit of O_TMPFILE that is not O_DIRECTORY.
_MAKES_A_FILE = 0o100 | 0o20000000
# A bit of SOCK_DGRAM and SOCK_RAW, whose pairs can be connected again, and not of SOCK_STREAM.
_DATAGRAMS = 2

_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06
_OFFSET_NUMBER = 0
_OFFSET_ARCHITECTURE = 4
_OFFSET_ARGUMENTS = 16
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERROR = 0x00050000

_Program = list[bytes]


@cache
def filter_program(
    *, network: bool, metadata: bool = True, unix: bool = True, machine: str | None = None
) -> bytes:
    """Return the filter, ready for the kernel.

    Without `network` only unix sockets can be made. Without `unix` only pairs of them can, which
    are connected to each other and to nothing else: asyncio needs these. Without `metadata` no file
    changes its owner, mode or extended attributes. Set-user-ID files and devices are always denied.

    Raises:
        SandboxError: the machine is neither x86_64 nor aarch64.
    """
    program, column = _start(machine)
    program += [
        # Calls that are newer than this list were not reviewed, so they are answered as missing.
        _instruction(_AT_LEAST, _NEWEST_KNOWN + 1, 0, 1),
        _instruction(_RETURN, _ERROR | errno.ENOSYS),
    ]
    for numbers in (_FORBIDDEN if metadata else _FORBIDDEN | _METADATA).values():
        program += _when(numbers[column], [_refuse()])
    for numbers in _UNREADABLE.values():
        program += _when(numbers[column], [_instruction(_RETURN, _ERROR | errno.ENOSYS)])
    program += _when(_CLONE[column], _refuse_bits(0, _NEW_NAMESPACES))
    program += _when(_IOCTL[column], _refuse_values(1, (_TIOCSTI, _TIOCLINUX)))
    program += _when(_SOCKET[column], _allow_values(0, _families(network=network, unix=unix)))
    if not unix:
        program += _when(_SOCKETPAIR[column], _refuse_bits(1, _DATAGRAMS))
    if not (unix or network):
        program += _when(_CONNECT[column], [_refuse()])
    for *numbers, mode in _MODE_SETTERS.values():
        program += _when(numbers[column], _refuse_bits(mode, _LENDING))
    for *numbers, flags in _OPENERS.values():
        program += _when(numbers[column], _refuse_new_files(flags, _LENDING))
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)


@cache
def computing_program(*, machine: str | None = None) -> bytes:
    """Return a filter under which a program can use open files and memory, and nothing else.

    It opens no file, makes no socket and no process, and sends no signal.

    Raises:
        SandboxError: the machine is neither x86_64 nor aarch64.
    """
    program, column = _start(machine)
    for numbers in _COMPUTING.values():
        program += _when(numbers[column], [_instruction(_RETURN, _ALLOW)])
    program.append(_refuse())
    return b"".join(program)


def _start(machine: str | None) -> tuple[_Program, int]:
    """Return the first instructions, and the column of the machine's numbers."""
    name = machine or platform.machine()
    if name not in _ARCHITECTURES:
        raise SandboxError(f"there is no system call filter for `{name}`, only for x86_64, aarch64")
    architecture, column = _ARCHITECTURES[name]
    program = [
        _instruction(_LOAD, _OFFSET_ARCHITECTURE),
        # The same numbers mean other calls on another architecture, such as 32-bit x86.
        _instruction(_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _OFFSET_NUMBER),
        # The x32 calls of x86_64 have numbers of their own, which would get around the list.
        _instruction(_AT_LEAST, _FIRST_X32, 0, 1),
        _instruction(_RETURN, _KILL_PROCESS),
    ]
    return program, column


def _families(*, network: bool, unix: bool) -> tuple[int, ...]:
    local = (_AF_UNIX,) if unix else ()
    if network:
        internet = (_AF_INET, _AF_INET6, _AF_NETLINK)
    else:
        internet = ()
    return (*local, *internet)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse() -> bytes:
    return _instruction(_RETURN, _ERROR | errno.EPERM)


def _load_argument(index: int) -> bytes:
    # The low half of an argument: both architectures are little-endian.
    return _instruction(_LOAD, _OFFSET_ARGUMENTS + 8 * index)


def _when(number: int | None, body: _Program) -> _Program:
    """Run `body`, which returns, on the call of this number; skip it on any other."""
    if number is None:
        return []
    return [_instruction(_EQUAL, number, 0, len(body)), *body]


def _refuse_bits(argument: int, bits: int) -> _Program:
    return [
        _load_argument(argument),
        _instruction(_ANY_BIT, bits, 0, 1),
        _refuse(),
        _instruction(_RETURN, _ALLOW),
    ]


def _refuse_new_files(flags: int, bits: int) -> _Program:
    """Refuse to create a file whose mode, the argument after `flags`, has one of `bits`."""
    refusal = _refuse_bits(flags + 1, bits)
    # Without such a flag the kernel ignores the mode, and it may be anything.
    skip = _instruction(_ANY_BIT, _MAKES_A_FILE, 1, 0)
    return [_load_argument(flags), skip, _instruction(_RETURN, _ALLOW), *refusal]


def _refuse_values(argument: int, values: tuple[int, ...]) -> _Program:
    program = [_load_argument(argument)]
    for value in values:
        program += [_instruction(_EQUAL, value, 0, 1), _refuse()]
    return [*program, _instruction(_RETURN, _ALLOW)]


def _allow_values(argument: int, values: tuple[int, ...]) -> _Program:
    program = [_load_argument(argument)]
    for value in values:
        program += [_instruction(_EQUAL, value, 0, 1), _instruction(_RETURN, _ALLOW)]
    return [*program, _refuse()]
