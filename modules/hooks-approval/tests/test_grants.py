"""Tests of answers that are remembered: how far they reach, and what if they are damaged."""

from __future__ import annotations

import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from amplifier_core.interfaces import ApprovalResponse
from amplifier_core.models import HookResult
from amplifier_module_hooks_approval.grants import Grant, GrantFile, Grants
from amplifier_module_hooks_approval.rules import call_from

ASK_PROJECT = {"tool": "bash", "arguments": {"command": "git *"}, "action": "ask"}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _write(path: Path, text: str, mode: int = 0o600) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _spoil(path: Path, way: str) -> None:
    """Put something in the place of the file that is not to be relied on."""
    _write(path, "[]", 0o666 if way == "mode" else 0o600)
    if way == "huge":
        os.truncate(path, 5_000_000)
    elif way in ("link", "folder", "fifo"):
        path.rename(path.with_name("elsewhere"))
        make = {"link": _link_elsewhere, "folder": Path.mkdir, "fifo": _make_pipe}
        make[way](path)


def _link_elsewhere(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


def _make_pipe(path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no pipes that are files")
    os.mkfifo(path)


async def test_always_means_exactly_this_call_when_no_pattern_says_more(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow always", "Deny")
    calls = [[calling("bash", command=text)] for text in ("ls", "ls", "ls -a")]
    harness = await build(*calls, person=ann)

    await harness.run()

    assert harness.ran() == [{"command": "ls"}] * 2
    assert len(ann.questions) == 2
    assert "A lasting answer covers exactly this call, for 8 hours." in ann.questions[0]
    assert ann.options[0] == [
        "Allow once",
        "Allow exactly this call, this session",
        "Allow exactly this call, this project",
        "Deny",
    ]


async def test_always_means_the_pattern_of_the_rule_that_asked(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow always", "Deny")
    commands = ("git log", "git status", "git status; rm -r .")
    harness = await build(
        *([calling("bash", command=text)] for text in commands), person=ann, rules=[ASK_PROJECT]
    )

    await harness.run()

    assert [each["command"] for each in harness.ran()] == ["git log", "git status"]
    assert 'answer covers `bash` where command is "git *", for 8 hours' in ann.questions[0]


@pytest.mark.parametrize(
    ("scope", "elsewhere", "runs"),
    [
        ("session", "here", 0),
        ("project", "here", 1),
        ("project", "there", 0),
        ("user", "there", 1),
    ],
)
async def test_a_grant_reaches_as_far_as_its_scope(
    build: Any, person: Any, calling: Any, tmp_path: Path, scope: str, elsewhere: str, runs: int
) -> None:
    calls, rules = [calling("bash", command="git log")], [{**ASK_PROJECT, "scope": scope}]
    here = str(tmp_path / "here")
    first = await build(calls, person=person("Allow always"), rules=rules, project=here)
    await first.run()

    later = await build(calls, rules=rules, project=str(tmp_path / elsewhere))
    await later.run()

    assert len(first.ran()) == 1
    assert len(later.ran()) == runs


async def test_a_grant_of_a_session_is_there_when_it_is_resumed(
    build: Any, person: Any, calling: Any
) -> None:
    calls = [calling("bash", command="ls")]
    first = await build(calls, person=person("Allow always"))
    await first.run()
    state = json.loads(json.dumps(first.coordinator.session_state))

    later = await build(calls, state=state)
    await later.run()

    assert len(later.ran()) == 1


async def test_a_grant_can_be_listed_and_taken_back(build: Any, person: Any, calling: Any) -> None:
    for scope in ("session", "user"):
        calls = [calling("bash", command="ls")]
        harness = await build(
            calls, calls, person=person("Allow always", "Deny"), remember_scope=scope
        )
        await harness.session.execute("go")
        assert len(harness.ran()) == 2

        (grant,) = harness.broker.list()
        assert grant["scope"] == scope
        assert '"command": "ls"' in grant["matches"]
        assert grant["until"] > grant["made"]
        assert harness.broker.revoke(grant["id"]) is True
        assert harness.broker.revoke(grant["id"]) is False
        assert harness.broker.list() == []


async def test_what_is_taken_back_elsewhere_is_gone_here_too(
    build: Any, person: Any, calling: Any, grants_file: Path
) -> None:
    calls = [calling("bash", command="ls")]
    harness = await build(calls, person=person("Allow always", "Deny"), remember_scope="user")
    await harness.run()

    other = await build()
    assert other.broker.revoke(harness.broker.list()[0]["id"]) is True

    assert harness.broker.list() == []
    assert json.loads(_text(grants_file)) == []


async def test_a_grant_ends(build: Any, person: Any, calling: Any) -> None:
    calls = [calling("bash", command="ls")]
    harness = await build(
        calls, calls, person=person("Allow always", "Deny"), remember_seconds=0.000001
    )

    await harness.run()

    assert len(harness.ran()) == 1
    assert harness.broker.list() == []


async def test_a_no_can_be_remembered_and_beats_a_rule_that_allows(
    build: Any, calling: Any
) -> None:
    class Client:
        async def request_approval(self, request: Any) -> ApprovalResponse:
            return ApprovalResponse(approved=False, remember=True)

    calls = [calling("bash", command="ls")]
    harness = await build(calls, remember_scope="user")
    harness.coordinator.get_capability("approval.register_provider")(Client())
    await harness.run()

    later = await build(calls, rules=[{"tool": "bash", "action": "allow"}])
    results = await later.run()

    assert later.ran() == []
    assert "grant grant-" in results[0]


async def test_no_grant_is_stronger_than_a_rule_that_denies(
    build: Any, person: Any, calling: Any
) -> None:
    granted = await build(
        [calling("bash", command="rm")], person=person("Allow always"), remember_scope="user"
    )
    await granted.run()
    deny = {"tool": "bash", "arguments": {"command": "rm"}, "action": "deny"}
    harness = await build([calling("bash", command="ls")], rules=[deny])

    async def edit(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"command": "rm"}})

    harness.coordinator.hooks.register("tool:pre", edit)
    results = await harness.run()

    assert len(granted.ran()) == 1
    assert harness.ran() == []
    assert "rule 1: deny" in results[0]


@pytest.mark.parametrize("actions", [("allow", "deny"), ("deny", "allow")])
async def test_of_two_grants_the_one_that_denies_counts(
    grants_file: Path, actions: tuple[Literal["allow", "deny"], ...]
) -> None:
    grants = Grants(GrantFile(grants_file), {})
    call, now = call_from({"tool_name": "bash"}), datetime.now(UTC)
    for action in actions:
        grants.add(
            Grant(
                id=action,
                action=action,
                tool="bash",
                arguments={},
                digest=call.digest,
                matches="",
                scope="user",
                project=None,
                until=now + timedelta(hours=1),
                who="ann",
                made=now,
            )
        )

    found = grants.find(call, "", now)

    assert found is not None
    assert found.action == "deny"


async def test_the_file_is_the_owners_alone(
    build: Any, person: Any, calling: Any, grants_file: Path
) -> None:
    harness = await build(
        [calling("bash", command="ls")], person=person("Allow always"), remember_scope="user"
    )

    await harness.run()

    assert _mode(grants_file) == 0o600
    assert _mode(grants_file.parent) == 0o700


@pytest.mark.attack("C5")
@pytest.mark.parametrize(
    "content", ["", "{", "null", "[1]", '[{"id": "x"}]', "[]garbage", '{"grants": []}', "\x00" * 9]
)
async def test_a_damaged_file_denies_everything_and_says_so(
    build: Any, person: Any, calling: Any, grants_file: Path, content: str
) -> None:
    _write(grants_file, content)
    ann = person("Allow")
    allow = {"tool": "*", "action": "allow"}
    harness = await build([calling("bash"), calling("read")], person=ann, rules=[allow])

    results = await harness.run()

    assert harness.ran("bash") == harness.ran("read") == []
    assert ann.questions == []
    assert all("is damaged" in each for each in results)
    assert any("error: Every tool call is denied" in line for line in harness.screen.lines)
    assert _text(grants_file) == content


@pytest.mark.attack("C5")
@pytest.mark.parametrize("way", ["mode", "link", "folder", "fifo", "huge", "unreadable state"])
async def test_a_file_that_others_could_have_made_denies_everything(
    build: Any, calling: Any, grants_file: Path, way: str
) -> None:
    _spoil(grants_file, way)
    state = {"hooks-approval": {"grants": ["x"]}} if way == "unreadable state" else {}
    harness = await build([calling("read")], state=state)

    await harness.run()

    assert harness.ran("read") == []
    assert any("Every tool call is denied" in line for line in harness.screen.lines)


async def test_a_repaired_file_is_used_again(build: Any, grants_file: Path) -> None:
    _write(grants_file, "{")
    harness = await build()
    facts = {"tool_name": "read", "tool_call_id": "c1"}
    before = await harness.coordinator.hooks.emit("tool:pre", facts)

    _write(grants_file, "[]")
    after = await harness.coordinator.hooks.emit("tool:pre", facts)

    assert (before.action, after.action) == ("deny", "continue")


async def test_an_answer_that_cannot_be_remembered_goes_for_its_call_only(
    build: Any, person: Any, calling: Any, grants_file: Path
) -> None:
    grants_file.with_name("grants.json.lock").mkdir(parents=True)
    calls = [calling("bash", command="ls")]
    harness = await build(
        calls, calls, person=person("Allow always", "Deny"), remember_scope="user"
    )

    await harness.run()

    assert len(harness.ran()) == 1
    assert any("goes for this call only" in line for line in harness.screen.lines)


@pytest.mark.parametrize("scope", ["session", "user"])
async def test_grants_made_at_the_same_time_are_all_kept(
    build: Any, person: Any, calling: Any, scope: str
) -> None:
    calls = [calling("bash", command=str(number)) for number in range(12)]
    harness = await build(calls, person=person("Allow always"), remember_scope=scope)

    await harness.run()

    assert len(harness.broker.list()) == 12
