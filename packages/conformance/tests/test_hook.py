"""The fault suite of hooks: each rule's test fails a hook that breaks it and passes a good one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_conformance import RULES, RecommendationWarning
from amplifier_conformance import HookFaultTests as FaultTests
from amplifier_core import HookResult, MockCoordinator
from contract.broken_rules import ignore_cancellation, reported
from contract.requirements import requirement


class Suite(FaultTests):
    """The suite as a hook module's author would inherit it, in a hurry."""

    __test__ = False

    start_seconds = 0.2
    cancel_seconds = 0.5
    patience_seconds = 1.0


class Hook:
    """A handler that asks a server about each tool; `fault` names the rule it breaks."""

    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._background: list[asyncio.Task[Any]] = []

    def mount(self, coordinator: MockCoordinator) -> Callable[[], Any]:
        remove = coordinator.hooks.register("tool:post", self, name="planted")
        return remove if self._fault != "hook.cleanup" else lambda: None

    async def __call__(self, event: str, data: Any) -> Any:
        if self._fault == "hook.malformed":
            data["tool_input"].get("value")
        result = data.get("result")
        output = result.get("output") if isinstance(result, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] - anything may come
        if self._fault == "hook.large" and isinstance(output, str) and len(output) > 1_000_000:
            raise ValueError("too long")
        if self._fault == "hook.answer":
            return "fine"
        try:
            async with asyncio.timeout(60 if self._fault == "hook.slow_peer" else 0.2):
                await self._ask()
        except (OSError, TimeoutError):
            return HookResult(action="continue")
        return None

    async def _ask(self) -> None:
        reader, writer = await asyncio.open_connection("guard.test", 443)
        try:
            if self._fault == "hook.leftover":
                self._background.append(asyncio.create_task(asyncio.Event().wait()))
            if self._fault == "hook.cancel":
                await ignore_cancellation(0.9)
            else:
                await reader.read()
        finally:
            writer.close()


# The test that finds out, for each rule.
TESTS = {
    "hook.cancel": "test_a_cancelled_handler_ends",
    "hook.leftover": "test_a_cancelled_handler_ends",
    "hook.malformed": "test_malformed_data_is_survived",
    "hook.answer": "test_answers_are_understood",
    "hook.slow_peer": "test_a_slow_peer_does_not_hold_the_turn",
    "hook.large": "test_large_data_is_survived",
    "hook.cleanup": "test_the_cleanup_removes_the_handlers",
}


async def run(test: str, hook: Hook) -> None:
    coordinator = MockCoordinator()
    cleanup = hook.mount(coordinator)
    await getattr(Suite(), test)(cleanup, coordinator)


@requirement("VALID-20")
@pytest.mark.parametrize("rule", TESTS)
async def test_a_hook_that_breaks_a_rule_fails_with_its_name(rule: str) -> None:
    with reported(rule):
        await run(TESTS[rule], Hook(rule))


@requirement("VALID-20")
@pytest.mark.parametrize("test", sorted(set(TESTS.values())))
async def test_a_good_hook_keeps_every_rule(test: str) -> None:
    await run(test, Hook())


def test_every_rule_of_hooks_and_every_test_of_the_suite_is_proved() -> None:
    assert set(TESTS) == {rule for rule in RULES if rule.startswith("hook.")}
    assert set(TESTS.values()) == {name for name in dir(Suite) if name.startswith("test_")}


async def test_handlers_that_wait_for_nothing_are_not_judged_by_cancelling() -> None:
    class Quick(Hook):
        async def __call__(self, event: str, data: Any) -> Any:
            return None

    with pytest.raises(pytest.skip.Exception, match="no handler waits for anything"):
        await run(TESTS["hook.cancel"], Quick())


async def test_a_module_without_handlers_is_not_judged() -> None:
    with pytest.raises(pytest.skip.Exception, match="no handler is registered"):
        await Suite().test_answers_are_understood(None, MockCoordinator())


async def test_a_cleanup_may_be_missing_or_async() -> None:
    async def remove() -> None:
        nothing.append("removed")

    nothing: list[str] = []
    for cleanup in (None, remove):
        await Suite().test_the_cleanup_removes_the_handlers(cleanup, MockCoordinator())
    assert nothing == ["removed"]


@pytest.mark.parametrize(
    ("answer", "understood"),
    [(None, True), ({"action": "deny"}, True), ({"action": "explode"}, False), (7, False)],
)
async def test_sync_handlers_and_dicts_are_judged_like_the_kernel_does(
    answer: Any, understood: bool
) -> None:
    coordinator = MockCoordinator()
    coordinator.hooks.register("tool:pre", lambda event, data: answer)

    if understood:
        await Suite().test_answers_are_understood(None, coordinator)
    else:
        with pytest.raises(AssertionError, match=r"^Rule hook\.answer"):
            await Suite().test_answers_are_understood(None, coordinator)


async def test_a_handler_that_raises_gave_no_answer() -> None:
    async def broken(event: str, data: Any) -> None:
        raise RuntimeError("planted")

    coordinator = MockCoordinator()
    coordinator.hooks.register("tool:pre", broken)

    with pytest.raises(AssertionError, match=r"^Rule hook\.answer.*RuntimeError: planted"):
        await Suite().test_answers_are_understood(None, coordinator)


async def test_a_handler_whose_time_grows_faster_than_its_data_is_found_in_time() -> None:
    class Slow(Hook):
        async def __call__(self, event: str, data: Any) -> Any:
            # Stands for an expression that is quadratic in the length of its input.
            await asyncio.sleep((len(data["result"]["output"]) / 50_000) ** 2 * 0.3)

    class Patient(Suite):
        patience_seconds = 2.5

    coordinator = MockCoordinator()
    cleanup = Slow().mount(coordinator)
    words = r"^Rule hook\.large.*it took \d\.\d s for 50,000 characters, and more for more\.$"
    with pytest.warns(RecommendationWarning, match=words):
        await Patient().test_large_data_is_survived(cleanup, coordinator)
