"""Tests of what a user can say besides yes and no: a reason, and another command."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_kit.children.child import STARTED
from amplifier_kit.questions import Asking, Preview, Reply


class Replying:
    """An approval system whose user can say more than an option."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.asked: list[Asking] = []

    async def request_approval(self, *_: Any) -> str:
        raise AssertionError("asked in the old way")

    async def request_reply(self, asking: Asking) -> Any:
        self.asked.append(asking)
        return self.replies.pop(0)


def make_editable(harness: Any, *, answer: Any = "done") -> None:
    """Let the tool `bash` have a preview, and return `answer`."""
    tool = harness.tools["bash"]

    async def preview_call(given: dict[str, Any]) -> Preview:
        return Preview("this command", ("command",), text=given["command"], editable="command")

    async def execute(given: dict[str, Any]) -> ToolResult:
        tool.ran.append(given)
        return answer if isinstance(answer, ToolResult) else ToolResult(output=answer)

    tool.preview_call = preview_call
    tool.execute = execute


async def test_the_reason_of_a_denial_is_what_the_model_reads(build: Any, calling: Any) -> None:
    ann = Replying(Reply("Deny", reason="use uv instead"))
    harness = await build([calling("bash", command="pip install x")], person=ann)

    results = await harness.run()

    assert results == ["Denied by hook: hooks-approval: denied by the user: use uv instead"]
    assert harness.ran() == []


async def test_a_changed_command_runs_and_the_model_is_told(build: Any, calling: Any) -> None:
    ann = Replying(Reply("Allow once", edited="ls -l"))
    harness = await build([calling("bash", "c1", command="ls", zone="x")], person=ann)
    make_editable(harness, answer={"exit_code": 0, "stdout": "out"})

    results = await harness.run()

    assert ann.asked[0].editable == "ls"
    assert harness.ran() == [{"command": "ls -l", "zone": "x"}]
    told = json.loads(results[0])
    assert told["stdout"] == "out"
    assert "The user changed this call before it ran" in told["note"]
    assert '"ls -l"' in told["note"]
    assert harness.broker.explain("c1")["arguments"] == '{"command": "ls -l", "zone": "x"}'


@pytest.mark.parametrize(
    "answer", ["text", ToolResult(success=False, error={"message": "it failed"})]
)
async def test_the_model_is_told_with_any_result(build: Any, calling: Any, answer: Any) -> None:
    harness = await build(
        [calling("bash", command="ls")], person=Replying(Reply("Allow once", edited="pwd"))
    )
    make_editable(harness, answer=answer)

    results = await harness.run()

    assert "The user changed this call" in results[0]
    assert ("text" if answer == "text" else "it failed") in results[0]


async def test_the_same_call_again_is_asked_about_and_runs_as_it_is(
    build: Any, calling: Any
) -> None:
    again = [calling("bash", "c1", command="ls")]
    ann = Replying(Reply("Allow once", edited="pwd"), Reply("Allow once"))
    harness = await build(again, again, person=ann)
    make_editable(harness)

    results = await harness.run()

    assert harness.ran() == [{"command": "pwd"}, {"command": "ls"}]
    assert results[1] == "done"


@pytest.mark.attack("H2")
async def test_a_changed_command_is_denied_if_a_rule_denies_it(build: Any, calling: Any) -> None:
    rule = {"tool": "bash", "arguments": {"command": "*sudo*"}, "action": "deny"}
    harness = await build(
        [calling("bash", command="ls")],
        person=Replying(Reply("Allow once", edited="sudo ls")),
        rules=[rule],
    )
    make_editable(harness)

    results = await harness.run()

    assert harness.ran() == []
    assert "rule 1: deny" in results[0]


@pytest.mark.parametrize("option", ["Deny", "Allow always"])
async def test_only_one_run_can_be_changed(build: Any, calling: Any, option: str) -> None:
    harness = await build(
        [calling("bash", command="ls")], person=Replying(Reply(option, edited="pwd"))
    )
    make_editable(harness)

    await harness.run()

    assert {"command": "pwd"} not in harness.ran()


@pytest.mark.attack("P3")
async def test_what_cannot_be_seen_cannot_be_edited(build: Any, calling: Any) -> None:
    ann = Replying(Reply("Allow once", edited="pwd"))
    harness = await build([calling("bash", command="ls \u200b")], person=ann)
    make_editable(harness)

    await harness.run()

    assert ann.asked[0].editable is None
    assert harness.ran() == [{"command": "ls \u200b"}]


@pytest.mark.parametrize("rubbish", [None, "Allow once", {"option": "Allow once"}])
async def test_a_reply_that_is_none_denies(build: Any, calling: Any, rubbish: Any) -> None:
    harness = await build([calling("bash", command="ls")], person=Replying(rubbish))

    await harness.run()

    assert harness.ran() == []


async def test_a_tool_whose_preview_fails_is_asked_about_by_its_arguments(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow")
    harness = await build([calling("bash", command="ls")], person=ann)

    async def preview_call(_: Any) -> Preview:
        raise RuntimeError("broken")

    harness.tools["bash"].preview_call = preview_call
    await harness.run()

    assert ann.questions[0].split("\n")[:2] == ["Allow bash?", "  command: ls"]


async def test_a_question_of_an_agent_says_so(build: Any, calling: Any, person: Any) -> None:
    ann = person("Deny")
    harness = await build(person=ann)
    started = {"child_session_id": "child-1", "agent": "reviewer"}
    await harness.coordinator.hooks.emit(STARTED, started)

    for session_id in ("root", "child-1", "child-2"):
        call = {"session_id": session_id, "tool_name": "bash", "tool_call_id": session_id}
        async with asyncio.timeout(60):
            await harness.coordinator.hooks.emit("tool:pre", {**call, "tool_input": {}})

    assert [each.split("\n")[0] for each in ann.questions] == [
        "Allow bash?",
        "Allow bash? Asked by the agent reviewer.",
        "Allow bash? Asked by a sub-agent.",
    ]


@pytest.mark.parametrize(("mode", "suggested"), [("ask", "once"), ("auto", "lasting")])
async def test_a_mode_decides_which_answer_is_suggested(
    build: Any, calling: Any, mode: str, suggested: str
) -> None:
    ann = Replying(Reply("Deny"))
    harness = await build([calling("bash", command="ls")], person=ann, mode=mode)

    await harness.run()

    assert [each.suggests for each in ann.asked] == [suggested]


async def test_a_concern_suggests_to_deny(build: Any, calling: Any) -> None:
    ann = Replying(Reply("Deny"), Reply("Deny"))
    harness = await build(
        [calling("bash", command="ls")], [calling("bash", command="pwd")], person=ann
    )
    concern = harness.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> None:
        if data["tool_input"]["command"] == "pwd":
            concern(data, "a page asked for it")

    harness.coordinator.hooks.register("tool:pre", worry, priority=5)
    await harness.run()

    assert [each.suggests for each in ann.asked] == ["once", "deny"]
    assert "Asked because" not in ann.asked[0].prompt
    assert "Asked because a page asked for it." in ann.asked[1].prompt


async def test_a_question_that_a_later_run_repeats_does_not_depend_on_files(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow")
    ann.asks_again = True
    harness = await build([calling("bash", command="ls")], person=ann)
    make_editable(harness)

    await harness.run()

    assert ann.questions[0].split("\n")[:2] == ["Allow bash?", "  command: ls"]
