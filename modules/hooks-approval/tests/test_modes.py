"""The modes: what each of them asks about, allows and denies."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_kit.widenings import Widening


def _declare(harness: Any) -> None:
    """Let `bash` be bounded by a sandbox, `write` edit files, and `bash ls` only read."""
    bash = harness.tools["bash"]
    bash.is_bounded = True
    bash.only_reads = _is_ls

    async def widenings(tool_input: dict[str, Any]) -> list[Widening]:
        return [Widening("network", each) for each in tool_input.get("network", ())]

    bash.widenings = widenings
    harness.tools["write"].edits_files = True
    harness.tools["write"].is_bounded = True


def _is_ls(tool_input: dict[str, Any]) -> bool:
    return tool_input.get("command") == "ls"


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("ask", ["make", "text", "net"]),
        ("edits", ["make", "net"]),
        ("auto", ["net"]),
        ("plan", []),
    ],
)
async def test_a_mode_decides_what_is_asked_about(
    build: Any, calling: Any, person: Any, mode: str, asked: list[str]
) -> None:
    ann = person("Deny")
    harness = await build(
        [calling("bash", command="ls")],
        [calling("bash", command="make")],
        [calling("write", content="text")],
        [calling("bash", command="net", network=["example.org"])],
        person=ann,
        mode=mode,
    )
    _declare(harness)

    results = await harness.run()

    shown = "\n".join(ann.questions)
    assert len(ann.questions) == len(asked)
    assert all(f": {word}" in shown for word in asked)
    assert {"command": "ls"} in harness.ran()
    assert ({"command": "make"} in harness.ran()) is (mode == "auto")
    assert (harness.ran("write") != []) is (mode in ("edits", "auto"))
    if mode == "plan":
        assert all("the mode is `plan`" in each for each in results[1:])


async def test_a_mode_is_changed_while_the_session_runs(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Deny")
    harness = await build([calling("bash", command="make")], person=ann)
    _declare(harness)

    await harness.broker.set_mode("auto")
    await harness.run()

    assert harness.broker.mode == "auto"
    assert ann.questions == []
    assert harness.ran() == [{"command": "make"}]


async def test_a_yes_in_the_mode_plan_to_an_older_question_changes_nothing(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow once")
    harness = await build([calling("bash", command="make")], person=ann)
    _declare(harness)
    ask = ann.request_approval

    async def plan_first(*asked: Any) -> str:
        await harness.broker.set_mode("plan")
        return await ask(*asked)

    ann.request_approval = plan_first
    (result,) = await harness.run()

    assert len(ann.questions) == 1
    assert harness.ran() == []
    assert "the mode is `plan`" in result


async def test_a_resumed_session_has_the_mode_that_it_had(build: Any) -> None:
    first = await build()
    await first.broker.set_mode("edits")

    later = await build(state=first.coordinator.session_state)

    assert later.broker.mode == "edits"


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [("plan", {}, "plan"), ("edits", {}, "edits"), ("auto", {"mode": "ask"}, "ask")],
)
async def test_a_resumed_session_has_the_mode_of_its_last_run_unless_it_is_given_one(
    build: Any, before: str, given: dict[str, str], after: str
) -> None:
    first = await build(mode=before)

    later = await build(state=first.coordinator.session_state, **given)

    assert later.broker.mode == after


@pytest.mark.parametrize("mode", ["ask", "edits", "auto"])
async def test_a_rule_wins_over_a_mode(build: Any, calling: Any, person: Any, mode: str) -> None:
    ann = person("Deny")
    rules = [
        {"tool": "bash", "arguments": {"command": "make"}, "action": "ask"},
        {"tool": "bash", "arguments": {"command": "rm"}, "action": "deny"},
    ]
    calls = [[calling("bash", command="make")], [calling("bash", command="rm")]]
    harness = await build(*calls, person=ann, rules=rules, mode=mode)
    _declare(harness)

    await harness.run()

    assert len(ann.questions) == 1
    assert harness.ran() == []


async def test_in_the_mode_plan_a_rule_allows_only_if_it_says_so(build: Any, calling: Any) -> None:
    rules = [
        {"tool": "write", "action": "allow", "plan": True},
        {"tool": "bash", "action": "allow"},
    ]
    calls = [[calling("write", content="note")], [calling("bash", command="make")]]
    harness = await build(*calls, rules=rules, mode="plan")
    _declare(harness)

    await harness.run()

    assert harness.ran("write") == [{"content": "note"}]
    assert harness.ran() == []


async def test_a_tool_that_says_nothing_is_asked_about_in_the_mode_auto(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Deny")
    harness = await build([calling("bash", command="make")], person=ann, mode="auto")

    await harness.run()

    assert len(ann.questions) == 1


async def test_a_tool_that_demands_a_question_is_asked_about_in_the_mode_auto(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Deny")
    calls = [[calling("bash", command="ls")], [calling("write", content="text")]]
    harness = await build(*calls, person=ann, mode="auto")
    _declare(harness)
    harness.tools["bash"].require_approval = True
    harness.coordinator.session_state["require_approval_tools"] = ["write"]

    await harness.run()

    assert len(ann.questions) == 2


@pytest.mark.parametrize(("mode", "count"), [("ask", 1), ("auto", 0)])
async def test_inside_of_the_sandbox_a_concern_asks_only_where_calls_are_asked_about(
    build: Any, calling: Any, person: Any, mode: str, count: int
) -> None:
    ann = person("Deny")
    harness = await build([calling("bash", command="make")], person=ann, mode=mode)
    _declare(harness)

    def doubt(event: str, data: dict[str, Any]) -> None:
        harness.coordinator.get_capability("approval.concern")(data, "a page asked for it")

    harness.coordinator.hooks.register("tool:pre", doubt)

    await harness.run()

    assert len(ann.questions) == count
