"""The mistakes of a first hour: three lines at most, the exit code, a next step that works.

Each is made for real, with the command as a process of its own and a model server on a socket.
`doctor` fails wherever `run` does, unless the mistake is in the command line itself.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from attacks.machine import Machine

pytestmark = pytest.mark.slow

USAGE, PROVIDER = 2, 5


@contextmanager
def serving(*, refuses: bool = False, window: int | None = 32_768) -> Generator[str]:
    """Run a server with one model, `tiny`, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            model: dict[str, Any] = {"id": "tiny", "object": "model"}
            if window is not None:
                model["max_model_len"] = window
            self._send(200, {"object": "list", "data": [model]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if asked["model"] == "tiny":
                self._send(200, _answer(), stream=asked.get("stream", False))
            else:
                self._send(404, {"error": {"message": f"no model {asked['model']}"}})

        def _send(self, status: int, body: Any, *, stream: bool = False) -> None:
            if refuses:
                status, body, stream = 401, {"error": {"message": "Incorrect API key"}}, False
            kind = "text/event-stream" if stream else "application/json"
            text = json.dumps(body)
            if stream:
                body["choices"][0]["delta"] = body["choices"][0].pop("message")
                text = f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n"
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def _answer() -> dict[str, Any]:
    message = {"role": "assistant", "content": "ready"}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


class Mistake(NamedTuple):
    """What a user does, what they read, and what the next step that they read is."""

    command: str
    code: int
    says: str
    next: str
    # Whether the mistake is there without the command, so that the doctor can find it.
    lasts: bool = True


def errors_of(output: str) -> dict[str, str]:
    """Return the lines of an error by their labels; there is one of each at most."""
    lines = [line for line in output.splitlines() if re.match(r"(error|why|next) {2,}", line)]
    found = dict(line.split(maxsplit=1) for line in lines)
    assert len(found) == len(lines) <= 3, output
    assert "Traceback" not in output
    return found


def assert_explained(machine: Machine, mistake: Mistake) -> None:
    """Make the mistake, and take the next step."""
    done = machine.amplifier(*shlex.split(mistake.command))

    told = errors_of(done.stderr)
    assert done.returncode == mistake.code, done.stderr
    assert mistake.says in f"{told['error']} {told.get('why')}"
    assert told["next"] == mistake.next
    doctor = machine.amplifier("doctor")
    assert doctor.returncode == (1 if mistake.lasts else 0), doctor.stdout
    if mistake.lasts:
        assert mistake.next in doctor.stdout


def take(machine: Machine, command: str) -> None:
    """Do what a next step says; whoever is asked by `init` takes the mock."""
    words = shlex.split(command)
    if words[1:] == ["init"]:
        words += ["--provider", "mock", "--no-call"]
    if words[0] == "amplifier":
        done = machine.amplifier(*words[1:])
    else:
        done = subprocess.run(
            words, cwd=machine.project, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


def assert_works(machine: Machine, command: str = "run hi") -> None:
    done = machine.amplifier(*shlex.split(command))
    assert done.returncode == 0, done.stderr


@pytest.fixture
def machine(tmp_path: Path, compiled: Path) -> Machine:
    return Machine(tmp_path, compiled)


def test_no_key(machine: Machine) -> None:
    machine.user_settings({"providers": [{"module": "provider-anthropic"}]})

    assert_explained(
        machine, Mistake("run hi", PROVIDER, "set ANTHROPIC_API_KEY", "amplifier init")
    )
    take(machine, "amplifier init")
    assert_works(machine)


def test_a_wrong_key(machine: Machine) -> None:
    with serving(refuses=True) as address:
        machine.environment |= {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "wrong"}
        assert_explained(
            machine, Mistake("run hi", PROVIDER, "The key was refused", "amplifier init")
        )
        take(machine, "amplifier init")
        assert_works(machine)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://127.0.0.1:9"])
def test_a_server_that_is_down_or_has_another_port(machine: Machine, address: str) -> None:
    machine.environment["OPENAI_BASE_URL"] = address

    assert_explained(machine, Mistake("run hi", PROVIDER, "The server is down", "amplifier init"))
    take(machine, "amplifier init")
    assert_works(machine)


def test_a_wrong_model(machine: Machine) -> None:
    with serving() as address:
        machine.environment["OPENAI_BASE_URL"] = address
        mistake = "run -m huge hi"
        says = "The provider does not have this model."
        assert_explained(
            machine, Mistake(mistake, PROVIDER, says, "amplifier provider models", lasts=False)
        )
        take(machine, "amplifier provider models")
        assert_works(machine, "run -m tiny hi")


def test_a_small_window(machine: Machine) -> None:
    with serving(window=1_024) as address:
        machine.environment["OPENAI_BASE_URL"] = address
        says = "The window of this model is too small"
        assert_explained(machine, Mistake("run hi", PROVIDER, says, "amplifier provider models"))
        take(machine, "amplifier provider models")
        tried = machine.amplifier("init", "--provider", "chat-completions")
        assert (tried.returncode, says in tried.stderr) == (PROVIDER, True)


def test_an_unknown_window_is_assumed_with_a_warning(machine: Machine) -> None:
    with serving(window=None) as address:
        machine.environment["OPENAI_BASE_URL"] = address
        done = machine.amplifier("run", "hi")

    assert done.returncode == 0
    assert "its window is unknown, assuming 32,768 tokens" in done.stderr


@pytest.mark.parametrize(
    "mistake",
    [
        Mistake("run -b nope hi", USAGE, "no bundle `nope`", "amplifier bundle list", lasts=False),
        Mistake(
            "run --module ./tool-x hi", USAGE, "no module in", "amplifier module list", lasts=False
        ),
        Mistake("run --module tool-none hi", 1, "'tool-none'", "amplifier doctor", lasts=False),
        Mistake("run --resume nope hi", 1, "`nope`", "amplifier session list", lasts=False),
        Mistake("session show", USAGE, "no session", "amplifier session list --all", lasts=False),
        Mistake("rnu hi", USAGE, "Did you mean `run`?", "amplifier --help", lasts=False),
        Mistake("chat", USAGE, "needs a terminal", 'amplifier run "..."', lasts=False),
    ],
    ids=lambda mistake: mistake.command,
)
def test_a_mistake_in_the_command_line(machine: Machine, mistake: Mistake) -> None:
    (machine.project / "tool-x").mkdir()

    assert_explained(machine, mistake)
    take(machine, mistake.next)


def test_settings_that_cannot_be_read(machine: Machine) -> None:
    file = machine.home / "settings.yaml"
    file.write_text("bundle: [", encoding="utf-8")

    assert_explained(
        machine, Mistake("run hi", USAGE, "is not valid YAML", f"mv {file} {file}.broken")
    )
    take(machine, f"mv {file} {file}.broken")
    assert_works(machine)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ro-bind", "HOME", "HOME"], "Read-only file system"),
        (["--size", "4096", "--tmpfs", "HOME"], "No space left on device"),
    ],
    ids=["read-only", "full"],
)
def test_a_home_that_cannot_be_written(machine: Machine, options: list[str], says: str) -> None:
    home = str(machine.home)
    mounted = [home if each == "HOME" else each for each in options]

    done = amplifier_with(mounted, machine, "run", "hi")

    told = errors_of(done.stderr)
    assert done.returncode == 1, done.stderr
    assert says in f"{told['error']} {told.get('why')}"
    assert told["next"] == "amplifier doctor"
    doctor = amplifier_with(mounted, machine, "doctor")
    assert doctor.returncode == 1, doctor.stdout


@pytest.mark.parametrize(("program", "package"), [("bwrap", "bubblewrap"), ("rg", "ripgrep")])
def test_a_program_that_is_not_installed(machine: Machine, program: str, package: str) -> None:
    found = shutil.which(program)
    assert found is not None, f"{package} is needed to be hidden; make programs"
    hidden = ["--ro-bind", "/dev/null", str(Path(found).resolve())]

    doctor = amplifier_with(hidden, machine, "doctor")

    assert f"install the package `{package}`" in doctor.stdout
    done = amplifier_with(hidden, machine, "run", "hi")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def amplifier_with(
    mounted: list[str], machine: Machine, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command where a part of the file system is another one."""
    bwrap = shutil.which("bwrap")
    assert bwrap is not None, "bubblewrap makes the disk of this test; make programs"
    command = [bwrap, "--dev-bind", "/", "/", *mounted, sys.executable, "-m", "amplifier_cli"]
    return subprocess.run(
        [*command, *arguments],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
