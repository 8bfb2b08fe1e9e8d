"""What this program runs from, and what makes git or the system run something, is out of reach."""

from __future__ import annotations

import os

import pytest

from attacks.machine import Machine, write
from attacks.own_installation import Installation, bash, play, run_python, under_landlock

KEY = "zzzz-own-key-1234567890"


@pytest.fixture
def installed(machine: Machine) -> Installation:
    """The command, installed in the project it is run in."""
    return Installation(machine, machine.project / ".venv")


@pytest.mark.attack("review H1")
def test_a_command_cannot_plant_code_in_the_environment_that_the_program_runs_from(
    machine: Machine, installed: Installation
) -> None:
    marker = machine.user_home / "ran"
    line = f"import pathlib; pathlib.Path({str(marker)!r}).touch()"
    packages = installed.packages.relative_to(machine.project)

    play(machine, [bash(f'echo "{line}" > {packages}/zz.pth; ls')], installed)
    installed.amplifier("--help")

    assert not (installed.packages / "zz.pth").exists()
    assert not marker.exists(), "the planted code ran outside of the sandbox"


@pytest.mark.slow
@pytest.mark.attack("review H1")
def test_there_is_no_way_around_to_the_environment(
    machine: Machine, installed: Installation
) -> None:
    packages = installed.packages.relative_to(machine.project)
    commands = [
        "mv .venv gone",
        "mv .venv/lib gone",
        "rm -rf .venv",
        f"ln -s $PWD/{packages} way && echo x > way/planted.py",
        f"ln {packages}/outer.pth way2 && echo x >> way2",
        f"cd src/../{packages} && echo x > planted.py",
        "cp -r .venv copied && rm -rf .venv && mv copied .venv",
        "echo x > .venv/pyvenv.cfg",
        "echo x > .venv/bin/python",
        "mv src/../.venv elsewhere",
        "mount --bind /tmp .venv",
        'python3 -c \'import os; os.rename(".venv", "gone")\'',
    ]
    (machine.project / "src").mkdir()
    before = {path: path.lstat() for path in installed.folder.rglob("*")}
    text = (installed.packages / "outer.pth").read_text("utf-8")

    results = play(machine, [bash(command) for command in commands], installed)

    assert len(results) == len(commands)
    assert set(before) == set(installed.folder.rglob("*"))
    assert all(path.lstat().st_mtime_ns == status.st_mtime_ns for path, status in before.items())
    assert (installed.packages / "outer.pth").read_text("utf-8") == text


@pytest.mark.slow
@pytest.mark.attack("review H1")
def test_the_sources_of_an_editable_installation_stay_as_they_are(
    machine: Machine, installed: Installation
) -> None:
    source = machine.write("packages/own/src/own_package/__init__.py", "original = True\n")
    write(installed.packages / "own.pth", f"{source.parents[1]}\n")
    path = "packages/own/src/own_package/__init__.py"
    other = machine.write("packages/own/README.md", "old\n")

    play(
        machine,
        [
            bash(f"echo evil >> {path}"),
            bash("mv packages other; mkdir -p packages/own/src"),
            bash("mv packages/own other"),
            bash("echo evil > packages/own/src/json.py"),
            ("write_file", {"file_path": path, "content": "evil"}),
            ("write_file", {"file_path": "packages/own/src/json.py", "content": "evil"}),
            (
                "edit_file",
                {"file_path": path, "old_string": "original", "new_string": "evil"},
            ),
            bash("echo new > packages/own/README.md"),
        ],
        installed,
    )

    assert source.read_text("utf-8") == "original = True\n"
    assert not (source.parents[1] / "json.py").exists()
    assert other.read_text("utf-8") == "new\n", "what is not loaded can be changed"


@pytest.mark.attack("review H1")
def test_the_file_tools_do_not_write_where_the_program_runs_from(
    machine: Machine, installed: Installation
) -> None:
    packages = installed.packages.relative_to(machine.project)
    (machine.project / "way").symlink_to(packages)
    paths = [
        f"{packages}/zz.pth",
        f"src/../{packages}/zz.pth",
        str(installed.packages / "zz.pth"),
        "way/zz.pth",
        ".venv/bin/zz.pth",
        ".venv/new/folder/zz.pth",
    ]

    results = play(
        machine,
        [("write_file", {"file_path": path, "content": "import os\n"}) for path in paths],
        installed,
    )

    assert not list(installed.folder.rglob("zz.pth"))
    assert len(results) == len(paths)


@pytest.mark.slow
@pytest.mark.attack("review H1")
def test_a_file_that_an_installer_linked_into_another_environment_is_not_changed_there(
    machine: Machine, installed: Installation
) -> None:
    own = write(installed.packages / "linked.py", "original = True\n")
    about = write(installed.packages / "linked-1.dist-info" / "METADATA", "Name: linked\n")
    other = machine.project / "env" / "lib" / "site-packages"
    (other / "linked-1.dist-info").mkdir(parents=True)
    os.link(own, other / "linked.py")
    os.link(about, other / "linked-1.dist-info" / "METADATA")
    (machine.project / "moved.py").hardlink_to(own)

    play(
        machine,
        [
            bash("echo evil >> env/lib/site-packages/linked.py"),
            bash("echo evil >> moved.py"),
            ("write_file", {"file_path": "moved.py", "content": "evil"}),
        ],
        installed,
    )

    assert own.read_text("utf-8") == "original = True\n"


@pytest.mark.slow
@pytest.mark.attack("review H1")
def test_where_the_environment_is_a_link_no_command_runs(machine: Machine) -> None:
    real = Installation(machine, machine.user_home / "real")
    (machine.project / ".venv").symlink_to(real.folder)
    linked = Installation.__new__(Installation)
    linked.machine = machine
    linked.python = machine.project / ".venv" / "bin" / "python"

    results = play(machine, [bash("rm .venv; mkdir .venv; touch ran")], linked)

    assert (machine.project / ".venv").is_symlink()
    assert not (machine.project / "ran").exists()
    assert "symbolic link" in results[0]


@pytest.mark.slow
def test_another_environment_in_the_project_can_be_changed(machine: Machine) -> None:
    other = Installation(machine, machine.project / ".venv")

    play(machine, [bash("touch .venv/new; mv .venv/new .venv/newer; echo x > top; ls")])

    assert (other.folder / "newer").exists()
    assert (machine.project / "top").exists()


@pytest.mark.attack("review M9")
def test_a_home_of_ours_in_the_project_is_neither_read_nor_written(machine: Machine) -> None:
    home = machine.project / ".state"
    write(home / "credentials.yaml", f"ANTHROPIC_API_KEY: {KEY}\n").chmod(0o600)
    settings = write(home / "settings.yaml", "{}\n")
    machine.environment["AMPLIFIER_HOME"] = str(home)
    (machine.project / "way").symlink_to(".state")

    results = play(
        machine,
        [
            bash("cut -c20- .state/credentials.yaml; cat way/*; ls -R .state"),
            bash("echo 'modules: {}' >> .state/settings.yaml"),
            ("read_file", {"file_path": ".state/credentials.yaml"}),
            ("read_file", {"file_path": "way/credentials.yaml"}),
            ("list_directory", {"path": ".state"}),
            ("grep", {"pattern": "own-key", "include_hidden": True}),
            ("grep", {"pattern": "own-key", "path": ".state", "include_hidden": True}),
            ("glob", {"pattern": "*.yaml", "path": ".state", "include_hidden": True}),
            ("write_file", {"file_path": ".state/settings.yaml", "content": "evil"}),
            ("write_file", {"file_path": ".state/trust.json", "content": "{}"}),
        ],
    )

    assert not [each for each in results if KEY[4:] in each]
    assert not [each for each in results if "settings.yaml\\n" in each]
    assert settings.read_text("utf-8") == "{}\n"
    assert not (home / "trust.json").exists()


@pytest.mark.slow
@pytest.mark.attack("review H1")
@pytest.mark.attack("review M9")
def test_landlock_runs_nothing_where_it_cannot_protect_the_program(
    machine: Machine, installed: Installation
) -> None:
    script = """
import subprocess, sys
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.limits import SandboxError
sandbox = Sandbox.detect(folders=())
assert sandbox.level == "landlock", sandbox
argv = ["/bin/bash", "-c", f"touch {sys.prefix}/planted"]
try:
    with sandbox.command(argv, workspace=".", protected=()) as launch:
        subprocess.run(launch.argv, env=launch.env, cwd=launch.cwd, pass_fds=launch.pass_fds)
except SandboxError as error:
    print("refused:", error)
"""
    done = run_python(installed.python, script, machine)

    assert not (installed.folder / "planted").exists(), done
    assert "refused:" in done


# Every way to a mode with these bits that a program has, each with a name of its own.
_WAYS_TO_A_MODE = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
M = 0o6755
HERE = -100
how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, M, 0)
ways = {
    "open": lambda: os.close(os.open("s-open", os.O_CREAT | os.O_WRONLY, M)),
    "open without mode": lambda: libc.syscall(2, b"s-old", 0o101, M),
    "creat": lambda: libc.syscall(85, b"s-creat", M),
    "openat2": lambda: libc.syscall(437, HERE, b"s-openat2", how, len(how)),
    "mknod": lambda: libc.syscall(133, b"s-mknod", 0o100000 | M, 0),
    "mknodat": lambda: os.mknod("s-mknodat", 0o100000 | M),
    "mkdir": lambda: libc.syscall(83, b"s-mkdir", M),
    "chmod": lambda: (open("s-chmod", "w").close(), os.chmod("s-chmod", M)),
    "fchmodat2": lambda: (open("s-two", "w").close(), libc.syscall(452, HERE, b"s-two", M, 0)),
    "tmpfile": lambda: os.link(f"/proc/self/fd/{os.open('.', os.O_TMPFILE | 1, M)}", "s-tmp"),
    "exclusive": lambda: os.close(os.open("s-excl", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o4777)),
    "group": lambda: os.close(os.open("s-group", os.O_CREAT | os.O_RDWR, 0o2777)),
}
for name, way in ways.items():
    try:
        way()
    except OSError as error:
        print(name, error)
open("ended", "w").close()
"""


@pytest.mark.attack("review M4")
def test_no_command_makes_a_program_that_runs_as_its_owner(machine: Machine) -> None:
    machine.write("ways.py", _WAYS_TO_A_MODE)

    results = play(machine, [bash("python3 ways.py")])

    made = [path for path in machine.project.iterdir() if path.name.startswith("s-")]
    assert (machine.project / "ended").exists(), results
    assert not [path.name for path in made if path.stat().st_mode & 0o6000]


@pytest.mark.slow
@pytest.mark.attack("review M4")
def test_under_landlock_no_command_makes_one_either(machine: Machine) -> None:
    machine.write("ways.py", _WAYS_TO_A_MODE)

    under_landlock(machine, "python3 ways.py")

    made = [path for path in machine.project.iterdir() if path.name.startswith("s-")]
    assert (machine.project / "ended").exists()
    assert not [path.name for path in made if path.stat().st_mode & 0o6000]


@pytest.mark.slow
@pytest.mark.attack("review M4")
def test_a_file_that_is_written_does_not_keep_what_lends_its_owner(machine: Machine) -> None:
    helper = machine.write("helper", "old")
    helper.chmod(0o6755)

    play(machine, [("write_file", {"file_path": "helper", "content": "new"})])

    assert helper.read_text("utf-8") == "new"
    assert helper.stat().st_mode & 0o7777 == 0o755
