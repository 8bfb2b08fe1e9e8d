"""The estimate of a mounted memory learns from the tokens that providers count."""

from __future__ import annotations

from amplifier_core.testing import MockCoordinator
from amplifier_module_contexts.context_simple import SimpleContextManager, mount


async def test_a_mounted_memory_fits_more_tightly_when_the_model_counts_more_tokens() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"max_tokens": 10_000, "compact_threshold": 1.0})
    context: SimpleContextManager = coordinator.get_mounted("context")
    await context.set_messages([{"role": "user", "content": "x" * 380} for _ in range(90)])
    assert len(await context.get_messages_for_request()) == 90

    await coordinator.hooks.emit("llm:response", {"usage": {"input_tokens": 17_900}})
    view = await context.get_messages_for_request()

    assert len(view) * 200 <= 10_000
    assert await context.should_compact() is True


async def test_a_compacted_view_is_made_anew_when_the_estimate_has_learned() -> None:
    context = SimpleContextManager(max_tokens=10_000)
    await context.set_messages([{"role": "user", "content": "x" * 380} for _ in range(200)])
    before = await context.get_messages_for_request()

    await context.calibration("llm:response", {"usage": {"input_tokens": 90_000}})
    after = await context.get_messages_for_request()

    assert len(after) < len(before)


async def test_the_first_estimate_is_configurable() -> None:
    messages = [{"role": "user", "content": "x" * 380} for _ in range(10)]
    context = SimpleContextManager(max_tokens=1_500, compact_threshold=1.0, chars_per_token=2.0)
    await context.set_messages(messages)

    assert len(await context.get_messages_for_request()) < 10
