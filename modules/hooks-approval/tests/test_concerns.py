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
    house = await build([calling("bash", command="curl")], person=ann, rules=[allow])
    concern = house.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> HookResult:
        concern(data, "it smells\nof \x1b[2J")
        return HookResult()

    house.coordinator.hooks.register("tool:pre", worry, priority=100)
    await house.run()

    assert "Asked because it smells\\nof \\u001b[2J." in ann.questions[0]
    assert ann.options == [["Allow once", "Deny"]]
    # An answer that was not on offer is none.
    assert house.ran() == []


async def test_a_remembered_no_is_not_asked_about_again_for_a_concern(
    build: Any, calling: Any
) -> None:
    calls = [calling("bash", command="curl")]
    house = await build(calls, calls)
    concern = house.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> HookResult:
        if house.desk.list():
            concern(data, "it smells")
        return HookResult()

    house.coordinator.hooks.register("tool:pre", worry, priority=100)
    house.coordinator.get_capability("approval.register_provider")(Client(approved=False))
    results = await house.run()

    assert len(house.told("approval:required")) == 1
    assert "grant grant-" in results[1]


async def test_what_was_not_offered_is_not_remembered(build: Any, calling: Any) -> None:
    client = Client(approved=True)
    house = await build(
        [calling("bash", command="curl"), calling("bash", command="ls")], batch_seconds=0.02
    )
    concern = house.coordinator.get_capability("approval.concern")

    async def worry(event: str, data: dict[str, Any]) -> HookResult:
        if data["tool_input"]["command"] == "curl":
            concern(data, "it smells")
        return HookResult()

    house.coordinator.hooks.register("tool:pre", worry, priority=100)
    house.coordinator.get_capability("approval.register_provider")(client)
    await house.run()

    assert len(client.requests) == 1
    assert len(house.ran()) == 2
    assert house.desk.list() == []


async def test_a_concern_is_handed_back_when_the_guard_is_gone(build: Any) -> None:
    house = await build()
    concern = house.coordinator.get_capability("approval.concern")
    before = concern({"tool_name": "bash"}, "it smells")

    await house.session.cleanup()

    assert before is True
    assert concern({"tool_name": "bash"}, "it smells") is False
