"""Tests of requests that fit the model's window, or are made to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ChatRequest, ContextLengthError
from amplifier_core.message_models import Message, TextBlock, ToolSpec
from amplifier_core.testing import MockTool
from amplifier_kit.tokens import Window, window_of
from amplifier_module_loops.requests import RequestCache, Sizes
from contract.doubles import Display
from contract.installer import ScriptedProvider
from contract.turns import Turn, calls, loop


class Memory:
    """A memory that keeps the newest messages, a word being a token; it never cuts below two."""

    def __init__(self, count: int = 100, least: int = 2) -> None:
        self.messages = [{"role": "user", "content": "word" * 10} for _ in range(count)]
        self.least = least
        self.asked: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def get_messages_for_request(self, **asked: Any) -> list[dict[str, Any]]:
        self.asked.append(asked)
        budget = asked.get("token_budget")
        kept = len(self.messages) if budget is None else max(self.least, budget // 14)
        return self.messages[-kept:]


def turn_on(loop: Any, memory: Any, *answers: Any, tools: Any = (), **defaults: Any) -> Turn:
    turn = Turn(loop, tools=tools)
    turn.context = memory
    turn.provider = ScriptedProvider(*answers, **defaults)
    turn.coordinator.display_system = Display()
    for event in ("context:overflow", "context:uncounted"):
        turn.hooks.register(event, turn.heard)
    return turn


async def test_the_budget_is_the_window_without_answer_margin_and_tools() -> None:
    memory, tool = Memory(), MockTool("t", description="d" * 400)
    defaults = {"context_window": 10_000, "max_output_tokens": 2_000}
    turn = turn_on(await loop(), memory, "Done.", tools=[tool], **defaults)

    await turn.run()

    (asked,) = memory.asked
    assert asked["provider"] is turn.provider
    assert 10_000 - 2_000 - 1_000 - 140 < asked["token_budget"] < 10_000 - 2_000 - 1_000 - 100


@pytest.mark.parametrize("window", [None, 0, -1, "big", 1.5])
async def test_without_a_window_the_memory_decides_as_it_likes(window: Any) -> None:
    memory = Memory()
    turn = turn_on(await loop(), memory, "Done.", context_window=window, max_output_tokens=10)

    await turn.run()

    assert memory.asked == [{"provider": turn.provider}]


class SeedMemory(Memory):
    """A memory written to the seed, which knows no provider."""

    async def get_messages_for_request(  # pyright: ignore[reportIncompatibleMethodOverride] - the seed's signature
        self, token_budget: int | None = None
    ) -> list[dict[str, Any]]:
        return await super().get_messages_for_request(token_budget=token_budget)


@pytest.mark.parametrize("defaults", [{}, {"context_window": 100_000}])
async def test_a_memory_that_takes_no_provider_is_not_given_one(defaults: dict[str, Any]) -> None:
    turn = turn_on(await loop(), SeedMemory(), "Done.", **defaults)

    assert await turn.run() == "Done."


def too_long() -> ContextLengthError:
    return ContextLengthError("too long", status_code=413)


@pytest.mark.parametrize("defaults", [{}, {"context_window": 100_000}])
async def test_a_request_that_is_too_long_is_followed_by_a_shorter_one(
    defaults: dict[str, Any],
) -> None:
    turn = turn_on(await loop(), Memory(), too_long(), too_long(), "Done.", **defaults)

    assert await turn.run() == "Done."

    lengths = [len(request.messages) for request in turn.provider.requests]
    assert lengths == sorted(set(lengths), reverse=True)
    told = turn.told("context:overflow")
    assert [data["provider"] for data in told] == ["test", "test"]
    assert told[0]["new_budget"] < told[0]["attempted_tokens"]
    assert told[1]["new_budget"] < told[0]["new_budget"]
    assert "too long" in turn.coordinator.display_system.shown[0][0]
    assert turn.told("provider:error") == []


async def test_what_fitted_is_the_budget_of_the_next_request_too() -> None:
    memory = Memory()
    turn = turn_on(await loop(), memory, too_long(), "Done.", "Again.")

    await turn.run()
    await turn.run()

    assert memory.asked[-1]["token_budget"] == memory.asked[-2]["token_budget"]
    assert len(turn.provider.requests) == 3


@pytest.mark.parametrize("window", [None, 100_000])
async def test_what_fitted_holds_for_another_provider_of_the_same_name_and_window(
    window: int | None,
) -> None:
    memory = Memory()
    turn = turn_on(await loop(), memory, too_long(), "Done.")
    await turn.run()
    fitted = memory.asked[-1]["token_budget"]

    turn.provider = ScriptedProvider("Again.", context_window=window)
    await turn.run()

    assert (memory.asked[-1]["token_budget"] == fitted) is (window is None)


async def test_shrinking_ends_after_three_times_with_the_providers_error() -> None:
    errors = [too_long() for _ in range(9)]
    turn = turn_on(await loop(), Memory(1_000), *errors)

    with pytest.raises(ContextLengthError) as caught:
        await turn.run()

    assert caught.value is errors[3]
    assert len(turn.provider.requests) == 4
    assert len(turn.told("provider:error")) == 1


async def test_a_request_that_cannot_get_shorter_is_not_sent_again() -> None:
    error = too_long()
    turn = turn_on(await loop(), Memory(least=1_000), error, "Never.")

    with pytest.raises(ContextLengthError) as caught:
        await turn.run()

    assert caught.value is error
    assert len(turn.provider.requests) == 1


async def test_what_hooks_inject_is_in_the_shorter_request_too() -> None:
    turn = turn_on(await loop(max_iterations=0), Memory(), too_long(), "Done.")

    await turn.run()

    first, second = (request.messages[-1].content for request in turn.provider.requests)
    assert first == second
    assert "step limit" in str(first)


class Counting(ScriptedProvider):
    """A provider that counts: a message has so many tokens; 0 when it cannot be reached."""

    def __init__(self, *answers: Any, per_message: int, **defaults: Any) -> None:
        super().__init__(*answers, **defaults)
        self.per_message = per_message

    async def count_tokens(self, request: ChatRequest) -> int:
        if not self.per_message:
            raise ConnectionError("no route")
        return len(request.messages) * self.per_message


def counting_turn(loop: Any, memory: Memory, per_message: int, window: int) -> Turn:
    turn = turn_on(loop, memory)
    defaults = {"context_window": window, "max_output_tokens": 100}
    turn.provider = Counting("Done.", per_message=per_message, **defaults)
    return turn


async def test_a_request_that_is_surely_small_is_not_counted() -> None:
    turn = counting_turn(await loop(), Memory(), 0, 100_000)

    assert await turn.run() == "Done."

    assert turn.told("context:uncounted") == []


@pytest.mark.parametrize(("per_message", "is_sent_whole"), [(14, True), (40, False)])
async def test_a_large_request_is_counted_and_shrunk_before_it_is_sent(
    per_message: int, is_sent_whole: bool
) -> None:
    turn = counting_turn(await loop(), memory := Memory(150), per_message, 3_300)

    assert await turn.run() == "Done."

    (request,) = turn.provider.requests
    assert len(request.messages) * per_message <= 3_200
    assert (len(request.messages) == len(memory.messages) - 1) is is_sent_whole
    assert bool(turn.told("context:overflow")) is not is_sent_whole


async def test_a_request_that_is_too_large_by_count_is_never_sent() -> None:
    turn = counting_turn(await loop(), Memory(150, least=1_000), 40, 3_300)

    with pytest.raises(ContextLengthError, match="was not sent"):
        await turn.run()

    assert turn.provider.requests == []
    assert len(turn.told("provider:error")) == 1


async def test_a_request_that_cannot_be_counted_is_sent_by_estimate_and_told_of() -> None:
    turn = counting_turn(await loop(), Memory(150), 0, 3_300)

    assert await turn.run() == "Done."

    (told,) = turn.told("context:uncounted")
    assert told["error"] == {"type": "ConnectionError", "msg": "no route"}
    assert "could not count" in turn.coordinator.display_system.shown[0][0]


def test_a_provider_that_cannot_describe_itself_has_no_known_window(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert window_of(object()) is None
    assert "did not describe itself" in caplog.text


def test_a_reserve_that_makes_no_sense_is_none() -> None:
    provider = ScriptedProvider(context_window=1_000, max_output_tokens=2_000)

    assert window_of(provider) == Window(1_000, 0)
    assert Window(1_000, 0).budget(tools=5_000) == 1


def test_an_estimate_of_a_list_that_grew_or_changed_is_that_of_a_new_list() -> None:
    sizes = Sizes()
    messages = [Message(role="user", content="x" * 400)]
    blocks = Message(role="assistant", content=[TextBlock(text="y" * 400)])

    for now in ([*messages], [*messages, blocks], [blocks, *messages], [], [blocks]):
        assert sizes.tokens(now) == Sizes().tokens(now)
    assert Sizes().tokens(messages) == 104


def test_tools_are_estimated_anew_when_they_change() -> None:
    sizes = Sizes()
    small, large = ToolSpec(name="a", parameters={}), ToolSpec(name="b" * 4_000, parameters={})

    assert sizes.tokens_of_tools([small]) < 20
    assert sizes.tokens_of_tools([small, large]) > 1_000
    assert sizes.tokens_of_tools([small]) < 20


async def test_a_tool_call_in_a_long_turn_keeps_its_result() -> None:
    turn = turn_on(await loop(), Memory(), calls("t"), "Done.", tools=[MockTool("t")])

    assert await turn.run() == "Done."
    assert turn.results == ["Success"]


def test_a_memory_whose_signature_cannot_be_read_is_given_the_provider() -> None:
    class Unreadable:
        __signature__ = "as a mock of older Pythons has it"

        def __call__(self, **options: Any) -> None: ...

    context = SimpleNamespace(get_messages_for_request=Unreadable())

    assert RequestCache().takes_provider(context)
