"""Tests of questions: what is asked, together with what, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.interfaces import ApprovalRequest, ApprovalResponse
from amplifier_core.models import HookResult
from amplifier_core.testing import wait_for


class Client:
    """An approval provider that answers when it is told to."""

    def __init__(self, response: Any = None) -> None:
        self.requests: list[ApprovalRequest] = []
        self.response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cancelled = False
        if response is not None:
            self.response.set_result(response)

    async def request_approval(self, request: ApprovalRequest) -> Any:
        self.requests.append(request)
        try:
            return await asyncio.shield(self.response)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def register(harness: Any, client: Client) -> Any:
    return harness.coordinator.get_capability("approval.register_provider")(client)


@pytest.mark.parametrize("answer", ["Allow", "Allow once", "allow"])
async def test_a_clear_yes_runs_the_call(
    build: Any, person: Any, calling: Any, answer: str
) -> None:
    ann = person(answer)
    harness = await build([calling("bash", "c1", command="ls")], person=ann)

    await harness.run()

    assert harness.ran() == [{"command": "ls"}]
    required, granted = harness.told("approval:required")[0], harness.told("approval:granted")[0]
    assert required["request_id"] == granted["request_id"]
    assert granted["tool_call_id"] == "c1"
    assert harness.broker.explain("c1")["rule"] == "allowed by the user"


@pytest.mark.parametrize("answer", ["Deny", "maybe", "", None, 1, RuntimeError("planted")])
async def test_anything_else_is_a_no(build: Any, person: Any, calling: Any, answer: Any) -> None:
    harness = await build([calling("bash", command="ls")], person=person(answer))

    results = await harness.run()

    assert harness.ran() == []
    assert results[0].startswith("Denied by hook: hooks-approval: ")
    assert len(harness.told("approval:denied")) == 1


@pytest.mark.attack("H2")
@pytest.mark.parametrize("priority", [-1_000, 0, 1_000])
async def test_what_a_hook_made_of_a_call_is_what_is_asked_and_run(
    build: Any, person: Any, calling: Any, priority: int
) -> None:
    ann = person("Allow")
    harness = await build([calling("bash", command="innocent")], person=ann)

    async def edit(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"command": "edited"}})

    harness.coordinator.hooks.register("tool:pre", edit, priority=priority)
    await harness.run()

    assert "command: edited" in ann.questions[0]
    assert "innocent" not in ann.questions[0]
    assert harness.ran() == [{"command": "edited"}]


async def test_what_another_hook_denies_is_not_asked_about(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    harness = await build([calling("bash")], person=ann)

    async def deny(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="deny", reason="no")

    harness.coordinator.hooks.register("tool:pre", deny, priority=500)
    await harness.run()

    assert ann.questions == []


async def test_calls_of_one_step_and_risk_are_asked_about_together(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    calls = [calling("bash", command=f"make {n}") for n in range(3)]
    harness = await build([*calls, calling("write", path="a")], person=ann, batch_seconds=0.02)

    await harness.run()

    asked = sorted(ann.questions)
    assert len(asked) == 2
    assert asked[0].startswith("Allow these 3 calls?")
    assert [f"command: make {n}" in asked[0] for n in range(3)] == [True] * 3
    assert asked[1].startswith("Allow write?")
    assert len(harness.ran()) == 3
    assert len(harness.told("approval:granted")) == 4


@pytest.mark.attack("review M2")
async def test_at_most_ten_calls_are_behind_one_answer(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    calls = [calling("bash", command=f"make {n}") for n in range(25)]
    harness = await build(calls, person=ann, batch_seconds=0.02)

    await harness.run()

    assert [each.count("command:") for each in ann.questions] == [10, 10, 5]
    assert len(harness.ran()) == 25


@pytest.mark.attack("review M2")
async def test_long_calls_are_asked_about_alone(build: Any, person: Any, calling: Any) -> None:
    ann = person("Allow")
    calls = [calling("bash", command="x" * 3_000) for _ in range(3)]
    harness = await build(calls, person=ann, batch_seconds=0.02)

    await harness.run()

    assert [each.count("command:") for each in ann.questions] == [1, 1, 1]


@pytest.mark.attack("review M2")
async def test_calls_of_one_question_can_be_answered_one_by_one(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("One by one", "Allow once", "Deny", "Allow always", "Deny")
    calls = [calling("bash", f"c{n}", command=f"make {n}") for n in range(3)]
    harness = await build(calls, [calls[2], calls[1]], person=ann, batch_seconds=0.02)

    await harness.run()

    lasting = [f"Allow exactly this call, this {reach}" for reach in ("session", "project")]
    assert ann.options[0] == ["Allow once", *lasting, "One by one", "Deny"]
    assert ann.options[1] == ["Allow once", *lasting, "Deny"]
    assert len(ann.questions) == 5
    assert harness.ran() == [{"command": "make 0"}, {"command": "make 2"}, {"command": "make 2"}]


async def test_one_by_one_is_not_an_answer_to_a_question_about_one_call(
    build: Any, person: Any, calling: Any
) -> None:
    harness = await build([calling("bash", command="ls")], person=person("One by one"))

    await harness.run()

    assert harness.ran() == []


async def test_an_answer_is_not_used_for_the_same_id_again(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow", "Deny")
    again = [calling("bash", "c1", command="pay")]
    harness = await build(again, again, person=ann)

    await harness.run()

    assert len(ann.questions) == 2
    assert harness.ran() == [{"command": "pay"}]


async def test_each_of_two_questions_gets_its_own_answer(
    build: Any, person: Any, calling: Any
) -> None:
    harness = await build(
        [calling("bash", "b", command="x"), calling("write", "w", path="y")], person=None
    )
    client = Client(None)

    async def answer(request: ApprovalRequest) -> ApprovalResponse:
        return ApprovalResponse(approved=request.tool_name == "write", reason="only writing")

    client.request_approval = answer
    register(harness, client)
    results = await harness.run()

    assert harness.ran("bash") == []
    assert harness.ran("write") == [{"path": "y"}]
    assert "only writing" in results[0]


async def test_a_registered_provider_is_asked_instead_of_the_app(
    build: Any, person: Any, calling: Any
) -> None:
    ann, client = person("Deny"), Client(ApprovalResponse(approved=True))
    harness = await build([calling("bash", "c1", command="ls")], person=ann, timeout_seconds=60)

    register(harness, client)
    await harness.run()

    request = client.requests[0]
    assert harness.ran() == [{"command": "ls"}]
    assert ann.questions == []
    assert (request.tool_name, request.risk_level, request.timeout) == ("bash", "unsafe", 60)
    assert request.details["calls"][0]["tool_call_id"] == "c1"
    assert request.details["calls"][0]["arguments"] == '{"command": "ls"}'


async def test_a_provider_can_be_taken_back(build: Any, person: Any, calling: Any) -> None:
    client = Client(ApprovalResponse(approved=True))
    harness = await build([calling("bash")], person=person("Deny"))

    register(harness, client)()
    await harness.run()

    assert client.requests == []
    assert harness.ran() == []


@pytest.mark.parametrize("response", ["yes", {"approved": True}, None, 1])
async def test_a_provider_that_answers_rubbish_denies(
    build: Any, calling: Any, response: Any
) -> None:
    harness = await build([calling("bash")])
    client = Client()
    client.response.set_result(response)

    register(harness, client)
    results = await harness.run()

    assert harness.ran() == []
    assert "asking for approval failed" in results[0]
    assert any("asking for approval failed" in line for line in harness.screen.lines)


@pytest.mark.attack("H3")
@pytest.mark.parametrize("first_says", [True, False])
async def test_of_two_clients_the_first_answer_counts(
    build: Any, calling: Any, first_says: bool
) -> None:
    harness = await build([calling("bash", "c1")])
    one, other = Client(), Client()
    register(harness, one)
    register(harness, other)

    async with asyncio.timeout(120):
        turn = asyncio.create_task(harness.run())
        assert await wait_for(lambda: bool(one.requests and other.requests), timeout=120)
        one.response.set_result(ApprovalResponse(approved=first_says))
        await turn
    other.response.set_result(ApprovalResponse(approved=not first_says))

    assert len(harness.ran()) == first_says
    assert other.cancelled
    assert len(harness.told("approval:granted") + harness.told("approval:denied")) == 1


@pytest.mark.attack("H3")
async def test_a_question_is_answered_once(build: Any, person: Any, calling: Any) -> None:
    ann = person("Allow")
    ann.gate.clear()
    harness = await build([calling("bash", "c1")], person=ann)

    async with asyncio.timeout(120):
        turn = asyncio.create_task(harness.run())
        assert await wait_for(lambda: bool(ann.questions), timeout=120)
        question = harness.broker.waiting()[0]
        assert harness.broker.answer(question["id"], False, who="bob") is True
        assert harness.broker.answer(question["id"], True) is False
        ann.gate.set()
        await turn

    assert harness.ran() == []
    assert harness.broker.waiting() == []
    assert harness.broker.answer(question["id"], True) is False
    assert harness.broker.explain("c1")["rule"] == "denied by bob"


@pytest.mark.attack("H3")
async def test_an_answer_after_the_time_is_over_changes_nothing(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.gate.clear()
    harness = await build([calling("bash", "c1")], person=ann, timeout_seconds=0.02)

    results = await harness.run()
    ann.gate.set()
    await asyncio.sleep(0)

    assert harness.ran() == []
    assert "nobody answered within 0.02 s" in results[0]
    assert any("nobody answered" in line for line in harness.screen.lines)


async def test_an_app_that_gives_up_waiting_denies(build: Any, person: Any, calling: Any) -> None:
    harness = await build([calling("bash")], person=person(ApprovalTimeoutError()))

    results = await harness.run()

    assert harness.ran() == []
    assert "nobody answered" in results[0]


@pytest.mark.attack("H3")
@pytest.mark.parametrize("immediate", [True, False])
async def test_a_call_never_runs_when_the_session_was_cancelled_meanwhile(
    build: Any, person: Any, calling: Any, immediate: bool
) -> None:
    ann = person("Allow")
    ann.gate.clear()
    harness = await build([calling("bash", "c1")], person=ann)

    async with asyncio.timeout(120):
        turn = asyncio.create_task(harness.session.execute("go"))
        assert await wait_for(lambda: bool(ann.questions), timeout=120)
        await harness.coordinator.request_cancel(immediate)
        if not immediate:
            ann.gate.set()
        await turn
        ann.gate.set()
        assert await wait_for(lambda: not harness.broker.waiting(), timeout=120)

    assert harness.ran() == []


async def test_one_of_several_calls_that_is_cancelled_does_not_take_the_others_along(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Allow")
    ann.gate.clear()
    harness = await build(person=ann, batch_seconds=0.01)
    hooks = harness.coordinator.hooks

    def ask(call_id: str) -> asyncio.Task[HookResult]:
        facts = {"tool_name": "bash", "tool_call_id": call_id, "parallel_group_id": "g"}
        return asyncio.create_task(hooks.emit("tool:pre", facts))

    async with asyncio.timeout(120):
        first, second = ask("1"), ask("2")
        assert await wait_for(lambda: bool(ann.questions), timeout=120)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        ann.gate.set()
        answer = await second

    assert answer.action == "continue"


@pytest.mark.attack("H1")
async def test_a_client_that_does_not_let_go_does_not_hold_the_call(
    build: Any, calling: Any
) -> None:
    harness = await build([calling("bash")], timeout_seconds=0.02)
    gate, left = asyncio.Event(), asyncio.Event()

    class Stubborn:
        async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    continue
            left.set()
            return ApprovalResponse(approved=True)

    harness.coordinator.get_capability("approval.register_provider")(Stubborn())
    results = await harness.run()
    gate.set()
    async with asyncio.timeout(120):
        await left.wait()

    assert harness.ran() == []
    assert "nobody answered" in results[0]
