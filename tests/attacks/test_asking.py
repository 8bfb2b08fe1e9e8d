"""B2, B5, B7: a question waits for its user, is about what can happen, and errors cost one call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said
from tmux_screen import TmuxScreen

if sys.platform != "win32":
    import pty

WRITE = ("write_file", {"file_path": "out.txt", "content": "written"})
EDIT = {"file_path": "notes.txt", "old_string": "one", "new_string": "two"}


def settings(server: ModelServer, **approval: Any) -> dict[str, Any]:
    """Return settings with the server's model and keys of hooks-approval."""
    # With its window set, no probe of the server can fail on a slow machine.
    window = {"context_window": 32_000}
    config = {"base_url": server.url, "max_retries": 3, "min_retry_delay_seconds": 0, **window}
    return {
        "providers": [{"module": "provider-chat-completions", "config": config}],
        "modules": {"hooks": [{"module": "hooks-approval", "config": approval}]},
    }


@contextmanager
def terminal(machine: Machine, *arguments: str) -> Generator[TmuxScreen]:
    """Run the command in a real terminal."""
    kept = {
        name: machine.environment[name]
        for name in ("HOME", "AMPLIFIER_HOME", "NO_COLOR", "PYTHONPYCACHEPREFIX", "PATH")
        if name in machine.environment
    }
    with TmuxScreen(
        [sys.executable, "-m", "amplifier_cli", *arguments],
        folder=machine.project,
        environment={"LANG": "C.UTF-8", **kept},
        columns=100,
        rows=40,
    ) as screen:
        yield screen


# --- B2 -------------------------------------------------------------------------------------------


@pytest.mark.attack("review B2")
@pytest.mark.slow
def test_a_question_that_times_out_in_a_chat_is_denied_without_a_traceback_or_a_key(
    machine: Machine,
) -> None:
    said = [Said(calls=[WRITE]), Said(["I was not allowed to."]), Said(["Still here."])]
    with ModelServer(said) as server:
        machine.user_settings(settings(server, timeout_seconds=2))
        with terminal(machine, "chat") as screen:
            screen.wait_for("ready", seconds=120)
            screen.type("write it\r")
            screen.wait_for("I was not allowed to.", seconds=120)
            screen.type("are you there\r")
            screen.wait_for("Still here.", seconds=120)
            text = screen.text(scrollback=True)

    assert "Traceback" not in text
    assert "Press ENTER" not in text
    assert "Unhandled" not in text
    assert text.count("timeout_seconds") == 1
    assert not (machine.project / "out.txt").exists()


@pytest.mark.attack("review B2")
@pytest.mark.slow
def test_a_question_at_a_terminal_has_no_limit_unless_one_is_set(machine: Machine) -> None:
    with ModelServer([Said(calls=[WRITE]), Said(["Written."])]) as server:
        machine.user_settings(settings(server))
        with terminal(machine, "chat") as screen:
            screen.wait_for("ready", seconds=120)
            screen.type("write it\r")
            asked = screen.wait_for("Allow once", seconds=120)

    assert "s left" not in asked


@pytest.mark.attack("review B2")
def test_a_question_in_a_run_rings_the_bell_and_says_how_to_change_its_time(
    machine: Machine,
) -> None:
    with ModelServer([Said(calls=[WRITE]), Said(["I was not allowed to."])]) as server:
        machine.user_settings(settings(server, timeout_seconds=0.5))
        shown = run_in_terminal(machine, "run", "write it")

    assert b"\a" in shown
    assert shown.count(b"timeout_seconds") == 1
    assert b"Traceback" not in shown
    assert b"I was not allowed to." in shown


def run_in_terminal(machine: Machine, *arguments: str) -> bytes:
    """Run the command in a terminal without a user, and return every byte that it wrote there."""
    if sys.platform == "win32":
        pytest.skip("Python opens no terminals on Windows")
    mine, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "amplifier_cli", *arguments],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=machine.project,
        env=machine.environment,
        start_new_session=True,
    )
    os.close(its)
    shown = b""
    while True:
        try:
            piece = os.read(mine, 4_096)
        except OSError:
            # The last one that had the terminal open has gone.
            break
        if not piece:
            break
        shown += piece
    process.wait(60)
    os.close(mine)
    return shown


# --- B5 -------------------------------------------------------------------------------------------

DOOMED: dict[str, tuple[str, dict[str, Any]]] = {
    "text that is not there": ("edit_file", {**EDIT, "old_string": "three"}),
    "text that is there twice": ("edit_file", EDIT),
    "missing file": ("edit_file", {**EDIT, "file_path": "none.txt"}),
    "missing argument": ("write_file", {"file_path": "out.txt"}),
    "unknown argument": ("write_file", {**WRITE[1], "mode": "a"}),
    "argument of another type": ("write_file", {"file_path": "out.txt", "content": ["a"]}),
    "unknown tool": ("write_fiel", WRITE[1]),
    "several edits of which one fails": (
        "multi_edit",
        {"file_path": "notes.txt", "edits": [{"old_string": "none", "new_string": "x"}]},
    ),
}
QUICK = ("text that is there twice", "unknown tool")


@pytest.mark.attack("review B5")
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, call in DOOMED.items()
    ],
)
def test_nobody_is_asked_about_a_call_that_would_fail(
    machine: Machine, call: tuple[str, dict[str, Any]]
) -> None:
    machine.write("notes.txt", "one and one\n")
    with ModelServer([Said(calls=[call]), Said(["I see."])]) as server:
        machine.user_settings(settings(server, headless="deny"))
        found = machine.amplifier("run", "--json", "do it")
        results = [each for each in server.requests[-1]["messages"] if each["role"] == "tool"]

    # Without a terminal, a call that is asked about is denied.
    assert json.loads(found.stdout).get("denied", []) == []
    assert found.returncode == 0
    assert "Error executing tool" in results[0]["content"]
    assert (machine.project / "notes.txt").read_text() == "one and one\n"


def test_a_call_that_can_be_made_is_still_asked_about(machine: Machine) -> None:
    machine.write("notes.txt", "one\n")
    with ModelServer([Said(calls=[("edit_file", EDIT)]), Said(["I see."])]) as server:
        machine.user_settings(settings(server))
        machine.amplifier("run", "--json", "do it")
        results = [each for each in server.requests[-1]["messages"] if each["role"] == "tool"]

    assert "needs approval" in results[0]["content"]
    assert (machine.project / "notes.txt").read_text() == "one\n"


# --- B7 -------------------------------------------------------------------------------------------


class GarblingServer(ModelServer):
    """Sends the first `times` answers with calls whose arguments are cut off in the middle."""

    def __init__(self, script: list[Said], times: int) -> None:
        super().__init__(script)
        self._times = times

    def _handler(self) -> Any:
        server: Any = self
        handler: Any = super()._handler()
        answer = handler.do_POST

        def garble(request: Any) -> None:
            write, is_garbled = request.wfile.write, len(server.requests) < server._times

            def cut(data: bytes) -> int:
                return write(data.replace(b'\\"}', b"") if is_garbled else data)

            request.wfile.write = cut
            answer(request)

        handler.do_POST = garble
        return handler


@pytest.mark.attack("review B7")
@pytest.mark.parametrize("times", [1, 2])
def test_broken_arguments_are_one_error_for_the_model_and_one_call_to_pay(
    machine: Machine, times: int
) -> None:
    garbled = Said(calls=[("read_file", {"file_path": "notes.txt"})])
    script = [*[garbled] * times, Said(["I give up."])]
    with GarblingServer([*script, *[garbled] * 8], times) as server:
        machine.user_settings(settings(server))
        found = machine.amplifier("run", "--json", "read it")
        requests = list(server.requests)

    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["answer"] == "I give up."
    assert len(requests) == times + 1
    results = [each for each in requests[-1]["messages"] if each["role"] == "tool"]
    assert len(results) == times
    assert all("not JSON" in each["content"] for each in results)
    assert all("column" in each["content"] for each in results)
