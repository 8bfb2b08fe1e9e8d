"""Logs of sessions that are damaged in every line, or far too long: time and memory are bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said

# Python, the command and the record of a short session take some 250 MB of addresses.
_LIMITED = ["/bin/sh", "-c", 'ulimit -v 1500000; exec "$@"', "sh", sys.executable, "-m"]


def _limited(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with little memory; that it ends at all is part of what is tried."""
    return subprocess.run(
        [*_LIMITED, "amplifier_cli", *arguments],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _session(machine: Machine) -> Path:
    with ModelServer([Said(["first answer"])]) as server:
        machine.use(server)
        machine.amplifier("run", "hello")
    return next(machine.home.rglob("log.jsonl"))


def _spoil(log: Path, kind: str) -> None:
    with log.open("ab") as file:
        if kind == "hole":
            file.truncate(file.tell() + 300_000_000)
            return
        if kind == "giant":
            file.truncate(file.tell() + 300_000_000)
            file.seek(0, 2)
            file.write(b"\n")
            return
        line = {"junk": b"x\n", "empty": b"\n"}[kind]
        for _ in range(3):
            file.write(line * 1_000_000)


@pytest.mark.slow
@pytest.mark.attack("review untried")
@pytest.mark.parametrize("kind", ["junk", "empty", "hole", "giant"])
def test_a_log_full_of_lines_that_are_no_records_is_shown_and_refused_or_continued(
    machine: Machine, kind: str
) -> None:
    log = _session(machine)
    _spoil(log, kind)
    session = log.parent.name

    listed = _limited(machine, "session", "list")
    shown = _limited(machine, "session", "show", session)
    with ModelServer([Said(["second answer"])]) as server:
        machine.use(server)
        again = _limited(machine, "run", "--resume", session, "hi")
        forked = _limited(machine, "session", "fork", session)
    log.unlink()

    assert session[:8] in listed.stdout
    assert "first answer" in shown.stdout, shown.stderr
    assert len(shown.stderr.splitlines()) < 10
    assert "Traceback" not in shown.stderr + again.stderr + forked.stderr
    if kind in ("junk", "empty"):
        assert "The rest is not read" in shown.stderr
        assert again.returncode == 1
        assert f"amplifier session fork {session}" in again.stderr
        assert len(again.stderr.strip().splitlines()) <= 4
    else:
        assert again.stdout.strip() == "second answer", again.stderr
    assert forked.returncode == 0, forked.stderr
