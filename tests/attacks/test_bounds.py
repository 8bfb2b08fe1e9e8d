"""What a session uses has one limit, however many calls, commands and sub-agents it is used by."""

from __future__ import annotations

import re
import resource
from typing import Any

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said


def _allow_all(machine: Machine) -> None:
    """Have no call asked about, so that what is left are the limits."""
    rules = [{"tool": "*", "action": "allow"}]
    approval = {"module": "hooks-approval", "config": {"rules": rules}}
    machine.user_settings({"modules": {"hooks": [approval]}})


def _results(server: ModelServer) -> list[str]:
    """Return what the model read of its calls."""
    messages = server.requests[-1]["messages"]
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


def _processor_seconds(machine: Machine, calls: list[tuple[str, dict[str, Any]]]) -> float:
    """Return the processor time of a run whose model makes `calls` in one answer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        machine.amplifier("run", "x", timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.attack("review M1")
def test_of_many_commands_in_one_answer_a_few_run_at_a_time(machine: Machine) -> None:
    _allow_all(machine)
    # Each command is in the folder while it runs, and counts who else is.
    count = "touch in.$$.$RANDOM; ls -d in.* | wc -l; sleep 0.3; rm in.$$.*"
    calls = [("bash", {"command": count})] * 20
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "x")

    seen = [re.search(r'"stdout": "(\d+)', each) for each in _results(server)]
    assert done.stdout.strip() == "done", done.stderr
    assert all(seen), _results(server)
    assert max(int(each[1]) for each in seen if each) <= 8


@pytest.mark.attack("review L7")
def test_an_answer_with_far_too_many_calls_is_survived_and_the_model_knows(
    machine: Machine,
) -> None:
    calls = [("list_directory", {"path": "."})] * 1_000
    with ModelServer([Said(calls=calls), Said(["done"])]) as server:
        machine.use(server)
        done = machine.amplifier("run", "x")

    assert done.stdout.strip() == "done", done.stderr
    assert 0 < len(_results(server)) < 1_000
    assert "were not run" in str(server.requests[-1]["messages"][-1]["content"])
    assert "1,000 tool calls in one answer" in done.stderr


@pytest.mark.slow
@pytest.mark.attack("review L7")
def test_ten_thousand_calls_cost_little_more_than_a_hundred(machine: Machine) -> None:
    call = ("list_directory", {"path": "."})

    few = _processor_seconds(machine, [call] * 100)
    many = _processor_seconds(machine, [call] * 10_000)

    assert many < 8 * few
