"""Contract of the cancellation token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import CancellationState, CancellationToken
from contract.doubles import raising
from contract.requirements import requirement


@requirement("CANC-1")
def test_the_three_states_are_words_and_members_of_the_enum() -> None:
    token = CancellationToken()
    seen: list[Any] = [token.state]
    token.request_graceful()
    seen.append(token.state)
    token.request_immediate()
    seen.append(token.state)

    assert seen == ["none", "graceful", "immediate"]
    assert seen == list(CancellationState)
    assert [str(state) for state in seen] == ["none", "graceful", "immediate"]
    assert [state.value for state in CancellationState] == ["none", "graceful", "immediate"]


@requirement("CANC-2", "CANC-3", "CANC-5")
def test_a_state_only_moves_forward_and_says_so() -> None:
    token = CancellationToken()

    def flags() -> tuple[bool, bool, bool]:
        return token.is_cancelled, token.is_graceful, token.is_immediate

    assert flags() == (False, False, False)
    assert token.request_graceful() is True
    assert token.request_graceful() is False
    assert flags() == (True, True, False)
    assert token.request_immediate() is True
    assert token.request_immediate() is False
    assert token.request_graceful() is False
    assert flags() == (True, False, True)
    assert CancellationToken().request_immediate() is True


@requirement("CANC-4")
def test_requesting_cancellation_is_a_graceful_request() -> None:
    token = CancellationToken()
    request: Any = token.request_cancellation

    assert request() is None
    assert token.is_graceful


@requirement("CANC-7")
def test_running_tools_are_tracked_by_call() -> None:
    token = CancellationToken()
    token.register_tool_start("call_1", "bash")
    token.register_tool_start("call_2", "bash")
    token.register_tool_complete("unknown")

    assert token.running_tools == {"call_1", "call_2"}
    assert token.running_tool_names == ["bash", "bash"]
    token.running_tools.clear()
    token.running_tool_names.clear()
    token.register_tool_complete("call_1")
    assert token.running_tools == {"call_2"}
    assert token.running_tool_names == ["bash"]


@requirement("CANC-6", "CANC-8", "CANC-9")
def test_children_follow_their_parent_and_not_the_other_way_round() -> None:
    parent, early, late, gone = (CancellationToken() for _ in range(4))
    parent.register_child(early)
    parent.register_child(gone)
    early.request_graceful()
    assert not parent.is_cancelled

    parent.request_graceful()
    parent.unregister_child(gone)
    parent.register_child(late)
    assert late.is_graceful
    parent.request_immediate()
    assert (early.is_immediate, late.is_immediate, gone.is_graceful) == (True, True, True)

    parent.register_tool_start("call_1", "bash")
    parent.reset()
    assert (parent.state, parent.running_tools) == ("none", set())
    assert early.is_immediate
    early.reset()
    parent.request_graceful()
    assert early.is_graceful


@requirement("CANC-6", "CANC-10")
async def test_callbacks_run_in_order_each_time_they_are_triggered() -> None:
    token = CancellationToken()
    order: list[str] = []

    async def asynchronous() -> None:
        order.append("async")

    token.on_cancel(lambda: order.append("plain"))
    token.on_cancel(asynchronous)
    token.request_immediate()
    assert order == []

    await token.trigger_callbacks()
    token.reset()
    await token.trigger_callbacks()

    assert order == ["plain", "async"] * 2


@requirement("CANC-11")
@pytest.mark.parametrize("error", [RuntimeError("boom"), asyncio.CancelledError()])
async def test_a_failing_callback_does_not_stop_the_others(error: BaseException) -> None:
    token = CancellationToken()
    order: list[str] = []
    token.on_cancel(raising(error))
    token.on_cancel(lambda: order.append("ran"))

    async with asyncio.timeout(120):
        await token.trigger_callbacks()

    assert order == ["ran"]


@requirement("CANC-11")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_must_end_the_program_is_raised_after_all_callbacks(
    error: type[BaseException],
) -> None:
    token = CancellationToken()
    order: list[str] = []

    def fatal() -> None:
        raise error

    token.on_cancel(fatal)
    token.on_cancel(lambda: order.append("ran"))

    with pytest.raises(error):
        await token.trigger_callbacks()

    assert order == ["ran"]
