"""The system call filter, carried out instruction by instruction for both architectures."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.seccomp import (
    _FORBIDDEN,
    _METADATA,
    computing_program,
    filter_program,
)

# By their numbers on Linux: the filter is for its kernel, whatever this test runs on.
AF_UNIX, AF_NETLINK, SOCK_NONBLOCK, SOCK_CLOEXEC = 1, 16, 0o4000, 0o2000000

ALLOW, KILL, DENY = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
NOT_THERE = 0x00050000 | errno.ENOSYS
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
NUMBERS = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "mkdirat": (258, 34),
    "mknodat": (259, 33),
    "openat": (257, 56),
    "openat2": (437, 437),
    "read": (0, 63),
    "execve": (59, 221),
}

every_machine = pytest.mark.parametrize("machine", MACHINES)


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Carry out `program` on one system call, as the kernel would."""
    data = struct.pack(
        "=IIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments)))
    )
    position, loaded = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * position)
        position += 1
        if code == 0x20:
            loaded = struct.unpack_from("=I", data, value)[0]
        elif code == 0x06:
            return value
        else:
            tests = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}
            position += if_true if tests[code] else if_false


def judged(
    machine: str, name: str, *arguments: int, network: bool = False, unix: bool = True
) -> int:
    architecture, column = MACHINES[machine]
    program = filter_program(network=network, unix=unix, machine=machine)
    return verdict(program, architecture, NUMBERS[name][column], *arguments)


@pytest.mark.attack("S8")
@every_machine
def test_what_is_forbidden_is_denied(machine: str) -> None:
    architecture, column = MACHINES[machine]
    program = filter_program(network=True, metadata=False, machine=machine)
    numbers = [entry[column] for entry in (_FORBIDDEN | _METADATA).values()]

    verdicts = {verdict(program, architecture, each) for each in numbers if each is not None}

    assert verdicts == {DENY}


@every_machine
def test_ordinary_calls_pass(machine: str) -> None:
    assert judged(machine, "read", 0) == ALLOW
    assert judged(machine, "execve", 0) == ALLOW
    assert judged(machine, "clone", 17) == ALLOW
    assert judged(machine, "ioctl", 0, 0x5401) == ALLOW
    assert judged(machine, "fchmod", 3, 0o755) == ALLOW


@pytest.mark.attack("S7")
@every_machine
@pytest.mark.parametrize("family", range(46))
def test_only_unix_sockets_can_be_made_without_the_network(machine: str, family: int) -> None:
    expected = ALLOW if family == AF_UNIX else DENY

    assert judged(machine, "socket", family) == expected


@every_machine
def test_with_the_network_internet_sockets_can_be_made(machine: str) -> None:
    families = [f for f in range(46) if judged(machine, "socket", f, network=True) == ALLOW]

    assert families == [AF_UNIX, socket.AF_INET, socket.AF_INET6, AF_NETLINK]


@pytest.mark.attack("review H6")
@every_machine
def test_without_unix_sockets_there_are_only_pairs_that_stay_pairs(machine: str) -> None:
    nonblocking = SOCK_NONBLOCK | SOCK_CLOEXEC
    for network in (False, True):
        assert judged(machine, "socket", AF_UNIX, network=network, unix=False) == DENY
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
            arguments = (AF_UNIX, kind | nonblocking)
            assert judged(machine, "socketpair", *arguments, network=network, unix=False) == DENY
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            arguments = (AF_UNIX, kind | nonblocking)
            assert judged(machine, "socketpair", *arguments, network=network, unix=False) == ALLOW
    assert judged(machine, "connect", 3, unix=False) == DENY
    assert judged(machine, "connect", 3, unix=False, network=True) == ALLOW
    assert judged(machine, "socket", socket.AF_INET, unix=False, network=True) == ALLOW


@pytest.mark.attack("S8")
@every_machine
@pytest.mark.parametrize("flag", [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)])
def test_no_namespace_can_be_made(machine: str, flag: int) -> None:
    assert judged(machine, "clone", flag | 17) == DENY
    assert judged(machine, "clone3", 0) == NOT_THERE


@pytest.mark.attack("S8")
@every_machine
def test_no_file_can_lend_its_owner(machine: str) -> None:
    assert judged(machine, "fchmod", 3, 0o4755) == DENY
    assert judged(machine, "fchmodat", 3, 0, 0o2755) == DENY


@pytest.mark.attack("review M4")
@every_machine
@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6000])
def test_no_file_can_be_made_that_lends_its_owner(machine: str, bits: int) -> None:
    o_creat, o_tmpfile = 0o100, 0o20200000

    assert judged(machine, "fchmodat2", 3, 0, bits) == DENY
    assert judged(machine, "mkdirat", 3, 0, bits) == DENY
    assert judged(machine, "mknodat", 3, 0, 0o100000 | bits) == DENY
    assert judged(machine, "openat", 3, 0, o_creat, bits) == DENY
    assert judged(machine, "openat", 3, 0, o_tmpfile, bits) == DENY
    assert judged(machine, "openat2", 3, 0, 0) == NOT_THERE
    assert judged(machine, "openat", 3, 0, o_creat, 0o1777) == ALLOW
    assert judged(machine, "openat", 3, 0, 0, bits) == ALLOW, "no file is made, nothing is read"


@pytest.mark.attack("review M4")
@pytest.mark.parametrize(("number", "mode"), [(2, 2), (85, 1), (83, 1), (133, 1), (90, 1)])
def test_the_older_calls_of_x86_make_none_either(number: int, mode: int) -> None:
    program = filter_program(network=False, machine="x86_64")
    arguments = [0, 0o100, 0]
    arguments[mode] = 0o4755

    assert verdict(program, MACHINES["x86_64"][0], number, *arguments) == DENY


@pytest.mark.attack("review M4")
@every_machine
def test_no_device_can_be_made_but_pipes_and_files_can(machine: str) -> None:
    modes = {"character": 0o020644, "block": 0o060644, "pipe": 0o010644, "file": 0o100644}

    made = [name for name, mode in modes.items() if judged(machine, "mknodat", 3, 0, mode) == ALLOW]

    assert made == ["pipe", "file"]


@pytest.mark.attack("S8")
@every_machine
def test_no_terminal_can_be_typed_into(machine: str) -> None:
    assert judged(machine, "ioctl", 0, 0x5412) == DENY
    # The upper half of an argument is not looked at by the kernel either.
    assert judged(machine, "ioctl", 0, 0x1_0000_5412) == DENY


@pytest.mark.attack("S8")
@every_machine
def test_another_table_of_calls_is_not_a_way_round(machine: str) -> None:
    architecture, column = MACHINES[machine]
    program = filter_program(network=False, machine=machine)
    read = NUMBERS["read"][column]

    assert verdict(program, 0x40000003, read) == KILL
    assert verdict(program, architecture, 0x40000000 | read) == KILL
    assert verdict(program, architecture, 470) == NOT_THERE


@every_machine
def test_a_program_that_computes_may_read_and_write_but_open_nothing(machine: str) -> None:
    architecture, column = MACHINES[machine]
    program = computing_program(machine=machine)
    refused = [entry[column] for entry in (_FORBIDDEN | _METADATA).values()]
    refused += [NUMBERS[name][column] for name in ("openat", "socket", "clone", "execve")]

    assert verdict(program, architecture, NUMBERS["read"][column]) == ALLOW
    assert {verdict(program, architecture, each) for each in refused if each is not None} == {DENY}
    assert verdict(program, architecture, 470) == DENY
    assert verdict(program, 0x40000003, NUMBERS["read"][column]) == KILL


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(SandboxError, match="riscv64"):
        filter_program(network=False, machine="riscv64")
    with pytest.raises(SandboxError, match="riscv64"):
        computing_program(machine="riscv64")
