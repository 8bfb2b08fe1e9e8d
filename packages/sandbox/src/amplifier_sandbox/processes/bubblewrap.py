"""The command line of bubblewrap, which gives a program its own namespaces and file system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from amplifier_sandbox.own.programs import is_roots_program
from amplifier_sandbox.processes.limits import Limits
from amplifier_sandbox.processes.visible_paths import VisiblePaths

# PATH is never searched: a workspace could have a fake `bwrap` that confines nothing.
TRUSTED_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
# The home of a program that has none of its own.
HOME = "/tmp/home"
# Where a lasting home is inside. Outside of the sandbox only root could create this path, so that
# nothing outside runs what a confined program has left a link or a line to.
LASTING_HOME = "/run/amplifier/home"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Named one by one: /etc has files that not every user may read, and we may be root.
_SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_NETWORK_FILES = ("/etc/gai.conf", "/etc/resolv.conf", "/etc/services")
_ISOLATION = (
    "--die-with-parent",
    # Detached from the user's terminal, into which a program could otherwise type (TIOCSTI).
    "--new-session",
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
)


def find_bubblewrap(folders: Sequence[str] = TRUSTED_FOLDERS) -> str | None:
    """Return the path of a bubblewrap that only root can have installed."""
    for folder in folders:
        path = Path(folder, "bwrap")
        if is_roots_program(path):
            return str(path)
    return None


@cache
def system_paths(*, network: bool) -> tuple[str, ...]:
    """Return the paths that every program may read: programs, libraries and a few settings."""
    if network:
        files = (*_SYSTEM_FILES, *_NETWORK_FILES)
    else:
        files = _SYSTEM_FILES
    return tuple(path for path in ("/usr", *_SYSTEM_FOLDERS, *files) if Path(path).exists())


def bubblewrap_command(
    program: str,
    paths: VisiblePaths,
    *,
    home: Path | None,
    network: bool,
    limits: Limits,
    seccomp_descriptor: int,
) -> list[str]:
    """Return the command line up to the program that is to run inside.

    `home` is a folder that the program can write to and that outlives it.
    """
    size = str(limits.temporary_bytes)
    arguments = [program, *_ISOLATION, *([] if network else ["--unshare-net"])]
    arguments += _system(network)
    arguments += ["--proc", "/proc", "--remount-ro", "/proc"]
    arguments += ["--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]
    arguments += ["--remount-ro", "/dev"]
    arguments += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp", "--dir", HOME]
    # A later mount covers an earlier one, so the order from here on matters.
    arguments += _binds("--ro-bind-try", paths.toolchains)
    arguments += _binds("--ro-bind", paths.read_only)
    changeable = [paths.workspace, *paths.writable]
    mounted = [*paths.toolchains, *paths.read_only, *changeable]
    for place, target in paths.links:
        # Below a mount it exists already, and a mount is there that could not be created below it.
        if not any(place.is_relative_to(each) or each.is_relative_to(place) for each in mounted):
            arguments += ["--symlink", target, str(place)]
    if home is not None:
        arguments += ["--bind", str(home), LASTING_HOME]
    arguments += _binds("--bind", [*changeable, *paths.above_protected])
    arguments += _binds("--ro-bind", paths.protected)
    for path in paths.hidden:
        is_folder = path.is_dir()
        if is_folder:
            empty = ["--tmpfs", str(path), "--remount-ro"]
        else:
            empty = ["--ro-bind", "/dev/null"]
        arguments += [*empty, str(path)]
    arguments += ["--remount-ro", "/", "--chdir", str(paths.workspace)]
    return [*arguments, "--seccomp", str(seccomp_descriptor), "--"]


@cache
def _system(network: bool) -> tuple[str, ...]:
    arguments: list[str] = []
    for path in system_paths(network=network):
        if Path(path).is_symlink() and Path(path).resolve().is_relative_to("/usr"):
            arguments += ["--symlink", str(Path(path).readlink()), path]
        else:
            # This result is cached and the file may be gone later, hence `-try`.
            arguments += ["--ro-bind-try", path, path]
    return tuple(arguments)


def _binds(option: str, paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        yield from (option, str(path), str(path))
