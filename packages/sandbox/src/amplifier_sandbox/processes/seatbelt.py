"""The command line of macOS's `sandbox-exec`, and the profile that it enforces.

A profile is a list of rules, of which the last one that matches decides. Paths are parameters and
never part of the text. Nothing is mounted: a program sees the real paths, and an error where it may
not look.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from amplifier_sandbox.own.programs import is_roots_program
from amplifier_sandbox.platforms.open_path import path_of
from amplifier_sandbox.platforms.opening import open_itself
from amplifier_sandbox.processes.visible_paths import VisiblePaths

# The one that is part of macOS; PATH is never searched.
PROGRAM = "/usr/bin/sandbox-exec"

_SYSTEM = (
    "/System",
    "/usr",
    "/bin",
    "/sbin",
    "/Library/Apple",
    "/Library/Developer/CommandLineTools",
    "/Library/Frameworks",
    "/Library/Java",
    "/Applications/Xcode.app/Contents/Developer",
    "/private/etc/group",
    "/private/etc/hosts",
    "/private/etc/localtime",
    "/private/etc/passwd",
    "/private/etc/paths",
    "/private/etc/paths.d",
    "/private/etc/shells",
    "/private/etc/ssl",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/db/xcode_select_link",
    "/private/var/select",
)
# A second name of everything that users have, and the part of it that programs are loaded from.
_DATA = "/System/Volumes"
_LOADED_FROM = "/System/Volumes/Preboot/Cryptexes"
_NETWORK_FILES = ("/private/etc/protocols", "/private/etc/resolv.conf", "/private/etc/services")
# Links to folders in /private.
_LINKS = ("/etc", "/tmp", "/var")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/ptmx")
_OWN_STREAMS = ("/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr")

# Users and groups, notifications, the log, and the temporary folder. Not here: the keychain, the
# pasteboard, launch services and Apple events, by which other programs could be made to act.
_SERVICES = (
    "com.apple.bsd.dirhelper",
    "com.apple.logd",
    "com.apple.system.logger",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
)
# Checking the certificate of a server.
_TLS_SERVICES = ("com.apple.trustd", "com.apple.trustd.agent")
_NETWORK_SERVICES = (
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.SystemConfiguration.configd",
    "com.apple.networkd",
)
# Not `kern.proc` and `kern.procargs2`, which show other processes and their environment.
_FACTS = (
    "kern.argmax",
    "kern.boottime",
    "kern.hostname",
    "kern.iossupportversion",
    "kern.maxfiles",
    "kern.maxfilesperproc",
    "kern.maxproc",
    "kern.ngroups",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osvariant_status",
    "kern.osversion",
    "kern.secure_kernel",
    "kern.usrstack64",
    "kern.version",
    "security.mac.lockdownmode_state",
    "sysctl.proc_cputype",
    "vm.loadavg",
)
_FACTS_OF_THE_MACHINE = ("hw.", "machdep.cpu.")

# What cannot be read cannot be run either.
_READ = "file-read* file-map-executable process-exec*"


def is_macos() -> bool:
    """Whether this is the system of the profile."""
    return sys.platform == "darwin"


def find_seatbelt(program: str = PROGRAM) -> str | None:
    """Return the path of `sandbox-exec`, if only root can have installed it."""
    return program if is_roots_program(Path(program)) else None


def seatbelt_command(
    program: str, paths: VisiblePaths, *, home: Path, temporary: Path, network: bool | int
) -> list[str]:
    """Return the command line up to the program that is to run inside.

    `home` and `temporary` are folders of the program. `network` is whether it has the machine's
    network, or the one port of localhost that it may connect to.
    """
    profile = _Profile()
    profile.add("(version 1)", "(deny default)")
    _add_processes(profile)
    _add_system(profile, with_network=network is not False)
    readable = [*paths.toolchains, *paths.read_only]
    changeable = [paths.workspace, *paths.writable]
    seen = [*readable, *changeable, home, temporary]
    linked = [place for place, _ in paths.links]
    profile.rule("allow", "file-read*", "literal", "LINK", linked)
    above = [*seen, *linked]
    profile.rule("allow", "file-read-metadata", "literal", "ABOVE", _folders_above(above))
    profile.rule("allow", _READ, "subpath", "READABLE", readable)
    profile.rule("allow", f"{_READ} file-write*", "subpath", "WRITABLE", changeable)
    # From here on, what was allowed above is taken back.
    profile.rule("deny", "file-write*", "subpath", "PROTECTED", paths.protected)
    # A folder above a protected path cannot be moved, which would take the path with it.
    profile.rule(
        "deny", "file-write-unlink", "literal", "HELD", [*paths.above_protected, *changeable]
    )
    profile.rule("deny", f"{_READ} file-write*", "subpath", "HIDDEN", paths.hidden)
    # After what is hidden, because the home of commands is in AMPLIFIER_HOME.
    profile.rule("allow", f"{_READ} file-write*", "subpath", "OWN", [home, temporary])
    profile.add("(deny file-write-setugid)")
    _add_network(profile, network)
    return [program, "-p", profile.text(), *profile.arguments()]


class _Profile:
    """The text of a profile, and the values of its parameters."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._values: dict[str, str] = {}

    def add(self, *lines: str) -> None:
        """Add rules that have no parameter."""
        self._lines += lines

    def rule(
        self, action: str, operations: str, match: str, name: str, paths: Iterable[Path]
    ) -> None:
        """Add one rule about some paths; none, if there are none."""
        filters: list[str] = []
        for path in paths:
            parameter = f"{name}_{len(filters)}"
            self._values[parameter] = _as_on_disk(path)
            filters.append(f'({match} (param "{parameter}"))')
        # Without a filter, a rule is about every path.
        if filters:
            self.add(f"({action} {operations} {' '.join(filters)})")

    def text(self) -> str:
        return "\n".join(self._lines)

    def arguments(self) -> list[str]:
        """Return the options that set the parameters."""
        return [word for name, value in self._values.items() for word in ("-D", f"{name}={value}")]


def _add_processes(profile: _Profile) -> None:
    profile.add(
        "(allow process-fork)",
        "(allow process-info* (target self) (target same-sandbox))",
        "(allow signal (target self) (target pgrp) (target same-sandbox))",
        f"(allow sysctl-read {_named('sysctl-name', _FACTS)} "
        f"{_named('sysctl-name-prefix', _FACTS_OF_THE_MACHINE)})",
        f"(allow mach-lookup {_named('global-name', _SERVICES)})",
        "(allow ipc-posix-sem)",
        '(allow ipc-posix-shm-read* (ipc-posix-name "apple.shm.notification_center"))',
        "(allow pseudo-tty)",
    )


def _add_system(profile: _Profile, *, with_network: bool) -> None:
    files = (*_SYSTEM, *_NETWORK_FILES) if with_network else _SYSTEM
    own_terminals = '(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))'
    profile.add(
        '(allow file-read* (literal "/"))',
        f"(allow file-read-metadata {_named('literal', _LINKS)})",
        f"(allow {_READ} {_named('subpath', files)})",
        f'(deny {_READ} (subpath "{_DATA}"))',
        f'(allow {_READ} (subpath "{_LOADED_FROM}"))',
        f"(allow file-read* file-write-data file-ioctl {_named('literal', _DEVICES)})",
        f"(allow file-read* file-write-data {_named('subpath', _OWN_STREAMS)})",
        # Only those that the program has opened itself, and not the terminals of the user.
        f"(allow file-read* file-write-data file-ioctl {own_terminals})",
    )


def _add_network(profile: _Profile, network: bool | int) -> None:
    if network is False:
        return
    profile.add(f"(allow mach-lookup {_named('global-name', _TLS_SERVICES)})")
    if network is not True:
        profile.add(f'(allow network-outbound (remote ip "localhost:{network:d}"))')
        return
    # Not `network*`, which includes the unix sockets of other programs.
    profile.add(
        '(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))',
        '(allow network-inbound (local ip "*:*"))',
        '(allow network-bind (local ip "*:*"))',
        f"(allow mach-lookup {_named('global-name', _NETWORK_SERVICES)})",
    )


def _named(match: str, names: Iterable[str]) -> str:
    return " ".join(f'({match} "{name}")' for name in names)


def _folders_above(paths: Iterable[Path]) -> list[Path]:
    """Return the folders on the way to some paths, which `getcwd` and every open look at."""
    return sorted({above for path in paths for above in path.parents if above != Path("/")})


def _as_on_disk(path: Path) -> str:
    """Return a path as the kernel spells it: on most disks of macOS, the case does not matter."""
    with suppress(OSError):
        fd = open_itself(path, os.O_RDONLY)
        try:
            return str(path_of(fd) or path)
        finally:
            os.close(fd)
    return str(path)
