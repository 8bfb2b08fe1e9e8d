"""B3, B4: one price table; what is not known is shown as unknown, and never as nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from attacks.machine import Machine, write
from end_to_end.model_server import ModelServer, Said

MODEL = "chat-completions/scripted-model"
PRICE = {"input": 1, "output": 2}
# Of 1,000 tokens in and 50 out, as the server counts its first answer.
COST = "0.0011"
# Long enough that the counts of the server can be true.
ANSWER = Said(["This is the answer. "])


@pytest.fixture
def server(machine: Machine) -> Generator[ModelServer]:
    """A model behind the wire that answers twice."""
    with ModelServer([ANSWER, ANSWER]) as server:
        machine.use(server)
        yield server


def settings(server: ModelServer, **more: Any) -> dict[str, Any]:
    """Return settings with the server's model; `more` are further keys of its configuration."""
    # With its window set, no probe of the server can fail on a slow machine.
    config = {"base_url": server.url, "max_retries": 0, "context_window": 32_000, **more}
    return {"providers": [{"module": "provider-chat-completions", "config": config}]}


def run(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return machine.amplifier("run", *arguments, "hello")


@pytest.mark.attack("review B3")
def test_a_priced_model_without_a_budget_gets_no_warning_about_its_worst_case(
    machine: Machine, server: ModelServer
) -> None:
    machine.user_settings(settings(server, pricing=PRICE))

    found = run(machine)

    assert found.returncode == 0
    assert f"${COST}" in found.stderr
    assert "worst case" not in found.stderr


@pytest.mark.attack("review B4")
def test_a_budget_in_dollars_takes_the_price_of_the_provider_in_the_settings(
    machine: Machine, server: ModelServer
) -> None:
    machine.user_settings(settings(server, pricing=PRICE))

    found = run(machine, "--budget", "0.50", "--json")

    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["cost_usd"] == COST
    assert len(server.requests) == 1


@pytest.mark.attack("review B4")
def test_a_refused_budget_names_the_line_of_settings_that_makes_it_work(
    machine: Machine, server: ModelServer
) -> None:
    known = settings(server)
    machine.user_settings(known)

    refused = run(machine, "--budget", "0.50")
    lines = [
        each for each in refused.stderr.splitlines() if each[:5] in ("error", "why  ", "next ")
    ]
    example = refused.stderr[refused.stderr.index("pricing: {") :].splitlines()[0]

    assert refused.returncode != 0
    assert server.requests == []
    assert len(lines) == 3
    assert MODEL in lines[0]
    assert "Traceback" not in refused.stderr
    write(machine.home / "settings.yaml", f"{yaml.safe_dump(known)}{example}\n")
    assert run(machine, "--budget", "0.50").returncode == 0


@pytest.mark.attack("review B4")
def test_the_price_in_the_settings_counts_in_the_summary_too(
    machine: Machine, server: ModelServer
) -> None:
    machine.user_settings({**settings(server), "pricing": {MODEL: PRICE}})

    found = run(machine, "--json")

    assert json.loads(found.stdout)["cost_usd"] == COST


@pytest.mark.attack("review B4")
def test_an_unknown_price_is_shown_as_unknown_wherever_a_cost_is_shown(
    machine: Machine, server: ModelServer
) -> None:
    machine.user_settings(settings(server))

    summary = run(machine).stderr
    shown = {
        command: machine.amplifier(*command.split()).stdout
        for command in ("session list", "session show last", "explain last", "top last")
    }

    assert "cost unknown" in summary
    for command, text in shown.items():
        assert "unknown" in text, command
        assert "$0" not in text, command
    assert json.loads(run(machine, "--json").stdout)["cost_usd"] is None


@pytest.mark.attack("review B4")
def test_only_a_known_price_of_nothing_is_shown_as_free(
    machine: Machine, server: ModelServer
) -> None:
    machine.user_settings(settings(server, pricing={"input": 0, "output": 0}))

    assert "free" in run(machine).stderr


@pytest.mark.attack("review B4")
def test_no_project_can_say_what_a_model_costs(
    machine: Machine, server: ModelServer, tmp_path: Path
) -> None:
    machine.user_settings({**settings(server), "pricing": {MODEL: PRICE}})
    machine.project_settings({"pricing": {MODEL: {"input": 0, "output": 0}}})
    assert machine.trust().returncode == 0

    found = run(machine, "--json")

    assert json.loads(found.stdout)["cost_usd"] == COST
    assert "was ignored: only your own settings may say that" in found.stderr
