"""Commands that continue one session at the same moment: one writes, the others say why not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said

_COMMANDS = 4


@pytest.mark.slow
@pytest.mark.attack("review untried")
def test_of_commands_that_continue_a_session_together_each_writes_whole_or_not_at_all(
    machine: Machine,
) -> None:
    with ModelServer([Said(["answer"])] * (_COMMANDS + 1)) as server:
        machine.use(server)
        machine.amplifier("run", "first")
        session = next(machine.home.rglob("log.jsonl")).parent.name
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "amplifier_cli", "run", "--resume", session, f"prompt {n}"],
                cwd=machine.project,
                env=machine.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(_COMMANDS)
        ]
        ended = [(each.communicate(timeout=250), each.returncode) for each in started]
    shown = machine.amplifier("session", "show", session)
    records = machine.amplifier("session", "show", "--json", session).stdout.splitlines()

    answered = [n for n, (_, status) in enumerate(ended) if status == 0]
    refused = [said[1] for said, status in ended if status != 0]
    prompts = [
        each["data"]["text"] for each in map(json.loads, records) if each["kind"] == "prompt"
    ]
    assert answered
    assert sorted(prompts) == ["first", *(f"prompt {n}" for n in answered)]
    assert "damaged" not in shown.stderr
    for said in refused:
        assert "is open in process" in said
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) <= 5, said
