"""Answers about more than one call: the scopes that tools name, and no call besides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.widenings import CallScope, Widening

SESSION = "Allow `pytest` with any arguments, this session"
PROJECT = "Allow `pytest` with any arguments, this project"


def _scoped(harness: Any, tool: str = "bash") -> None:
    """Let the tool name the program of a command as its scope, as tool-bash does."""

    def call_scopes(tool_input: Any) -> list[CallScope]:
        program, _, rest = tool_input["command"].partition(" ")
        if ";" in rest:
            return []
        return [CallScope(f"command {program}", f"`{program}` with any arguments")]

    async def widenings(tool_input: Any) -> list[Widening]:
        return [Widening("network", each) for each in tool_input.get("network", ())]

    harness.tools[tool].call_scopes = call_scopes
    harness.tools[tool].widenings = widenings


def _commands(harness: Any) -> list[str]:
    return [each["command"] for each in harness.ran()]


def _without_key(grants_file: Path, line: str) -> None:
    text = grants_file.read_text("utf-8")
    assert line in text
    grants_file.write_text(text.replace(line, ""), encoding="utf-8")


@pytest.fixture
def steps(calling: Any) -> Any:
    """Make one step per command."""

    def made(*commands: str) -> list[list[dict[str, Any]]]:
        return [[calling("bash", command=each)] for each in commands]

    return made


async def test_an_answer_covers_the_scope_that_the_tool_names(
    build: Any, person: Any, steps: Any
) -> None:
    ann = person(SESSION, "Deny")
    harness = await build(*steps("pytest a", "pytest b", "ruff ."), person=ann)
    _scoped(harness)

    await harness.run()

    assert ann.options[0] == ["Allow once", SESSION, PROJECT, "Deny"]
    assert "Allow `ruff` with any arguments, this session" in ann.options[1]
    assert _commands(harness) == ["pytest a", "pytest b"]
    (grant,) = harness.broker.list()
    assert (grant["matches"], grant["scope"]) == ("`pytest` with any arguments", "session")
    assert (grant["within"], grant["digest"], grant["who"]) == ("command pytest", None, "user")


@pytest.mark.parametrize(
    ("answer", "elsewhere", "runs"),
    [(SESSION, "here", 0), (PROJECT, "here", 1), (PROJECT, "there", 0)],
)
async def test_it_reaches_as_far_as_the_option_says(
    build: Any, person: Any, steps: Any, tmp_path: Path, answer: str, elsewhere: str, runs: int
) -> None:
    first = await build(*steps("pytest a"), person=person(answer), project=str(tmp_path / "here"))
    _scoped(first)
    await first.run()

    later = await build(*steps("pytest b"), project=str(tmp_path / elsewhere))
    _scoped(later)
    await later.run()

    assert len(later.ran()) == runs


async def test_a_revoked_scope_is_asked_about_again(build: Any, person: Any, steps: Any) -> None:
    ann = person(PROJECT, "Deny")
    first = await build(*steps("pytest a"), person=ann)
    _scoped(first)
    await first.run()
    assert first.broker.revoke(first.broker.list()[0]["id"])

    later = await build(*steps("pytest b"), person=ann)
    _scoped(later)
    await later.run()

    assert later.ran() == []
    assert len(ann.questions) == 2


@pytest.mark.attack("W1")
async def test_a_scope_covers_no_call_that_the_tool_does_not_count_to_it(
    build: Any, person: Any, steps: Any
) -> None:
    ann = person(SESSION, "Deny")
    harness = await build(*steps("pytest a", "pytest a; rm -r ."), person=ann)
    _scoped(harness)

    await harness.run()

    assert _commands(harness) == ["pytest a"]
    assert "Allow exactly this call, this session" in ann.options[1]


@pytest.mark.attack("W1")
async def test_a_scope_covers_no_widening(build: Any, person: Any, calling: Any) -> None:
    ann = person(SESSION, "Deny")
    inside = [calling("bash", command="pytest a")]
    outside = [calling("bash", command="pytest a", network=["example.org"])]
    harness = await build(inside, outside, person=ann)
    _scoped(harness)

    await harness.run()

    assert harness.ran() == [{"command": "pytest a"}]
    assert "network to example.org" in ann.questions[1]


@pytest.mark.attack("W1")
@pytest.mark.parametrize("action", ["ask", "deny"])
async def test_rules_win_over_a_scope(build: Any, person: Any, steps: Any, action: str) -> None:
    ann = person(SESSION, "Deny")
    rule = {"tool": "bash", "arguments": {"command": "*secret*"}, "action": action}
    harness = await build(*steps("pytest a", "pytest secret"), person=ann, rules=[rule])
    _scoped(harness)

    await harness.run()

    assert _commands(harness) == ["pytest a"]
    assert len(ann.questions) == (2 if action == "ask" else 1)


@pytest.mark.attack("W5")
async def test_a_tainted_call_is_asked_about_in_spite_of_its_scope(
    build: Any, person: Any, steps: Any
) -> None:
    ann = person(PROJECT, "Deny")
    first = await build(*steps("pytest a"), person=ann)
    _scoped(first)
    await first.run()
    later = await build(*steps("pytest b"), person=ann)
    _scoped(later)

    def doubt(event: str, data: dict[str, Any]) -> None:
        later.coordinator.get_capability("approval.concern")(data, "a page asked for it")

    later.coordinator.hooks.register("tool:pre", doubt)
    await later.run()

    assert ann.options[1] == ["Allow once", "Deny"]
    assert later.ran() == []


async def test_the_mode_plan_denies_in_spite_of_a_scope(
    build: Any, person: Any, steps: Any
) -> None:
    harness = await build(*steps("pytest a", "pytest b"), person=person(SESSION))
    _scoped(harness)
    await harness.run()
    await harness.broker.set_mode("plan")
    before = len(harness.ran())

    await harness.run()

    assert before == 2
    assert len(harness.ran()) == before


async def test_a_tool_that_demands_a_question_each_time_has_no_scope(
    build: Any, person: Any, steps: Any
) -> None:
    ann = person("Allow once")
    harness = await build(*steps("pytest a"), person=ann)
    _scoped(harness)
    harness.tools["bash"].require_approval = True

    await harness.run()

    assert "Allow exactly this call, this session" in ann.options[0]


async def test_calls_of_one_question_share_an_option(build: Any, person: Any, calling: Any) -> None:
    both = "Allow `pytest` with any arguments and `ruff` with any arguments, this session"
    ann = person(both)
    calls = [calling("bash", command=text) for text in ("pytest a", "ruff .")]
    again = [calling("bash", command=text) for text in ("ruff b", "pytest b")]
    harness = await build(calls, again, person=ann, batch_seconds=0.02)
    _scoped(harness)

    await harness.run()

    assert ann.options == [
        ["Allow once", both, both.replace("session", "project"), "One by one", "Deny"]
    ]
    assert sorted(_commands(harness)) == ["pytest a", "pytest b", "ruff .", "ruff b"]
    assert len(harness.broker.list()) == 2


async def test_an_option_stays_short(build: Any, person: Any, calling: Any) -> None:
    ann = person("Deny")
    calls = [calling("bash", command=f"program-number-{at}") for at in range(5)]
    harness = await build(calls, person=ann, batch_seconds=0.02)
    _scoped(harness)

    await harness.run()

    assert ann.options[0][1] == "Allow what a lasting answer covers, this session"
    assert "covers `program-number-4` with any arguments" in ann.questions[0]


class Clerk:
    """An app that answers through the capability, and not through its approval system."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.broker: Any = None

    async def request_approval(self, *_: Any) -> str:
        (waiting,) = self.broker.waiting()
        assert self.broker.answer(waiting["id"], **self.answers.pop(0))
        await asyncio.Event().wait()
        return "never"


@pytest.mark.parametrize(
    ("reach", "scopes"),
    [("", ["session"]), ("project", ["project"]), ("user", [])],
)
async def test_an_app_can_name_how_far_its_answer_reaches(
    build: Any, steps: Any, reach: str, scopes: list[str]
) -> None:
    clerk = Clerk({"approved": True, "remember": True, "reach": reach})
    harness = await build(*steps("pytest a"), person=clerk)
    clerk.broker = harness.broker
    _scoped(harness)

    await harness.run()

    assert [each["scope"] for each in harness.broker.list()] == scopes
    assert _commands(harness) == ["pytest a"]


async def test_a_remembered_no_is_about_the_call_that_was_shown(build: Any, steps: Any) -> None:
    clerk = Clerk({"approved": False, "remember": True}, {"approved": True})
    harness = await build(*steps("pytest a", "pytest a", "pytest b"), person=clerk)
    clerk.broker = harness.broker
    _scoped(harness)

    await harness.run()

    (grant,) = harness.broker.list()
    assert (grant["action"], grant["within"]) == ("deny", None)
    assert _commands(harness) == ["pytest b"]


async def test_a_configured_scope_is_offered_first(build: Any, person: Any, steps: Any) -> None:
    ann = person("Allow always")
    harness = await build(*steps("pytest a"), person=ann, remember_scope="user")
    _scoped(harness)

    await harness.run()

    assert [each.rpartition(" ")[2] for each in ann.options[0][1:3]] == ["user", "session"]
    assert harness.broker.list()[0]["scope"] == "user"


async def test_grants_of_the_version_before_are_read(
    build: Any, person: Any, steps: Any, grants_file: Path
) -> None:
    first = await build(*steps("pytest a"), person=person("Allow always"), remember_scope="user")
    await first.run()
    _without_key(grants_file, '    "within": null,\n')

    later = await build(*steps("pytest a"))
    await later.run()

    assert _commands(later) == ["pytest a"]
