"""What shows commands the user's toolchains shows them no key, and their home is theirs alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks.machine import Machine, write
from attacks.own_installation import bash, play, run_python

KEY = "zzzz-key-of-the-user-0987654321"
FILES = (
    ".ssh/id_ed25519",
    ".ssh/bin/agent",
    ".aws/credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".cargo/credentials.toml",
    ".cargo/config.toml",
    ".docker/config.json",
    "private/notes",
    "private/bin/tool",
)


@pytest.fixture
def secrets(machine: Machine) -> Machine:
    """A user with keys in the usual places; each is a program, for links show only programs."""
    for name in FILES:
        write(machine.user_home / name, f"#!/bin/sh\n# {KEY}\n").chmod(0o755)
    # Nothing of the machine that runs the tests.
    machine.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    write(machine.user_home / "bin" / "tool", "#!/bin/sh\necho tool\n").chmod(0o755)
    write(machine.user_home / ".cargo" / "bin" / "cargo", "#!/bin/sh\necho cargo\n").chmod(0o755)
    return machine


def link(place: str, target: str) -> Callable[[Path], None]:
    """Return what makes a link in the home folder."""

    def make(home: Path) -> None:
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).symlink_to(home / target)

    return make


def nothing(home: Path) -> None:
    """Change nothing."""


# What is prepared, the entries of PATH, and further variables; `~` is the home folder.
ENTRIES: dict[str, tuple[Callable[[Path], None], list[str], dict[str, str]]] = {
    "the home folder": (nothing, ["~"], {}),
    "the root": (nothing, ["/"], {}),
    "a folder above": (nothing, ["~/.."], {}),
    "a folder of keys": (nothing, ["~/.ssh", "~/.ssh/bin", "~/.aws", "~/.config/gh"], {}),
    "cargo's folder": (nothing, ["~/.cargo/bin", "~/.cargo"], {"CARGO_HOME": "~/.cargo"}),
    "all settings": (nothing, ["~/.config", "~/.docker"], {}),
    "a link to a folder of keys": (link("tools", ".ssh"), ["~/tools", "~/tools/bin"], {}),
    "a link to home": (link("tools", "."), ["~/tools", "~/tools/bin"], {}),
    "a link to a key": (link("bin/agent", ".ssh/bin/agent"), ["~/bin"], {}),
    "a link to a key file": (link("bin/key", ".ssh/id_ed25519"), ["~/bin"], {}),
    "a link to a folder": (link("bin/keys", ".ssh"), ["~/bin"], {}),
    "a manager at home": (nothing, ["~/bin"], {"PYENV_ROOT": "~", "NVM_DIR": "/"}),
    "an installation at home": (nothing, ["~/bin"], {"VIRTUAL_ENV": "~", "JAVA_HOME": "~/.ssh"}),
    "our own folder": (nothing, ["~/.amplifier"], {"ASDF_DATA_DIR": "~/.amplifier"}),
}


@pytest.mark.attack("T1")
@pytest.mark.parametrize("name", ENTRIES)
def test_no_entry_of_path_shows_a_key(secrets: Machine, name: str) -> None:
    prepare, entries, variables = ENTRIES[name]
    home = secrets.user_home
    prepare(home)
    write(secrets.home / "credentials.yaml", KEY)
    path = [entry.replace("~", str(home)) for entry in entries]
    secrets.environment["PATH"] = ":".join([*path, secrets.environment["PATH"]])
    secrets.environment |= {key: value.replace("~", str(home)) for key, value in variables.items()}
    files = " ".join(f"{home}/{each}" for each in (*FILES[:-2], ".amplifier/credentials.yaml"))

    (result,) = play(
        secrets,
        [bash(f"cat {files} {home}/tools/id_ed25519; grep -rs zzzz-key {home}; echo searched")],
    )

    assert "searched" in result
    assert KEY not in result


@pytest.mark.attack("T1")
@pytest.mark.parametrize("name", ["a link", "an environment", "a base", "a manager"])
def test_a_folder_of_path_in_the_workspace_shows_nothing(secrets: Machine, name: str) -> None:
    private = secrets.user_home / "private"
    (private / "lib").mkdir()
    tools = secrets.project / ".venv" / "bin"
    tools.mkdir(parents=True)
    if name == "a link":
        (tools / "tool").symlink_to(private / "bin" / "tool")
    elif name == "an environment":
        secrets.write(".venv/pyvenv.cfg", f"home = {private}/bin\n")
        (tools / "python").symlink_to(private / "bin" / "tool")
        (private / "bin" / "python3").symlink_to("tool")
    elif name == "a base":
        secrets.write(".venv/pyvenv.cfg", f"home = {secrets.user_home}/.ssh/bin\n")
        (tools / "python").symlink_to(secrets.user_home / ".ssh" / "bin" / "agent")
    else:
        (tools / "rustup").symlink_to("/bin/true")
        (secrets.user_home / ".rustup").symlink_to(private)
    secrets.environment["PATH"] = f"{tools}:{secrets.environment['PATH']}"
    secrets.environment["VIRTUAL_ENV"] = str(tools.parent)

    (result,) = play(
        secrets, [bash(f"cat {private}/notes {private}/bin/tool; tool; rustup; echo searched")]
    )

    assert "searched" in result
    assert KEY not in result


@pytest.mark.attack("T2")
def test_what_a_command_leaves_in_its_home_runs_nothing_outside(machine: Machine) -> None:
    marker = machine.user_home / "ran"
    code = f"touch {marker} $PWD/inside"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = f".local/lib/{version}/site-packages"
    subprocess.run(["git", "init", "-q", str(machine.project)], check=True)
    planted = {
        ".bashrc": code,
        ".bash_profile": code,
        ".profile": code,
        ".gitconfig": f'[core]\\n fsmonitor = "{code}"\\n[alias]\\n st = "!{code}"',
        ".config/git/config": f'[core]\\n fsmonitor = "{code}"',
        ".config/pip/pip.conf": "[global]\\nindex-url = http://127.0.0.1:9/evil",
        ".npmrc": "script-shell=/bin/false",
        f"{packages}/usercustomize.py": f'open("{marker}", "w")',
        "bin/git": f"#!/bin/sh\\n{code}",
    }
    plant = "; ".join(
        f"mkdir -p $(dirname ~/{name}) && printf '{text}\\n' > ~/{name} && chmod +x ~/{name}"
        for name, text in planted.items()
    )
    plant += f"; ln -s {machine.user_home} ~/link; mkfifo ~/pipe; ls -A ~ | wc -l"

    results = play(
        machine, [bash(plant), bash("git status; git st; bash -c true; ls -A ~ | wc -l")]
    )
    outside = machine.amplifier("doctor")
    shown = run_python(
        Path(sys.executable), "import site; print(site.getusersitepackages())", machine
    )
    for command in ("git status", "bash -lc true", "bash -ic true", "python3 -c pass"):
        subprocess.run(
            command.split(),
            cwd=machine.project,
            env=machine.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    assert '"10\\n' in results[0], results
    assert "sandbox" in outside.stdout
    assert str(machine.home / "homes") not in shown
    assert not marker.exists()
    assert not (machine.project / "inside").exists(), "git in the sandbox read the planted settings"
    assert {path.name for path in machine.user_home.iterdir()} <= {
        ".amplifier",
        "allow.yaml",
        "project",
    }


@pytest.mark.attack("T2")
def test_from_its_home_a_command_reaches_nothing_of_ours(machine: Machine) -> None:
    write(machine.home / "credentials.yaml", KEY)
    ways = [
        "cat ~/../../credentials.yaml ~/../*/*",
        f"cat {machine.home}/credentials.yaml; ls -A {machine.home}",
        "ln -s ../../credentials.yaml ~/link; cat ~/link",
        "mv ~ ~/../away; rmdir ~; ln -s / ~/../away",
        f"mkdir -p {machine.home}/homes/planted; echo x > ~/../planted",
    ]

    results = play(machine, [bash(way) for way in ways])

    assert len(results) == len(ways)
    assert not any(KEY in each for each in results)
    assert [path.name for path in machine.home.glob("homes/*")] == [
        path.name for path in machine.home.glob("homes/project-*")
    ]
    assert not list(machine.home.rglob("planted"))
