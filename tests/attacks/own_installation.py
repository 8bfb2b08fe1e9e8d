"""An installation of the command inside the project, as the README's first commands make one."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from attacks.machine import Machine, write
from end_to_end.model_server import ModelServer, Said

Calls = list[tuple[str, dict[str, Any]]]

_ALLOWED = ("bash", "read_file", "write_file", "edit_file", "grep", "glob", "list_directory")


class Installation:
    """A Python environment that the command can be run from."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        venv.create(folder, symlinks=True, with_pip=False)
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = folder / "lib" / version / "site-packages"
        entries = [entry for entry in sys.path if Path(entry).is_dir()]
        lines = "".join(f"import site; site.addsitedir({entry!r})\n" for entry in entries)
        write(self.packages / "outer.pth", lines)

    def amplifier(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command from this environment, in the project."""
        return subprocess.run(
            [self.python, "-m", "amplifier_cli", *arguments],
            cwd=self.machine.project,
            env=self.machine.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def play(machine: Machine, calls: Calls, installation: Installation | None = None) -> list[str]:
    """Have the model make `calls` one after the other, all allowed; return what each came to."""
    bundle = write(machine.user_home / "allow.yaml", _bundle())
    arguments = ("run", "-b", str(bundle), "do it")
    script = [Said(calls=[call]) for call in calls]
    with ModelServer([*script, Said(["done"])]) as server:
        machine.use(server)
        run = machine.amplifier if installation is None else installation.amplifier
        done = run(*arguments)
        assert done.returncode in (0, 3), done.stderr
        messages = server.requests[-1]["messages"]
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


def bash(command: str) -> tuple[str, dict[str, Any]]:
    """Return the call of a command."""
    return ("bash", {"command": command})


def _bundle() -> str:
    rules = [{"tool": tool, "action": "allow"} for tool in _ALLOWED]
    hooks = [{"module": "hooks-approval", "config": {"rules": rules}}]
    return json.dumps(
        {
            "bundle": {"name": "allow", "version": "1.0.0"},
            "includes": [{"bundle": "default"}],
            "hooks": hooks,
        }
    )


def under_landlock(machine: Machine, command: str) -> str:
    """Run a command as on a machine without bubblewrap."""
    script = f"""
import subprocess
from amplifier_sandbox.processes.sandbox import Sandbox
sandbox = Sandbox.detect(folders=())
assert sandbox.level == "landlock", sandbox
argv = ["/bin/bash", "-c", {command!r}]
with sandbox.command(argv, workspace=".", protected=()) as launch:
    subprocess.run(launch.argv, env=launch.env, cwd=launch.cwd, pass_fds=launch.pass_fds)
"""
    return run_python(Path(sys.executable), script, machine)


def run_python(python: Path, script: str, machine: Machine) -> str:
    """Run a script in the project; return all it printed."""
    done = subprocess.run(
        [python, "-P", "-c", script],
        cwd=machine.project,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr
