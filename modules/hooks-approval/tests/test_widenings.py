"""Calls that need more than their sandbox gives: asked about by what they need, granted by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.widenings import Widening

ALLOW_ALL = [{"tool": "bash", "action": "allow"}]


def _needing(harness: Any, tool: str = "bash") -> None:
    """Let the tool say that its call needs the domains in `network`."""

    async def widenings(tool_input: Any) -> list[Widening]:
        found = [Widening("network", each) for each in tool_input.get("network", ())]
        if tool_input.get("outside_sandbox"):
            found.append(Widening("outside_sandbox"))
        return found

    harness.tools[tool].widenings = widenings


async def test_a_widening_is_asked_about_whatever_the_rules_allow(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Deny")
    calls = [calling("bash", command="pip install x", network=["pypi.org"])]
    harness = await build(calls, person=ann, rules=ALLOW_ALL)
    _needing(harness)

    await harness.run()

    assert len(ann.questions) == 1
    assert "Asked because it needs network to pypi.org." in ann.questions[0]
    assert harness.ran() == []


@pytest.mark.attack("W1")
async def test_a_grant_is_for_the_widening_and_not_for_the_call(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow always", "Deny")
    first = [calling("bash", command="pip install x", network=["pypi.org"])]
    second = [calling("bash", command="pip install y", network=["pypi.org"])]
    third = [calling("bash", command="curl", network=["example.org"])]
    harness = await build(first, second, third, person=ann, rules=ALLOW_ALL)
    _needing(harness)

    await harness.run()

    assert ann.options[0] == [
        "Allow once",
        "Allow network to pypi.org, this session",
        "Allow network to pypi.org, this project",
        "Deny",
    ]
    assert [each["command"] for each in harness.ran()] == [
        "pip install x",
        "pip install y",
    ]
    assert len(ann.questions) == 2
    assert "network to example.org" in ann.questions[1]
    grant = harness.broker.list()[0]
    assert (grant["widens"], grant["target"], grant["digest"]) == ("network", "pypi.org", None)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("packages", "network to the package registries"),
        ("packages (pypi.org=10.0.0.1)", "network to the package registries (pypi.org=10.0.0.1)"),
        ("packages.example", "network to packages.example"),
    ],
)
async def test_the_package_registries_are_named_in_words(
    build: Any, calling: Any, person: Any, target: str, words: str
) -> None:
    ann = person("Deny")
    harness = await build([calling("bash", command="pip", network=[target])], person=ann)
    _needing(harness)

    await harness.run()

    assert ann.options[0][1] == f"Allow {words}, this session"


async def test_the_grant_of_a_widening_allows_no_call_by_itself(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow always", "Deny")
    call = [calling("bash", command="pip install x", network=["pypi.org"])]
    other = [calling("bash", command="rm -r x", network=["pypi.org"])]
    harness = await build(call, other, person=ann)
    _needing(harness)

    await harness.run()

    assert len(ann.questions) == 2
    assert [each["command"] for each in harness.ran()] == ["pip install x"]


async def test_a_revoked_grant_is_asked_about_again(build: Any, calling: Any, person: Any) -> None:
    ann = person("Allow always", "Deny")
    call = [calling("bash", command="pip install x", network=["pypi.org"])]
    first = await build(call, person=ann, rules=ALLOW_ALL)
    _needing(first)
    await first.run()

    assert first.broker.revoke(first.broker.list()[0]["id"])
    later = await build(call, person=ann, rules=ALLOW_ALL, state=first.coordinator.session_state)
    _needing(later)
    await later.run()

    assert len(ann.questions) == 2


async def test_what_leaves_the_sandbox_is_remembered_for_exactly_this_call(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow always", "Deny")
    call = [calling("bash", command="make install", outside_sandbox=True)]
    other = [calling("bash", command="make uninstall", outside_sandbox=True)]
    harness = await build(call, call, other, person=ann, rules=ALLOW_ALL)
    _needing(harness)

    await harness.run()

    assert ann.options[0] == ["Allow once", "Allow exactly this call, this session", "Deny"]
    assert len(ann.questions) == 2
    assert [each["command"] for each in harness.ran()] == ["make install"] * 2


@pytest.mark.attack("W5")
async def test_a_tainted_widening_is_asked_about_in_spite_of_its_grant(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow always", "Deny")
    call = [calling("bash", command="pip install x", network=["pypi.org"])]
    first = await build(call, person=ann, rules=ALLOW_ALL)
    _needing(first)
    await first.run()
    later = await build(call, person=ann, rules=ALLOW_ALL, state=first.coordinator.session_state)
    _needing(later)

    def doubt(event: str, data: dict[str, Any]) -> None:
        later.coordinator.get_capability("approval.concern")(data, "a page asked for it")

    later.coordinator.hooks.register("tool:pre", doubt)

    await later.run()

    assert len(ann.questions) == 2
    assert "a page asked for it" in ann.questions[1]
    assert ann.options[1] == ["Allow once", "Deny"]
    assert later.ran() == []


async def test_a_tool_that_cannot_say_what_it_needs_is_not_run(
    build: Any, calling: Any, person: Any
) -> None:
    harness = await build(
        [calling("bash", command="x")], person=person("Allow once"), rules=ALLOW_ALL
    )

    async def fail(tool_input: Any) -> list[Widening]:
        raise RuntimeError("no name server")

    harness.tools["bash"].widenings = fail

    await harness.run()

    assert harness.ran() == []


@pytest.mark.attack("W6")
async def test_a_sub_agent_uses_the_grants_of_its_session_and_asks_for_its_own(
    build: Any, calling: Any, person: Any
) -> None:
    ann = person("Allow always", "Deny")
    harness = await build(
        [calling("bash", command="pip install x", network=["pypi.org"])],
        person=ann,
        rules=ALLOW_ALL,
    )
    _needing(harness)
    await harness.run()
    child = harness.session.fork(session_id="child")
    await child.initialize()
    tool = harness.tools["bash"]
    await child.coordinator.mount("tools", tool)
    asked: dict[str, Any] = {"tool_name": "bash", "session_id": "child", "tool_call_id": "c"}

    known = await child.coordinator.hooks.emit(
        "tool:pre", {**asked, "tool_input": {"command": "a", "network": ["pypi.org"]}}
    )
    unknown = await child.coordinator.hooks.emit(
        "tool:pre", {**asked, "tool_input": {"command": "b", "network": ["example.org"]}}
    )
    await child.cleanup()

    assert known.action == "continue"
    assert unknown.action == "deny"
    assert len(ann.questions) == 2


@pytest.mark.parametrize(
    ("opened", "target", "is_asked"),
    [
        ("network:pypi.org", "pypi.org", False),
        ("network:pypi.org", "evil.example", True),
        ("network:packages", "packages (pypi.org=10.0.0.1)", False),
        ("network:packages", "packages.example", True),
        ("write:.git", "pypi.org", True),
    ],
)
async def test_what_is_open_from_the_start_is_not_asked_about(
    build: Any, calling: Any, person: Any, opened: str, target: str, is_asked: bool
) -> None:
    ann = person("Deny")
    call = [calling("bash", command="x", network=[target])]
    harness = await build(call, person=ann, rules=ALLOW_ALL, open=[opened])
    _needing(harness)

    await harness.run()

    assert (len(ann.questions) == 1) is is_asked


@pytest.mark.parametrize("wrong", ["network", "network:", "outside_sandbox", "write:a b"])
async def test_what_cannot_be_open_is_refused(build: Any, wrong: str) -> None:
    with pytest.raises(Exception, match="hooks-approval"):
        await build(open=[wrong])


@pytest.mark.parametrize(
    ("config", "needs"),
    [
        ({"rules": ALLOW_ALL}, ["network:pypi.org"]),
        ({}, ["bash", "network:pypi.org"]),
    ],
)
async def test_without_anybody_to_ask_a_widening_is_denied_and_says_what_would_allow_it(
    build: Any, calling: Any, config: dict[str, Any], needs: list[str]
) -> None:
    harness = await build([calling("bash", "c1", command="x", network=["pypi.org"])], **config)
    _needing(harness)

    await harness.run()

    assert harness.ran() == []
    decided = harness.broker.explain("c1")
    assert (decided["by"], decided["needs"]) == ("boundary", needs)


@pytest.mark.parametrize(
    "opened", ["../data", "../project/../data/", "~/data", "{data}", "{data}/", "{data}/../data"]
)
async def test_a_path_is_open_however_it_is_spelled(
    build: Any, calling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "project"
    project.mkdir()
    named = opened.format(data=tmp_path / "data")
    config = {"open": [f"write:{named}"], "rules": ALLOW_ALL, "project": str(project)}
    harness = await build([calling("bash", command="x", write=str(tmp_path / "data"))], **config)
    _writing(harness)

    await harness.run()

    assert len(harness.ran()) == 1


@pytest.mark.parametrize(
    "opened",
    [
        "network:packges",
        "network:10.0.0.7",
        "network:localhost",
        "network:*",
        "network:Example.org",
        "write:.gti",
        "write:src",
        "write:.git,write:/srv",
        "write:/a b",
    ],
)
async def test_what_no_call_can_need_is_refused(build: Any, opened: str) -> None:
    with pytest.raises(Exception, match="open"):
        await build(open=[opened])


@pytest.mark.attack("W1")
@pytest.mark.parametrize("other", ["{data} (1)", "{data}/..", "{data}2", "{data}/inside"])
async def test_an_open_path_is_no_other_one(
    build: Any, calling: Any, tmp_path: Path, other: str
) -> None:
    data = tmp_path / "data"
    config = {"open": [f"write:{data}"], "rules": ALLOW_ALL}
    harness = await build([calling("bash", command="x", write=other.format(data=data))], **config)
    _writing(harness)

    await harness.run()

    assert harness.ran() == []


def _writing(harness: Any) -> None:
    """Let the tool say that its call needs to write to the path in `write`."""

    async def widenings(tool_input: Any) -> list[Widening]:
        return [Widening("write", tool_input["write"])]

    harness.tools["bash"].widenings = widenings
