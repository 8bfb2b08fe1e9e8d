"""Tests of concerns: what another hook has against a call is asked about in any case."""

from __future__ import annotations

from typing import Any

from amplifier_core.interfaces import ApprovalRequest, ApprovalResponse
from amplifier_core.models import HookResult


class Client:
    """An approval provider whose one answer is to be remembered."""

    def __init__(self, *, approved: bool) -> None:
        self.approved = approved
        self.requests: list[ApprovalRequest] = []

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        self.requests.append(request)
        return ApprovalResponse(approved=self.approved, remember=True)


async def test_a_concern_is_asked_about_whatever_the_rules_say(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow always")
    allow = {"tool": "*", "action": "allow"}
    harness = await build([calling("bash", command="curl")], person=ann, rules=[allow])
    concern = harness.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> HookResult:
        concern(data, "it smells\nof \x1b[2J")
        return HookResult()

    harness.coordinator.hooks.register("tool:pre", worry, priority=100)
    await harness.run()

    assert "Asked because it smells\\nof \\u001b[2J." in ann.questions[0]
    assert ann.options == [["Allow once", "Deny"]]
    # An answer that was not on offer is none.
    assert harness.ran() == []


async def test_a_remembered_no_is_not_asked_about_again_for_a_concern(
    build: Any, calling: Any
) -> None:
    calls = [calling("bash", command="curl")]
    harness = await build(calls, calls)
    concern = harness.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> HookResult:
        if harness.broker.list():
            concern(data, "it smells")
        return HookResult()

    harness.coordinator.hooks.register("tool:pre", worry, priority=100)
    harness.coordinator.get_capability("approval.register_provider")(Client(approved=False))
    results = await harness.run()

    assert len(harness.told("approval:required")) == 1
    assert "grant grant-" in results[1]


async def test_what_was_not_offered_is_not_remembered(build: Any, calling: Any) -> None:
    client = Client(approved=True)
    harness = await build(
        [calling("bash", command="curl"), calling("bash", command="ls")], batch_seconds=0.02
    )
    concern = harness.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> HookResult:
        if data["tool_input"]["command"] == "curl":
            concern(data, "it smells")
        return HookResult()

    harness.coordinator.hooks.register("tool:pre", worry, priority=100)
    harness.coordinator.get_capability("approval.register_provider")(client)
    await harness.run()

    assert len(client.requests) == 1
    assert len(harness.ran()) == 2
    assert harness.broker.list() == []


async def test_a_concern_is_handed_back_when_the_guard_is_gone(build: Any) -> None:
    harness = await build()
    concern = harness.coordinator.get_capability("approval.concern")
    before = concern({"tool_name": "bash"}, "it smells")

    await harness.session.cleanup()

    assert before is True
    assert concern({"tool_name": "bash"}, "it smells") is False
