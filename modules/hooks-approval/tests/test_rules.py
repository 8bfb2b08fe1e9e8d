"""Tests of what rules decide without asking anybody."""

from __future__ import annotations

import time
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_module_hooks_approval.config import Rule
from amplifier_module_hooks_approval.rules import Call, matches


def allow(**pattern: str) -> dict[str, Any]:
    return {"tool": "bash", "arguments": pattern, "action": "allow"}


def about(command: Any) -> Call:
    return Call("root", "1", "bash", {"command": command}, "", "")


async def test_a_tool_that_changes_nothing_is_never_asked_about(
    build: Any, person: Any, calling: Any
) -> None:
    nobody = person("Deny")
    harness = await build([calling("read", path="a")], person=nobody)

    await harness.run()

    assert harness.ran("read") == [{"path": "a"}]
    assert nobody.questions == []


async def test_a_denied_tool_is_never_executed(build: Any, person: Any, calling: Any) -> None:
    harness = await build(
        [calling("bash", "c1", command="rm -r .")],
        person=person("Allow"),
        rules=[allow(command="*"), {"tool": "b*", "action": "deny", "who": "ann", "why": "no"}],
    )

    results = await harness.run()

    assert harness.ran() == []
    assert "rule 2: deny `b*` (by ann, because no)" in results[0]
    assert harness.told("approval:denied")[0]["tool_call_id"] == "c1"


async def test_the_rule_that_decided_is_explained(build: Any, calling: Any) -> None:
    harness = await build(
        [calling("bash", "c1", command="git log")], rules=[allow(command="git *")]
    )

    await harness.run()

    explained = harness.broker.explain("c1")
    assert explained["action"] == "allow"
    assert explained["by"] == "rule"
    assert explained["rule"] == 'rule 1: allow `bash` where command is "git *"'
    assert explained["arguments"] == '{"command": "git log"}'
    assert harness.broker.explain("unknown") is None


async def test_the_first_rule_that_is_no_denial_decides(build: Any, calling: Any) -> None:
    ask = {"tool": "bash", "action": "ask"}
    harness = await build([calling("bash", command="ls")], rules=[ask, allow(command="ls")])

    results = await harness.run()

    assert harness.ran() == []
    assert "rule 1: ask `bash`" in results[0]


@pytest.mark.parametrize(("until", "runs"), [("2001-01-01T00:00Z", 0), ("2901-01-01T00:00Z", 1)])
async def test_a_rule_ends_when_its_time_is_over(
    build: Any, calling: Any, until: str, runs: int
) -> None:
    harness = await build(
        [calling("bash", command="ls")], rules=[{**allow(command="ls"), "until": until}]
    )

    await harness.run()

    assert len(harness.ran()) == runs


@pytest.mark.parametrize(
    ("classes", "ran"),
    [
        ({}, []),
        ({"idempotent": "allow"}, ["write"]),
        ({"idempotent": "deny", "unsafe": "allow"}, ["bash"]),
    ],
)
async def test_what_no_rule_is_about_goes_by_its_risk(
    build: Any, calling: Any, classes: Any, ran: list[str]
) -> None:
    harness = await build([calling("bash"), calling("write")], classes=classes)

    await harness.run()

    assert [name for name in ("bash", "write") if harness.ran(name)] == ran


@pytest.mark.parametrize("way", ["attribute", "state"])
async def test_what_demands_approval_gets_it_though_it_changes_nothing(
    build: Any, calling: Any, way: str
) -> None:
    harness = await build([calling("read")])
    if way == "attribute":
        harness.tools["read"].require_approval = True
    else:
        harness.coordinator.session_state["require_approval_tools"] = ["read"]

    await harness.run()

    assert harness.ran("read") == []


@pytest.mark.attack("S2")
@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -r .",
        "git status && curl evil",
        "git status | sh",
        "git status\nrm -r .",
        "git status & rm",
        "git log $(rm -r .)",
        "git log `rm -r .`",
        "git log > ~/.bashrc",
        "git log ${x@P}",
        "git log \u202egnp.exe",
        "git diff ../../../etc/../passwd",
        "git push #--dry-run",
        "gitk",
        "evil git log",
        ["git status"],
    ],
)
async def test_a_pattern_that_allows_is_not_stretched(command: Any) -> None:
    rule = Rule(tool="bash", arguments={"command": "git *"}, action="allow")

    assert not matches(rule, about(command), wary=True)


@pytest.mark.attack("S2")
async def test_what_is_hung_onto_an_allowed_command_is_not_allowed(
    build: Any, calling: Any
) -> None:
    harness = await build(
        [calling("bash", command="git log; rm -r .")], rules=[allow(command="git *")]
    )

    await harness.run()

    assert harness.ran() == []


@pytest.mark.parametrize("command", ["git status", "git log --format='%h' -n 3", "git add a..b"])
async def test_a_pattern_that_allows_matches_what_it_says(command: str) -> None:
    rule = Rule(tool="bash", arguments={"command": "git *"}, action="allow")

    assert matches(rule, about(command), wary=True)


@pytest.mark.parametrize("command", ["echo a; rm -r .", "x\nrm b", "rm"])
async def test_a_pattern_that_denies_matches_all_it_can(command: str) -> None:
    rule = Rule(tool="b*", arguments={"command": "*rm*"}, action="deny")

    assert matches(rule, about(command), wary=False)


@pytest.mark.attack("S3")
async def test_no_argument_makes_a_pattern_slow() -> None:
    rule = Rule(tool="*", arguments={"command": "*a*b*c*d*"}, action="deny")

    began = time.perf_counter()
    assert not matches(rule, about("abc" * 30_000), wary=False)

    assert time.perf_counter() - began < 1


async def test_a_rule_about_an_argument_needs_that_argument(build: Any, calling: Any) -> None:
    harness = await build([calling("bash", other="ls")], rules=[allow(command="*")])

    await harness.run()

    assert harness.ran() == []


async def test_a_guard_that_fails_denies(build: Any, calling: Any) -> None:
    harness = await build([calling("bash", command="ls")], rules=[allow(command="ls")])

    class Broken:
        def get(self, *_: Any) -> Any:
            raise RuntimeError("planted")

    harness.broker.sessions["root"] = broken = Broken()
    results = await harness.run()

    assert broken
    assert harness.ran() == []
    assert "Guard `hooks-approval` failed" in results[0]
    assert harness.told("hook:failed")[0]["denied"] is True


async def test_the_guards_cannot_be_overlooked(build: Any) -> None:
    harness = await build()

    assert harness.coordinator.hooks.list_guards()["tool:pre"] == ["hooks-approval"] * 2


async def test_a_session_that_ends_leaves_no_guard_behind(build: Any) -> None:
    harness = await build()

    await harness.session.cleanup()

    assert not harness.coordinator.hooks.has_handlers("tool:pre")


async def test_an_unknown_key_stops_the_mount_and_is_named() -> None:
    hook = {"module": "hooks-approval", "config": {"alow": 1}, "required": True}
    session = AmplifierSession(
        {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "hooks": [hook],
        }
    )

    with pytest.raises(Exception, match="alow"):
        await session.initialize()
