"""The guard: it asks exactly what will run, and where it cannot ask, nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult
from amplifier_module_tool_bash.config import BashConfig
from amplifier_module_tool_bash.guard import LONGEST_QUESTION, CommandGuard


def asked_about(command: Any, tool_name: str = "bash") -> dict[str, Any]:
    return {"tool_name": tool_name, "tool_call_id": "call-1", "tool_input": {"command": command}}


async def test_what_no_rule_allows_is_asked_about(mounted: Any, coordinator: Any) -> None:
    await mounted(allow=["git status"])

    answer = await coordinator.hooks.emit("tool:pre", asked_about("git push"))

    assert answer.action == "ask_user"
    assert answer.approval_default == "deny"
    assert answer.approval_prompt.splitlines() == [
        "Run this command in its sandbox? Asked because no allow rule matches `git` with these "
        "arguments.",
        "1 | git push",
    ]


@pytest.mark.parametrize(
    ("config", "command"), [({"allow": ["git status"]}, "git status"), ({"ask": False}, "git push")]
)
async def test_what_is_allowed_passes(
    mounted: Any, coordinator: Any, config: dict[str, Any], command: str
) -> None:
    await mounted(**config)

    answer = await coordinator.hooks.emit("tool:pre", asked_about(command))

    assert answer.action == "continue"


async def test_another_tool_is_none_of_its_business(mounted: Any, coordinator: Any) -> None:
    await mounted()

    answer = await coordinator.hooks.emit("tool:pre", asked_about("rm x", tool_name="shell"))

    assert answer.action == "continue"


async def test_what_is_no_command_is_left_to_the_tool(mounted: Any, coordinator: Any) -> None:
    tool = await mounted()

    answer = await coordinator.hooks.emit("tool:pre", asked_about(["rm", "x"]))
    result = await tool.execute({"command": ["rm", "x"]})

    assert answer.action == "continue"
    assert result.error["message"].startswith("command: ")


@pytest.mark.attack("P3")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls\x1b[2K\rrm x", "1 | ls\\u001b[2K\\rrm x"),
        ("ls \u202exr mr", "1 | ls \\u202exr mr"),
        ("ls\u200b", "1 | ls\\u200b"),
        ("ls\u2028rm", "1 | ls\\u2028rm"),
        ("ls\u00a0x", "1 | ls\\u00a0x"),
        ("ls" + "\n" * 9 + "rm x", "1 | ls\n"),
        ("ls" + "\n" * 9 + "rm x", "10 | rm x"),
        ("ls\tä", "1 | ls\\tä"),
    ],
)
async def test_nothing_in_a_question_can_hide(
    mounted: Any, coordinator: Any, command: str, shown: str
) -> None:
    await mounted()

    answer = await coordinator.hooks.emit("tool:pre", asked_about(command))

    assert shown in answer.approval_prompt
    assert answer.approval_prompt.replace("\n", "").isprintable()


@pytest.mark.attack("P3")
@pytest.mark.parametrize("command", ["ls " + "x" * LONGEST_QUESTION, "ls\n" * 10_000])
async def test_what_nobody_would_read_is_denied(
    mounted: Any, coordinator: Any, command: str
) -> None:
    await mounted()

    answer = await coordinator.hooks.emit("tool:pre", asked_about(command))

    assert answer.action == "deny"
    assert "Write it to a file" in answer.reason


@pytest.mark.attack("H2")
async def test_the_question_shows_what_another_hook_made_of_the_command(
    mounted: Any, coordinator: Any
) -> None:
    await mounted()

    async def rewrite(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"command": "rm other"}})

    coordinator.hooks.register("tool:pre", rewrite, priority=50)

    answer = await coordinator.hooks.emit("tool:pre", asked_about("rm x"))

    assert "1 | rm other" in answer.approval_prompt
    assert answer.data["tool_input"] == {"command": "rm other"}


async def test_without_anybody_to_ask_it_is_denied_with_a_reason(
    mounted: Any, coordinator: ModuleCoordinator
) -> None:
    await mounted()
    coordinator.approval_system = None
    question = await coordinator.hooks.emit("tool:pre", asked_about("git push"))

    answer = await coordinator.process_hook_result(question, "tool:pre", "tool-bash")

    assert (answer.action, answer.reason) == ("deny", "No approval system available")


@pytest.mark.attack("H1")
async def test_a_guard_that_fails_denies(mounted: Any) -> None:
    hooks = HookRegistry()
    guard = CommandGuard(await mounted(), BashConfig())
    vars(guard).pop("_rules")
    hooks.register("tool:pre", guard, name="tool-bash", on_error="deny")

    answer = await hooks.emit("tool:pre", asked_about("git status"))

    assert answer.action == "deny"


async def test_the_module_registers_it_as_a_guard(mounted: Any, coordinator: Any) -> None:
    await mounted()

    # By the second one, forked sessions find the limits that they share with this session.
    assert coordinator.hooks.list_guards() == {
        "tool:pre": ["tool-bash"],
        "tool-bash:parts": ["tool-bash"],
    }


async def test_unprotected_commands_are_asked_about_as_such(
    mounted: Any, coordinator: Any, workspace: Path
) -> None:
    await mounted(sandbox="off: run commands unprotected")

    answer = await coordinator.hooks.emit("tool:pre", asked_about("git push"))

    assert "WITHOUT ANY PROTECTION" in answer.approval_prompt


@pytest.mark.attack("review M15")
@pytest.mark.parametrize("command", ["git status", "ls; git diff", "env git log"])
async def test_git_is_asked_about_where_a_repository_names_a_program(
    mounted: Any, coordinator: Any, workspace: Path, command: str
) -> None:
    await mounted(allow=["git *", "ls", "env *"])
    (workspace / ".git" / "config").write_text("[diff]\n\texternal = ./x\n", "utf-8")

    answer = await coordinator.hooks.emit("tool:pre", asked_about(command))
    other = await coordinator.hooks.emit("tool:pre", asked_about("ls"))

    assert answer.action == "ask_user"
    assert "`diff.external`, by which git may run a program" in answer.approval_prompt
    assert other.action == "continue"


@pytest.mark.attack("review M15")
@pytest.mark.parametrize("is_heard", [True, False])
async def test_where_another_guard_asks_it_is_told_of_the_program(
    mounted: Any, coordinator: Any, workspace: Path, is_heard: bool
) -> None:
    heard: list[str] = []

    def concern(data: dict[str, Any], why: str) -> bool:
        heard.append(why)
        return is_heard

    await mounted(ask=False)
    coordinator.register_capability("approval.concern", concern)
    (workspace / ".git" / "config").write_text("[diff]\n\texternal = ./x\n", "utf-8")

    answer = await coordinator.hooks.emit("tool:pre", asked_about("git status"))

    assert len(heard) == 1
    assert answer.action == ("continue" if is_heard else "ask_user")
