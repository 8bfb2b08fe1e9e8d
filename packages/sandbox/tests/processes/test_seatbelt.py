"""The profile for macOS, read and judged here as Seatbelt would, beside what bubblewrap mounts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_sandbox.network.proxy import Pass
from amplifier_sandbox.network.session_network import NetworkAccess
from amplifier_sandbox.ownership import exposure_of
from amplifier_sandbox.platforms import process_end, process_table
from amplifier_sandbox.processes import disk_use, seatbelt
from amplifier_sandbox.processes.bubblewrap import LASTING_HOME, bubblewrap_command
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.seatbelt import seatbelt_command
from amplifier_sandbox.processes.toolchains import Toolchains
from amplifier_sandbox.processes.visible_paths import VisiblePaths
from amplifier_sandbox.processes.workspace import why_not_given
from linux_masks import mask_as_macos

TOKEN = re.compile(r'\s*(?:(\()|(\))|(#?"(?:[^"\\]|\\.)*")|([^\s()"]+))')
# Every operation that the profile names; a name that Seatbelt does not know refuses all of it.
KNOWN = {
    *("default", "file-ioctl", "file-map-executable", "file-read*", "file-read-metadata"),
    *("file-write*", "file-write-data", "file-write-setugid", "file-write-unlink"),
    *("ipc-posix-sem", "ipc-posix-shm-read*", "mach-lookup", "network-bind", "network-inbound"),
    *("network-outbound", "process-exec*", "process-fork", "process-info*", "pseudo-tty"),
    *("signal", "sysctl-read"),
}


def parsed(text: str) -> list[list[Any]]:
    """Return the rules of a profile; fail on anything that is not an S-expression."""
    stack: list[list[Any]] = [[]]
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        assert match is not None, text[at : at + 40]
        at = match.end()
        if match[1]:
            stack.append([])
        elif match[2]:
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(match[3] or match[4])
    assert len(stack) == 1, "a bracket is open"
    return cast("list[list[Any]]", stack[0])


class Profile:
    """A profile with its parameters, which answers as Seatbelt does: the last match decides."""

    def __init__(self, argv: Sequence[str]) -> None:
        assert argv[1] == "-p"
        self.text = argv[2]
        self.rules = parsed(self.text)
        self.values: dict[str, str] = {}
        rest = list(argv[3:])
        while rest[:1] == ["-D"]:
            name, _, value = rest[1].partition("=")
            self.values[name] = value
            del rest[:2]
        self.program = rest

    def allows(self, operation: str, path: str | Path) -> bool:
        """Whether a program may do something to a path."""
        answer = False
        for action, *rest in self.rules:
            if action not in ("allow", "deny"):
                continue
            operations = [each for each in rest if isinstance(each, str)]
            filters: list[list[Any]] = [each for each in rest if not isinstance(each, str)]
            if not any(_covers(each, operation) for each in operations):
                continue
            if not filters or any(self._matches(each, str(path)) for each in filters):
                answer = action == "allow"
        return answer

    def _matches(self, given: list[Any], path: str) -> bool:
        kind, *arguments = given
        if kind == "require-all":
            return all(self._matches(each, path) for each in arguments)
        if kind not in ("literal", "subpath", "regex"):
            return False
        value = self._value(arguments[0])
        if kind == "regex":
            return re.search(value, path) is not None
        return path == value or (kind == "subpath" and path.startswith(f"{value.rstrip('/')}/"))

    def _value(self, given: Any) -> str:
        if isinstance(given, list):
            name, parameter = cast("list[str]", given)
            assert name == "param"
            return self.values[parameter.strip('"')]
        return str(given).removeprefix("#").strip('"')


def _covers(rule: str, operation: str) -> bool:
    is_group = rule.endswith("*") and operation.startswith(rule[:-1])
    return rule in ("default", operation) or is_group


class Mounts:
    """What bubblewrap mounts, in its order: the last mount above a path decides."""

    def __init__(self, argv: Sequence[str], home: Path) -> None:
        self._mounts: list[tuple[str, str]] = []
        words = iter(argv)
        for word in words:
            if word in ("--ro-bind", "--ro-bind-try", "--bind"):
                source, place = next(words), next(words)
                kind = "write" if word == "--bind" else "read"
                kind = "nothing" if source == "/dev/null" else kind
                self._mounts.append((kind, place))
            elif word == "--tmpfs":
                self._mounts.append(("nothing", next(words)))
        # The same folder has another path inside, which no other mount is above.
        self._mounts += [(kind, str(home)) for kind, place in self._mounts if place == LASTING_HOME]

    def access(self, path: Path) -> str:
        """Return what a program can do with the content of a path."""
        found = "nothing"
        for kind, place in self._mounts:
            if path.is_relative_to(place):
                found = kind
        return found


def access(profile: Profile, path: Path) -> str:
    """Return what a program can do with the content of a path, by the profile."""
    reads = profile.allows("file-read-data", path)
    assert profile.allows("process-exec*", path) == reads
    writes = {
        profile.allows(operation, path)
        for operation in ("file-write-data", "file-write-create", "file-write-mode")
    }
    assert len(writes) == 1
    if writes == {True}:
        assert reads
        return "write"
    return "read" if reads else "nothing"


BASE = Path("/base")
PLACES = [
    Path(BASE, *parts)
    for parts in [
        *((one,) for one in "abc"),
        *((one, two) for one in "abc" for two in "ab"),
        *((one, two, three) for one in "abc" for two in "ab" for three in "ab"),
    ]
]
PATHS = st.lists(st.sampled_from(PLACES), max_size=3, unique=True)
HOME = Path("/private/home")
PROJECT = Path("/users/me/project")
TEMPORARY = Path("/private/temporary")


@given(
    workspace=st.sampled_from(PLACES),
    protected=PATHS,
    hidden=PATHS,
    read_only=PATHS,
    writable=PATHS,
    toolchains=PATHS,
)
def test_every_path_is_as_open_as_bubblewrap_mounts_it(
    workspace: Path,
    protected: list[Path],
    hidden: list[Path],
    read_only: list[Path],
    writable: list[Path],
    toolchains: list[Path],
) -> None:
    paths = VisiblePaths(
        toolchains=toolchains,
        links=[],
        read_only=read_only,
        workspace=workspace,
        writable=writable,
        protected=[each for each in protected if each.is_relative_to(workspace)],
        above_protected=[],
        hidden=hidden,
    )
    argv = bubblewrap_command(
        "bwrap", paths, home=HOME, network=False, limits=Limits(), seccomp_descriptor=3
    )
    mounts = Mounts(argv, HOME)
    profile = Profile(command(paths))

    for path in (*PLACES, BASE, *(place / "deep" / "file" for place in PLACES), HOME / "file"):
        assert access(profile, path) == mounts.access(path), path


def command(paths: VisiblePaths, *, network: bool | int = False) -> list[str]:
    return seatbelt_command("sandbox-exec", paths, home=HOME, temporary=TEMPORARY, network=network)


def only_workspace(**more: Any) -> VisiblePaths:
    """Return the paths of a program that sees a workspace and nothing else."""
    given: dict[str, Any] = dict.fromkeys((each.name for each in fields(VisiblePaths)), ())
    given |= {"workspace": PROJECT, **more}
    return VisiblePaths(**given)


@pytest.fixture
def plain() -> Profile:
    return Profile(command(only_workspace()))


def test_a_profile_denies_what_it_does_not_name(plain: Profile) -> None:
    assert plain.rules[:2] == [["version", "1"], ["deny", "default"]]
    named = {each for _, *rest in plain.rules[1:] for each in rest if isinstance(each, str)}
    assert named <= KNOWN
    # A rule without a filter is about everything.
    open_to_all = [rule for rule in plain.rules if rule[0] == "allow" and len(rule) == 2]
    assert open_to_all == [
        ["allow", each] for each in ("process-fork", "ipc-posix-sem", "pseudo-tty")
    ]


@pytest.mark.parametrize(
    "path",
    [
        *("/users/me/.ssh/id_rsa", "/users/me/.aws/credentials", "/users/me/other/file"),
        *("/private/etc/master.passwd", "/private/var/root/x", "/private/tmp/other"),
        *("/Library/Keychains/System.keychain", "/System/Volumes/Data/Users/me/.ssh/id_rsa"),
        *("/dev/disk0", "/dev/ttys001", "/dev/bpf0", "/private/etc/resolv.conf"),
    ],
)
def test_what_is_outside_is_neither_read_nor_written(plain: Profile, path: str) -> None:
    assert access(plain, Path(path)) == "nothing"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((each, "read") for each in ("/usr/bin/git", "/bin/bash", "/System/Library/x")),
        ("/System/Volumes/Preboot/Cryptexes/OS/x", "read"),
        ("/private/var/select/sh", "read"),
        *((f"/users/me/project/{each}", "write") for each in ("a", "deep/b")),
        (str(TEMPORARY / "x"), "write"),
        (str(HOME / ".cache/x"), "write"),
    ],
)
def test_what_a_command_needs_is_open(plain: Profile, path: str, expected: str) -> None:
    assert access(plain, Path(path)) == expected


def test_the_folders_on_the_way_can_be_looked_at_and_not_listed(plain: Profile) -> None:
    for folder in ("/users", "/users/me", "/private"):
        assert plain.allows("file-read-metadata", folder)
        assert not plain.allows("file-read-data", folder)
    assert not plain.allows("file-read-metadata", "/users/other")


@pytest.mark.attack("S3")
def test_a_folder_above_a_protected_path_cannot_be_moved_away() -> None:
    workspace = PROJECT
    paths = only_workspace(protected=[workspace / "own/code"], above_protected=[workspace / "own"])
    profile = Profile(command(paths))

    for held in ("own/code/x", "own/code", "own", "."):
        assert not profile.allows("file-write-unlink", os.path.normpath(workspace / held))
    for free in ("own/other", "a"):
        assert profile.allows("file-write-unlink", workspace / free)


def without_folders_above(text: str) -> list[str]:
    """Return the lines of a profile, but for the one whose length depends on the depth of paths."""
    return [line for line in text.splitlines() if "ABOVE_0" not in line]


@pytest.mark.attack("S3")
@pytest.mark.parametrize(
    "name",
    ['x")) (allow default) (deny file-write* (literal "', "a b\n(allow default)", "\\", "$x"],
)
def test_the_name_of_a_folder_is_never_part_of_the_text(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / name
    workspace.mkdir()

    argv = command(only_workspace(workspace=workspace, protected=[workspace]))

    other = command(only_workspace(protected=[BASE]))
    assert without_folders_above(argv[2]) == without_folders_above(other[2])
    assert access(Profile(argv), workspace / "x") == "read"


def test_a_path_is_spelled_as_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spelled = tmp_path / "Project"
    (tmp_path / "project").mkdir()

    def path_of(descriptor: int) -> Path:
        return spelled

    monkeypatch.setattr(seatbelt, "path_of", path_of)

    argv = command(only_workspace(workspace=tmp_path / "project"))

    assert f"WRITABLE_0={spelled}" in argv


def network_rules(network: bool | int) -> list[list[Any]]:
    profile = Profile(command(only_workspace(), network=network))
    return [rule for rule in profile.rules if any("network" in str(each) for each in rule[1:2])]


@pytest.mark.attack("S4")
def test_only_the_port_of_the_proxy_is_open_and_only_if_it_was_given() -> None:
    assert network_rules(network=False) == []
    assert network_rules(48123) == [
        ["allow", "network-outbound", ["remote", "ip", '"localhost:48123"']]
    ]


def test_the_network_of_the_machine_has_no_sockets_of_other_programs() -> None:
    rules = network_rules(network=True)

    assert ["allow", "network-inbound", ["local", "ip", '"*:*"']] in rules
    assert not any("network*" in rule or len(rule) == 2 for rule in rules)


Recorded = Callable[[], list[str]]


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorded:
    """A system that has what macOS has; returns the arguments of its `sandbox-exec`."""
    folder = tmp_path / "system"
    folder.mkdir()
    return mask_as_macos(monkeypatch, folder)


def files_below(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        yield from (Path(above, name) for name in (*folders, *names))


def test_the_policy_of_a_real_workspace_is_that_of_bubblewrap(
    bubblewrap: Sandbox, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".git/hooks/pre-commit", ".git/config", "src/a.py", "tool/bin/x", "tool/.npmrc"):
        (workspace.parent / "layout" / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace.parent / "layout" / name).touch()
    project = workspace.parent / "layout"
    read_only = tmp_path / "reading"
    own = read_only / "amplifier"
    home = own / "home"
    home.mkdir(parents=True)
    (home / "kept").touch()
    (own / "key").touch()
    monkeypatch.setenv("AMPLIFIER_HOME", str(own))
    (read_only / "file").touch()
    options: dict[str, Any] = {
        "workspace": project,
        "read_only": [read_only],
        "home": home,
        "toolchains": Toolchains(shown=(project / "tool",), hidden=(project / "tool" / ".npmrc",)),
    }

    with (
        bubblewrap.command(["true"], **options) as mounted,
        Sandbox("seatbelt", program="sandbox-exec").command(["true"], **options) as ruled,
    ):
        mounts = Mounts(mounted.argv, home)
        profile = Profile(ruled.argv[ruled.argv.index("sandbox-exec") :])
        seen = {path: access(profile, path) for path in files_below(tmp_path)}

    assert seen == {path: mounts.access(path) for path in seen}
    assert seen[project / "src" / "a.py"] == "write"
    assert seen[project / ".git" / "config"] == "read"
    assert seen[own / "key"] == "nothing"
    assert seen[home / "kept"] == "write"


def test_macos_is_found_and_a_command_runs_by_its_program(
    macos: Recorded, workspace: Path, run: Any
) -> None:
    found = Sandbox.detect()

    done = run(found, 'echo "$HOME $TMPDIR" >seen; echo x >"$TMPDIR/y"; echo "$PWD"; exit 3')

    assert found.level == "seatbelt"
    assert "Seatbelt" in found.describe()[0]
    assert "added up" in found.describe()[-1]
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{workspace}\n", "")
    recorded = Profile(["sandbox-exec", *macos()])
    assert recorded.program[:2] == ["/bin/bash", "-c"]
    home, temporary = (workspace / "seen").read_text("utf-8").split()
    assert home == f"{temporary}/home"
    assert recorded.values["OWN_1"] == temporary
    assert not Path(temporary).exists()


def test_without_its_program_every_command_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, workspace: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(seatbelt, "is_macos", lambda: True)
    find = seatbelt.find_seatbelt
    monkeypatch.setattr(seatbelt, "find_seatbelt", lambda: find(str(tmp_path / "missing")))

    found = Sandbox.detect()

    assert found.level == "none"
    with pytest.raises(SandboxError, match="missing or is not root's own; reinstall"):
        found.command(["true"], workspace=workspace)


@pytest.mark.parametrize("path", ["/Users", "/users", "/private", "/private/tmp", "/Library"])
def test_a_folder_of_macos_is_not_a_workspace(path: str) -> None:
    assert "is a folder of the system" in (why_not_given(Path(path)) or "")
    assert why_not_given(Path(path, "project")) is None
    assert why_not_given(Path("/opt/private")) is None


def test_what_administrators_of_macos_can_write_is_as_good_as_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("only the superuser can give files away")
    homebrew = tmp_path / "homebrew"
    homebrew.mkdir()
    homebrew.chmod(0o775)
    os.chown(homebrew, 0, 80)
    assert exposure_of(homebrew) is not None

    monkeypatch.setattr(sys, "platform", "darwin")

    assert exposure_of(homebrew) is None


def test_a_program_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    program = tmp_path / "sandbox-exec"
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o777)

    assert seatbelt.find_seatbelt(str(program)) is None


def test_a_profile_that_does_not_load_refuses_every_command(
    macos: Recorded, tmp_path: Path, workspace: Path
) -> None:
    program = tmp_path / "system" / "sandbox-exec"
    program.write_text("#!/bin/sh\necho 'unbound variable: x' >&2; exit 65\n", "utf-8")

    found = Sandbox.detect()

    assert found.level == "none"
    assert "unbound variable" in found.reasons[0]
    with pytest.raises(SandboxError, match="does not work here"):
        found.command(["true"], workspace=workspace)


def test_the_proxy_of_a_session_is_the_only_port(macos: Recorded, workspace: Path) -> None:
    network = NetworkAccess((), {"HTTPS_PROXY": "http://x"}, 40_001, Pass("x", ()))

    with Sandbox.detect().command(["true"], workspace=workspace, network=network) as launch:
        assert launch.env["HTTPS_PROXY"] == "http://x"
        profile = Profile(launch.argv[launch.argv.index("-p") - 1 :])

    assert '(remote ip "localhost:40001")' in profile.text


def test_the_end_of_a_process_is_seen_without_descriptors_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sys.platform == "win32":
        pytest.skip("the end of a process cannot be watched on Windows")
    monkeypatch.setattr(process_end, "has_process_descriptors", lambda: False)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = process_end.end_of(process.pid)
        os.set_blocking(descriptor, False)
        with pytest.raises(BlockingIOError):
            os.read(descriptor, 1)
        assert process.stdin is not None
        process.stdin.close()
        os.set_blocking(descriptor, True)

        assert os.read(descriptor, 1) == b""
        # Its own exit code is still there (that of one which was waited for elsewhere is taken as
        # 0), so nobody else has its number.
        assert process.wait() == 1
        os.close(descriptor)


def test_processes_are_counted_alike_with_and_without_files_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sys.platform == "win32":
        pytest.skip("the processes of Windows cannot be listed")
    # Enough that what the shell itself uses does not matter.
    program = "import signal; x = b'x' * (64 << 20); print('ready', flush=True); signal.pause()"
    argv = ["/bin/sh", "-c", '"$0" -c "$1" & wait', sys.executable, program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            memory, count = disk_use.use_of([process.pid])
            monkeypatch.setattr(process_table, "has_proc", lambda: False)
            listed_memory, listed_count = disk_use.use_of([process.pid])
        finally:
            os.killpg(process.pid, 9)

    assert (count, listed_count) == (2, 2)
    assert 64 << 20 < listed_memory < 128 << 20
    assert 64 << 20 < memory < 128 << 20
