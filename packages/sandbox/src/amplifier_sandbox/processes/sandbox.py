"""The sandbox that this machine supports, and how to start a program in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

from amplifier_sandbox.network.session_network import NetworkAccess
from amplifier_sandbox.platforms.signals import KILL
from amplifier_sandbox.platforms.users import is_administrator
from amplifier_sandbox.processes import bubblewrap, launcher, seatbelt
from amplifier_sandbox.processes.control_groups import ControlGroup, ControlGroups
from amplifier_sandbox.processes.limits import Limits, SandboxError, limited, limited_processes
from amplifier_sandbox.processes.own_code import OwnCode
from amplifier_sandbox.processes.seccomp import filter_program
from amplifier_sandbox.processes.toolchains import NO_TOOLCHAINS, Toolchains
from amplifier_sandbox.processes.visible_paths import VisiblePaths
from amplifier_sandbox.processes.workspace import ProtectedPaths, checked_workspace, existing_paths

Level = Literal["bubblewrap", "seatbelt", "landlock", "none"]

PROTECTED = (".git", ".amplifier")
"""Paths in a workspace that would make the machine run or approve something later."""

_WHAT_HOLDS: dict[Level, tuple[str, ...]] = {
    "bubblewrap": (
        "Programs run in bubblewrap: they see the system read-only and write to the workspace.",
        "Protected paths, other processes and, unless it is given, the network are out of reach.",
        "Everything a program started ends with it.",
    ),
    "seatbelt": (
        "Programs run under macOS's Seatbelt: they read the system and write to the workspace.",
        "Protected paths and, unless it is given, the network are out of reach, with localhost.",
        "There is no namespace of processes: a daemon that a program has started outlives it.",
    ),
    "landlock": (
        "Programs run under Landlock: they read the system and write to the workspace.",
        "Protected paths cannot be held, and other processes of the same user can be seen.",
        "Owners, modes and extended attributes of files cannot be changed anywhere.",
        "Unix sockets cannot be made, so that no other program of the user can be connected to.",
    ),
    "none": ("There is no sandbox: programs are not started unless protection is waived.",),
}
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OLDEST_LANDLOCK = 3
_PROBE_SECONDS = 10


def clean_environment(
    passed: Sequence[str] = (), toolchains: Toolchains = NO_TOOLCHAINS
) -> dict[str, str]:
    """Return the environment of a confined program.

    Of our own, it has the variables in `passed` and those by which `toolchains` are found.
    """
    ours = {name: os.environ[name] for name in passed if name in os.environ}
    found = {"PATH": toolchains.path, **dict(toolchains.environment)}
    # Older versions of macOS have no C.UTF-8.
    language = "en_US.UTF-8" if seatbelt.is_macos() else "C.UTF-8"
    return {"LANG": language, "TERM": "dumb", **found, **ours}


_OF_THE_USER = (
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TERM",
    "USER",
    "XDG_RUNTIME_DIR",
)


def users_environment(passed: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of a program outside of any sandbox: the user's, without keys."""
    return {name: os.environ[name] for name in (*_OF_THE_USER, *passed) if name in os.environ}


@dataclass(slots=True)
class LaunchSpec:
    """How to start one confined program; `close` it when the program has ended.

    Start it from a thread that lives as long as the program: the kernel kills the program when the
    thread that started it ends. `kill_signal` ends it and everything it started.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    pass_fds: tuple[int, ...] = ()
    kill_signal: signal.Signals = KILL
    # Whether its processes are killed one by one, because nothing else ends those of other groups.
    kills_below: bool = False
    group: ControlGroup | None = None
    held: ExitStack = field(default_factory=ExitStack, repr=False)

    def close(self) -> None:
        """Release the resources of the program; calling it twice is fine."""
        self.held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Request:
    """A program to run, checked and with real paths."""

    argv: list[str]
    workspace: Path
    env: dict[str, str]
    # Whether it shares the machine's network, or how it enters that of its session.
    network: bool | NetworkAccess
    protected: ProtectedPaths
    read_only: list[Path]
    writable: list[Path]
    toolchains: Toolchains
    # A folder that outlives the program, None for one that does not.
    home: Path | None
    limits: Limits
    # None without protection.
    own_code: OwnCode | None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One way of confining programs."""

    level: Level
    groups: ControlGroups = ControlGroups()
    # Why no better level is available, in plain words.
    reasons: tuple[str, ...] = ()
    # The path of bubblewrap, or of `sandbox-exec`.
    program: str = ""
    # Whether the user asked for no protection; only then does level `none` start anything.
    is_waived: bool = False

    @classmethod
    def detect(cls, folders: Sequence[str] = bubblewrap.TRUSTED_FOLDERS) -> Sandbox:
        """Return the strongest sandbox that works here; each is tried by running a program in it.

        Level `none` means that none works: `command` then refuses. Bubblewrap is searched for in
        `folders` only.
        """
        if seatbelt.is_macos():
            return cls._detect_seatbelt()
        if sys.platform != "linux":
            reason = f"there is no sandbox for {sys.platform}, only for Linux and macOS"
            return cls("none", reasons=(reason,))
        groups = ControlGroups.detect()
        program = bubblewrap.find_bubblewrap(folders)
        if program is None:
            reasons = (f"bubblewrap is not installed in {', '.join(folders) or 'any folder'}",)
        else:
            found = cls("bubblewrap", groups, program=program)
            failure = found._try_out()
            if failure is None:
                return found
            reasons = (f"bubblewrap does not work here: {failure}",)
        version = launcher.landlock_version()
        if version < _OLDEST_LANDLOCK:
            return cls(
                "none", groups, (*reasons, "the kernel has no Landlock of version 3 or newer")
            )
        found = cls("landlock", groups, reasons)
        failure = found._try_out()
        if failure is None:
            return found
        return cls("none", groups, (*reasons, f"Landlock does not work here: {failure}"))

    @classmethod
    def _detect_seatbelt(cls) -> Sandbox:
        program = seatbelt.find_seatbelt()
        if program is None:
            reason = (
                f"`{seatbelt.PROGRAM}`, which confines programs on macOS, is missing or is not "
                "root's own; reinstall macOS's command line programs"
            )
            return cls("none", reasons=(reason,))
        found = cls("seatbelt", program=program)
        failure = found._try_out()
        if failure is None:
            return found
        return cls("none", reasons=(f"`{program}` does not work here: {failure}",))

    @classmethod
    def waived(cls) -> Sandbox:
        """Return a sandbox that confines nothing, for users who asked for that explicitly."""
        groups = ControlGroups() if seatbelt.is_macos() else ControlGroups.detect()
        return cls("none", groups, ("protection was waived",), is_waived=True)

    @property
    def protects_paths(self) -> bool:
        """Whether paths in the workspace can be kept from being changed."""
        return self.level in ("bubblewrap", "seatbelt")

    def describe(self) -> list[str]:
        """Return what is enforced here and what is not, one plain sentence each."""
        return [*_WHAT_HOLDS[self.level], *self._which_limits_hold(), *map(_sentence, self.reasons)]

    def command(
        self,
        argv: Sequence[str],
        *,
        workspace: str | Path,
        env: Mapping[str, str] | None = None,
        network: bool | NetworkAccess = False,
        protected: Sequence[str] = PROTECTED,
        read_only: Sequence[str | Path] = (),
        writable: Sequence[str | Path] = (),
        toolchains: Toolchains = NO_TOOLCHAINS,
        home: Path | None = None,
        limits: Limits | None = None,
    ) -> LaunchSpec:
        """Return how to start `argv` so that it can change nothing outside `workspace`.

        `protected` are paths relative to the workspace that cannot be changed or created. The code
        of this process is always protected, and AMPLIFIER_HOME appears empty. `read_only` and
        `writable` are further paths that exist inside, `toolchains` installations of the user.
        `home` is a private home that outlives the program, prepared by `prepared_home`; without
        it, or without protection, HOME is empty and removed afterwards.

        Raises:
            SandboxError: it cannot be confined as asked.
        """
        if self.level == "none" and not self.is_waived:
            raise SandboxError("; ".join(self.reasons))
        if self.level == "landlock" and protected:
            raise SandboxError(
                f"Landlock cannot keep {', '.join(protected)} from being changed in a workspace "
                "that may be written to; install bubblewrap, or protect no paths"
            )
        folder = checked_workspace(workspace)
        readable = existing_paths(read_only)
        changeable = existing_paths(writable)
        request = _Request(
            list(argv),
            folder,
            dict(clean_environment() if env is None else env),
            network,
            ProtectedPaths(protected),
            readable,
            changeable,
            toolchains,
            home,
            limits or Limits(),
            None
            if self.level == "none"
            else OwnCode([folder, *changeable], [*readable, *toolchains.shown]),
        )
        with ExitStack() as stack:
            try:
                launch = self._prepare(request, stack)
            except OSError as error:
                raise SandboxError(f"the sandbox cannot be set up: {error}") from error
            launch.held = stack.pop_all()
        return launch

    def _prepare(self, request: _Request, stack: ExitStack) -> LaunchSpec:
        if self.level == "bubblewrap":
            build = self._bubblewrap
        elif self.level == "seatbelt":
            build = self._seatbelt
        elif seatbelt.is_macos():
            build = self._unprotected
        else:
            build = self._launcher
        launch = build(request, stack)
        if self.groups.parents:
            launch.group = self.groups.create(request.limits)
            stack.callback(launch.group.remove)
        if launch.group:
            folders = [str(folder) for folder in launch.group.folders]
        else:
            folders = []
        limits = request.limits
        if seatbelt.is_macos():
            # macOS does not limit the address space, and `ulimit` fails.
            limits = replace(limits, memory_bytes=None)
        launch.argv = limited(
            launch.argv,
            limits,
            groups=folders,
            counts_memory=self.groups.counts_memory,
        )
        launch.env["PWD"] = launch.cwd
        return launch

    def _bubblewrap(self, request: _Request, stack: ExitStack) -> LaunchSpec:
        network = request.network
        # Abstract unix sockets are part of the network namespace: with the machine's network, a
        # program could connect to those of the user (tmux, docker).
        program = filter_program(network=network is not False, unix=network is not True)
        descriptor = _filter_descriptor(stack, program)
        argv = bubblewrap.bubblewrap_command(
            self.program,
            _visible_paths(request, stack),
            home=request.home,
            network=network is not False,
            limits=request.limits,
            seccomp_descriptor=descriptor,
        )
        home = bubblewrap.HOME if request.home is None else bubblewrap.LASTING_HOME
        env = {**request.env, "HOME": home}
        enter: tuple[str, ...] = ()
        if isinstance(network, NetworkAccess):
            enter = network.enter
            env |= network.env
        return LaunchSpec(
            [*enter, *argv, *self._counted(request)], env, str(request.workspace), (descriptor,)
        )

    def _seatbelt(self, request: _Request, stack: ExitStack) -> LaunchSpec:
        temporary = _temporary_folder(stack)
        if request.home is None:
            home = temporary / "home"
            home.mkdir()
        else:
            home = request.home
        network = request.network
        env = {**request.env, "HOME": str(home), "TMPDIR": str(temporary)}
        if isinstance(network, NetworkAccess):
            env |= network.env
        paths = _visible_paths(request, stack)
        existing = [path for path in paths.toolchains if path.exists()]
        argv = seatbelt.seatbelt_command(
            self.program,
            replace(paths, toolchains=existing),
            home=home,
            temporary=temporary,
            network=network.port if isinstance(network, NetworkAccess) else network,
        )
        return LaunchSpec([*argv, *request.argv], env, str(request.workspace), kills_below=True)

    def _unprotected(self, request: _Request, stack: ExitStack) -> LaunchSpec:
        """Return how to start a program without protection on macOS, which has no launcher."""
        temporary = str(_temporary_folder(stack))
        env = {**request.env, "HOME": temporary, "TMPDIR": temporary}
        return LaunchSpec(request.argv, env, str(request.workspace), kills_below=True)

    def _launcher(self, request: _Request, stack: ExitStack) -> LaunchSpec:
        if request.own_code is None:
            own = None
        else:
            own = next(request.own_code.inside(), None)
        if own is not None:
            raise SandboxError(
                f"this program runs from `{own}` or keeps its keys there, and Landlock cannot keep "
                "it from commands that may write to a folder above it; install bubblewrap, or "
                "start in another folder"
            )
        temporary = str(_temporary_folder(stack))
        # Without protection, a program would use what confined ones have left in the lasting home.
        if request.home is None or self.level == "none":
            home = temporary
        else:
            home = str(request.home)
        # Namespaces are what bubblewrap lacks here, so there is no network of the session either.
        network = request.network is True
        descriptor = -1
        if self.level == "landlock":
            # Landlock does not restrict connections to unix sockets, so none can be made at all.
            program = filter_program(network=network, metadata=False, unix=False)
            descriptor = _filter_descriptor(stack, program)
        plan = {
            "seccomp": descriptor,
            "network": network,
            "read": [
                *bubblewrap.system_paths(network=network),
                *map(str, request.read_only),
                *map(str, _readable_parts(request.toolchains)),
            ],
            "devices": [path for path in _DEVICES if Path(path).exists()],
            "write": [temporary, home, str(request.workspace), *map(str, request.writable)],
        }
        # Isolated: neither the environment nor the workspace adds code to the launcher.
        python = [sys.executable, "-I", "-S", launcher.__file__, json.dumps(plan)]
        return LaunchSpec(
            [*python, *self._counted(request)],
            {**request.env, "HOME": home, "TMPDIR": temporary},
            str(request.workspace),
            () if descriptor < 0 else (descriptor,),
            signal.SIGTERM,
        )

    def _which_limits_hold(self) -> Iterator[str]:
        groups = self.groups
        if self.level == "seatbelt":
            yield "Memory and processes are added up four times a second, and not limited before."
            return
        together = "counted for all processes of a program together"
        yield f"Memory is {together if groups.counts_memory else 'limited for each process only'}."
        if groups.counts_processes:
            yield f"Processes are {together}."
        elif is_administrator():
            yield "The number of processes is not limited: for root it takes a control group."
        else:
            yield "Processes are counted for the user inside."

    def _counted(self, request: _Request) -> list[str]:
        if self.groups.counts_processes:
            return request.argv
        return limited_processes(request.argv, request.limits)

    def _try_out(self) -> str | None:
        """Run a program that does nothing; return what went wrong, or None."""
        protected = PROTECTED if self.protects_paths else ()
        argv = ["/bin/sh", "-c", ":"]
        try:
            with (
                tempfile.TemporaryDirectory(prefix="amplifier-") as workspace,
                self.command(argv, workspace=workspace, protected=protected) as launch,
            ):
                done = subprocess.run(
                    launch.argv,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    env=launch.env,
                    cwd=launch.cwd,
                    pass_fds=launch.pass_fds,
                    timeout=_PROBE_SECONDS,
                )
        except (OSError, SandboxError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode == 0:
            return None
        return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"


def _visible_paths(request: _Request, stack: ExitStack) -> VisiblePaths:
    """Return what the program sees; placeholders of protected paths are removed with `stack`."""
    held = request.protected.hold(request.workspace, stack)
    if request.own_code is not None:
        request.own_code.hold(held, stack)
    return VisiblePaths(
        toolchains=request.toolchains.shown,
        links=request.toolchains.links,
        read_only=request.read_only,
        workspace=request.workspace,
        writable=request.writable,
        protected=held.paths,
        above_protected=held.folders_above,
        hidden=[*held.hidden, *(path for path in request.toolchains.hidden if path.exists())],
    )


def _temporary_folder(stack: ExitStack) -> Path:
    """Return the real path of a new folder, which is removed with `stack`."""
    temporary = Path(tempfile.mkdtemp(prefix="amplifier-")).resolve()
    stack.callback(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def _sentence(reason: str) -> str:
    return f"{reason[0].upper()}{reason[1:].rstrip('.')}."


def _readable_parts(toolchains: Toolchains) -> Iterator[Path]:
    """Yield what is shown without what is hidden in it, for Landlock, which can only allow."""
    waiting = list(toolchains.shown)
    while waiting:
        path = waiting.pop()
        if path in toolchains.hidden or not path.exists():
            continue
        if any(hidden.is_relative_to(path) for hidden in toolchains.hidden):
            waiting += path.iterdir()
        else:
            yield path


def _filter_descriptor(stack: ExitStack, program: bytes) -> int:
    """Return an open file with the system call filter, for one reader."""
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no system call filter")
    descriptor = os.memfd_create("system-call-filter")
    stack.callback(os.close, descriptor)
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
