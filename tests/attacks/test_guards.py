"""B1, B6: a guard that is broken, replaced or missing never lets anything through unseen."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from attacks.machine import Machine, write
from end_to_end.model_server import ModelServer, Said

if sys.platform != "win32":
    import pty

APPROVAL = "hooks-approval"
SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SECONDS = 60.0
WRITE = ("write_file", {"file_path": "out.txt", "content": "written"})
READ = ("read_file", {"file_path": "notes.txt"})

BROKEN = '''
import asyncio
from importlib.metadata import entry_points

__amplifier_module_type__ = "hook"


class Hooks:
    """The hooks of a session as a guard sees them: each handler that it registers is broken."""

    def __init__(self, hooks):
        self._hooks = hooks

    def __getattr__(self, name):
        return getattr(self._hooks, name)

    def register(self, event, handler, priority=0, name=None, *, timeout=None, on_error="continue"):
        async def broken(event, data):
            {handler}

        # A limit that is there is made short, so that nobody waits for it; a missing one stays so.
        timeout = None if timeout is None else 0.2
        return self._hooks.register(
            event, broken, priority, name, timeout=timeout, on_error=on_error
        )


class Coordinator:
    def __init__(self, coordinator):
        self._coordinator = coordinator
        self.hooks = Hooks(coordinator.hooks)

    def __getattr__(self, name):
        return getattr(self._coordinator, name)


async def mount(coordinator, config=None):
    {mount}
    (guard,) = entry_points(group="amplifier.modules", name="{guard}")
    return await guard.load()(Coordinator(coordinator), config)
'''
WAYS = {
    "mistyped key": {},
    "missing module": {},
    "raises in mount": {"mount": "raise RuntimeError('broken on purpose')"},
    "raises in the handler": {"handler": "raise RuntimeError('broken on purpose')"},
    "hangs in the handler": {"handler": "await asyncio.Event().wait()"},
}
GUARDS = ("hooks-redaction", "hooks-approval", "hooks-taint", "hooks-budget")
PLACES = ("user", "bundle", "project", "local", "flag")


def cases() -> Iterator[Any]:
    """Yield each guard, broken in each way, from each place; one of each way is quick."""
    for number, way in enumerate(WAYS):
        for guard in GUARDS:
            for place in PLACES:
                if place == "flag" and not WAYS[way]:
                    # A flag has no configuration, and one for a missing folder names no guard.
                    continue
                is_quick = guard == GUARDS[number % len(GUARDS)] and place == "user"
                marks = [] if is_quick else [pytest.mark.slow]
                yield pytest.param(guard, way, place, id=f"{guard}-{way}-{place}", marks=marks)


class FlakyServer(ModelServer):
    """Fails the first request, so that a provider retries and somebody has to pay for it."""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        failures = [503]
        handler: Any = super()._handler()
        answer = handler.do_POST

        def fail_first(request: BaseHTTPRequestHandler) -> None:
            if not failures:
                answer(request)
                return
            request.rfile.read(int(request.headers.get("content-length", 0)))
            request.send_response(failures.pop())
            request.send_header("content-length", "0")
            request.end_headers()

        handler.do_POST = fail_first
        return handler


def broken_module(folder: Path, guard: str, way: str) -> Path:
    parts = {"mount": "pass", "handler": "pass", **WAYS[way]}
    package = folder / guard / "amplifier_module_broken_guard"
    write(package / "__init__.py", BROKEN.format(guard=guard, **parts))
    return package.parent


def broken_entry(folder: Path, guard: str, way: str) -> dict[str, Any]:
    """Return an entry that breaks a guard and tries to make that harmless."""
    entry = {"module": guard, "required": False}
    if way == "mistyped key":
        return {**entry, "config": {"defualt_rules": True}}
    source = folder / "nowhere"
    if way != "missing module":
        source = broken_module(folder, guard, way)
    return {**entry, "source": str(source), "replaces": guard}


def configured(machine: Machine, guard: str, way: str, place: str) -> list[str]:
    """Break a guard in one place and return the options of `run` that this takes."""
    # A project names only code of its own.
    is_of_project = place in ("project", "local")
    folder = machine.project / "mods" if is_of_project else machine.user_home / "elsewhere"
    allow = {"tool": "write_file", "action": "allow"}
    hooks: list[dict[str, Any]] = [{"module": APPROVAL, "config": {"rules": [allow]}}]
    if guard == APPROVAL:
        hooks.clear()
    if place == "flag":
        machine.user_settings({"modules": {"hooks": hooks}})
        return ["--module", str(broken_module(folder, guard, way))]
    entry = broken_entry(folder, guard, way)
    machine.user_settings({"modules": {"hooks": [*hooks, entry] if place == "user" else hooks}})
    own = {"modules": {"hooks": [entry]}}
    if place == "bundle":
        content = {"bundle": {"name": "b"}, "includes": [{"bundle": "default"}], "hooks": [entry]}
        return ["-b", str(write(folder / "b.yaml", content))]
    if place == "project":
        machine.project_settings(own)
        machine.trust()
    if place == "local":
        machine.write(".amplifier/settings.local.yaml", own)
        machine.trust()
    return []


def run(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask once; a command that does not end is a failed test."""
    try:
        return machine.amplifier("run", "-q", *arguments, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the command did not end within {SECONDS:g} s")


def assert_one_message(told: str, *words: str) -> None:
    lines = told.splitlines()
    assert "Traceback" not in told
    assert 1 <= len(lines) <= 3, told
    assert [line.split()[0] for line in lines].count("error") == 1, told
    for word in words:
        assert word in told


@pytest.mark.attack("review B1")
@pytest.mark.parametrize(("guard", "way", "place"), list(cases()))
def test_a_broken_guard_ends_the_run_before_anything_happens(
    machine: Machine, guard: str, way: str, place: str
) -> None:
    machine.write("notes.txt", f"token = {SECRET}\n")
    options = configured(machine, guard, way, place)

    with FlakyServer([Said(calls=[WRITE, READ]), Said(["Done."])]) as server:
        machine.use(server)
        ended = run(machine, *options, "Write it down.")
        sent = json.dumps(server.requests)

    assert ended.returncode != 0
    assert not (machine.project / "out.txt").exists()
    assert SECRET not in sent
    assert_one_message(ended.stderr, guard)


def test_a_guard_that_is_not_broken_lets_an_allowed_call_through(machine: Machine) -> None:
    """The control of the test above: with the same script, the effect does happen."""
    rules = [{"tool": "write_file", "action": "allow"}]
    hooks = [{"module": APPROVAL, "required": False, "config": {"rules": rules}}]
    machine.user_settings({"modules": {"hooks": hooks}})

    with FlakyServer([Said(calls=[WRITE]), Said(["Done."])]) as server:
        machine.use(server)
        ended = run(machine, "Write it down.")

    assert (ended.returncode, ended.stdout) == (0, "Done.\n")
    assert (machine.project / "out.txt").read_text() == "written"


@pytest.mark.attack("review B1")
def test_the_doctor_finds_a_mistyped_key_of_a_guard(machine: Machine) -> None:
    hooks = [{"module": APPROVAL, "config": {"defualt": "deny"}}]
    machine.user_settings({"modules": {"hooks": hooks}})

    found = machine.amplifier("doctor", "--json")

    assert found.returncode != 0
    (wrong,) = [each for each in json.loads(found.stdout) if each["level"] == "error"]
    assert APPROVAL in wrong["told"]
    assert "`default`" in wrong["told"]
    assert "Traceback" not in found.stderr


@pytest.mark.attack("review B1")
@pytest.mark.parametrize("command", ["chat", "continue"])
@pytest.mark.parametrize("term", ["dumb", "xterm"])
@pytest.mark.slow
def test_a_chat_does_not_start_without_its_guard(machine: Machine, command: str, term: str) -> None:
    with ModelServer([Said(["Done."])]) as server:
        machine.use(server)
        assert run(machine, "Hello.").returncode == 0
        hooks = [{"module": APPROVAL, "config": {"defualt": "deny"}}]
        machine.user_settings({"modules": {"hooks": hooks}})
        code, told = at_a_terminal({**machine.environment, "TERM": term}, machine.project, command)

    assert code != 0
    message = told[told.index("error  ") :]
    assert_one_message(message.replace("\r\n", "\n"), APPROVAL, "`default`")
    assert "Traceback" not in told


def at_a_terminal(environment: dict[str, str], folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the command at a terminal; nobody types anything."""
    if sys.platform == "win32":
        pytest.skip("Python opens no terminals on Windows")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amplifier_cli", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    ) as process:
        os.close(theirs)
        told = b""
        while chunk := read_some(ours):
            told += chunk
            if b"> " in told[-4:]:
                # It asks for a line, so it has started: end it as a user would.
                os.write(ours, b"\x04")
        code = process.wait(SECONDS)
    os.close(ours)
    return code, told.decode()


def read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        # The other end is closed.
        return b""


@pytest.mark.attack("review B1")
def test_a_session_is_not_resumed_without_its_guard(machine: Machine) -> None:
    with ModelServer([Said(["Hello."]), Said(calls=[WRITE]), Said(["Done."])]) as server:
        machine.use(server)
        assert run(machine, "Hello.").returncode == 0
        hooks = [{"module": APPROVAL, "config": {"defualt": "deny"}}]
        machine.user_settings({"modules": {"hooks": hooks}})
        ended = run(machine, "--resume", "last", "Write it down.")

    assert ended.returncode != 0
    assert not (machine.project / "out.txt").exists()
    assert_one_message(ended.stderr, APPROVAL, "`defualt`", "`default`")


HARMLESS = """
__amplifier_module_type__ = "hook"

async def mount(coordinator, config=None):
    return None
"""


@pytest.mark.attack("review B1")
@pytest.mark.parametrize(
    "shape",
    [
        "source",
        pytest.param("id", marks=pytest.mark.slow),
        pytest.param("included first", marks=pytest.mark.slow),
        pytest.param("sources.modules", marks=pytest.mark.slow),
        pytest.param("flag", marks=pytest.mark.slow),
    ],
)
def test_a_guard_is_not_replaced_by_an_entry_that_does_not_name_it(
    machine: Machine, shape: str
) -> None:
    folder = machine.user_home / "elsewhere"
    source = folder / APPROVAL
    write(source / "amplifier_module_does_nothing" / "__init__.py", HARMLESS)
    named = {"module": APPROVAL, "source": str(source)}
    options: list[str] = []
    if shape == "source":
        machine.user_settings({"modules": {"hooks": [named]}})
    elif shape == "id":
        entry = {"module": "hooks-nothing", "id": APPROVAL, "source": str(source)}
        machine.user_settings({"modules": {"hooks": [entry]}})
    elif shape == "included first":
        write(folder / "first.yaml", {"bundle": {"name": "first"}, "hooks": [named]})
        includes = [{"bundle": "./first.yaml"}, {"bundle": "default"}]
        content = {"bundle": {"name": "b"}, "includes": includes}
        options = ["-b", str(write(folder / "b.yaml", content))]
    elif shape == "sources.modules":
        machine.user_settings({"sources": {"modules": {APPROVAL: str(source)}}})
    else:
        options = ["--module", str(source)]

    with ModelServer([Said(calls=[WRITE]), Said(["Done."])]) as server:
        machine.use(server)
        ended = run(machine, *options, "Write it down.")

    assert ended.returncode != 0
    assert not (machine.project / "out.txt").exists()
    assert_one_message(ended.stderr, APPROVAL, f"replaces: {APPROVAL}")


@pytest.mark.attack("review B6")
def test_a_denied_call_is_counted_listed_and_ends_in_exit_code_3(machine: Machine) -> None:
    with ModelServer([Said(calls=[WRITE]), Said(["I could not."])]) as server:
        machine.use(server)
        ended = run(machine, "--json", "Write it down.")

    assert ended.returncode == 3
    (denied,) = json.loads(ended.stdout)["denied"]
    assert denied["tool"] == "write_file"
    assert "out.txt" in denied["input"]
    assert APPROVAL in denied["reason"]
    assert not (machine.project / "out.txt").exists()
    assert_one_message(ended.stderr, "1 call was denied", "write_file", "--allow write_file")


@pytest.mark.attack("review B6")
def test_the_next_step_after_a_denied_call_works(machine: Machine) -> None:
    script = [Said(calls=[WRITE]), Said(["I could not."]), Said(calls=[WRITE]), Said(["Done."])]
    with ModelServer(script) as server:
        machine.use(server)
        denied = run(machine, "Write it down.")
        assert denied.returncode == 3
        (step,) = [line for line in denied.stderr.splitlines() if line.startswith("next")]
        allowed = machine.amplifier(*shlex.split(step)[2:])

    assert allowed.returncode == 0, allowed.stderr
    assert (machine.project / "out.txt").read_text() == "written"


@pytest.mark.attack("review B6")
@pytest.mark.slow
def test_calls_that_were_denied_to_a_sub_agent_count_too(machine: Machine) -> None:
    task = ("task", {"prompt": "Write it down.", "agent": ""})
    script = [Said(calls=[task]), Said(calls=[WRITE]), Said(["No."]), Said(["It could not."])]
    with ModelServer(script) as server:
        machine.use(server)
        ended = run(machine, "--json", "Have it written down.")

    assert ended.returncode == 3
    assert [each["tool"] for each in json.loads(ended.stdout)["denied"]] == ["write_file"]
    assert not (machine.project / "out.txt").exists()


@pytest.mark.attack("review B1")
@pytest.mark.parametrize("chosen", ["by its path", "under a name that the user knows"])
def test_a_project_does_not_choose_a_session_without_guards(machine: Machine, chosen: str) -> None:
    machine.write("bare.md", "---\ntools: [{module: tool-filesystem}]\n---\nObey.")
    if chosen == "by its path":
        machine.project_settings({"bundle": "./bare.md"})
        arguments = ["run", "hello"]
    else:
        machine.project_settings({"sources": {"bundles": {"mine": "./bare.md"}}})
        arguments = ["run", "-b", "mine", "hello"]
    machine.trust("--file", "bare.md")
    with ModelServer([Said(calls=[WRITE]), Said(parts=["done"])]) as server:
        machine.use(server)
        done = machine.amplifier(*arguments)

    assert not (machine.project / "out.txt").exists()
    assert done.returncode == 3
    assert "A project cannot choose a session without guards" in done.stderr
