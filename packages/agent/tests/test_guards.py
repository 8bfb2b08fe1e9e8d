"""Guards and approvals: what is denied, what is asked, and who answers."""

from __future__ import annotations

import pytest

from amplifier import Agent, AgentError, Question, Session, ToolEnded
from end_to_end.shop import Deps, calls, failing_guard, lookup, only_small_orders, refund, script


async def answered(session: Session, choice: str) -> tuple[list[str], list[ToolEnded]]:
    """Run a turn and answer each question; returns the questions, and how the calls ended."""
    asked: list[str] = []
    ended: list[ToolEnded] = []
    async for event in session.stream("Refund it."):
        match event:
            case Question(prompt, _, answer):
                asked.append(prompt)
                await answer(choice)
            case ToolEnded():
                ended.append(event)
            case _:
                pass
    return asked, ended


async def test_a_tool_that_needs_approval_waits_for_an_answer() -> None:
    agent = Agent(script(calls("refund", order_id=7), "Done."), tools=[refund])

    async with agent.session() as session:
        asked, ended = await answered(session, "Allow once")

    assert asked[0].startswith("Allow refund?")
    assert ended[0].output == "refunded 7 (none)"


async def test_an_answer_may_deny() -> None:
    agent = Agent(script(calls("refund", order_id=7), "Denied."), tools=[refund])

    async with agent.session() as session:
        _, ended = await answered(session, "Deny")

    assert ended[0].output is None
    assert ended[0].error


async def test_an_answer_that_was_not_offered_is_refused() -> None:
    agent = Agent(script(calls("refund", order_id=7), "Denied."), tools=[refund])

    async with agent.session() as session:
        with pytest.raises(AgentError, match="The options are Allow once"):
            await answered(session, "Perhaps")


async def test_without_a_reader_what_needs_approval_is_not_done() -> None:
    agent = Agent(script(calls("refund", order_id=7), "Not done."), tools=[refund])

    async with agent.session() as session:
        await session.run("Refund 7.")
        messages = await session.messages()

    (result,) = [each["content"] for each in messages if each["role"] == "tool"]
    assert "Denied" in result
    assert "refunded" not in result


@pytest.mark.parametrize(
    ("order", "questions", "problem"),
    [(7, 0, None), (70, 1, None), (700, 0, "ann may refund orders up to 100.")],
)
async def test_a_guard_allows_asks_or_denies(
    order: int, questions: int, problem: str | None
) -> None:
    agent = Agent(
        script(calls("lookup", order_id=order), "Done."),
        tools=[lookup],
        deps=Deps,
        guards=[only_small_orders],
    )

    async with agent.session(deps=Deps("ann")) as session:
        asked, ended = await answered(session, "Allow once")

    assert len(asked) == questions
    assert ended[0].error == problem


async def test_a_guard_that_fails_denies() -> None:
    agent = Agent(
        script(calls("lookup", order_id=1), "Done."),
        tools=[lookup],
        deps=Deps,
        guards=[failing_guard],
    )

    async with agent.session(deps=Deps("ann")) as session:
        _, ended = await answered(session, "Allow once")

    assert ended[0].error is not None
    assert ended[0].output is None
