"""Tests of the names: those that are copied are those that are published."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opentelemetry.semconv.attributes import error_attributes

from amplifier_module_hooks_otel import conventions

# By name: they are published in a place that has no types and is marked as deprecated.
_PLACE = "opentelemetry.semconv._incubating"
gen_ai_attributes: Any = import_module(f"{_PLACE}.attributes.gen_ai_attributes")
gen_ai_metrics: Any = import_module(f"{_PLACE}.metrics.gen_ai_metrics")
PUBLISHED = {
    value
    for published in (gen_ai_attributes, gen_ai_metrics, error_attributes)
    for name, value in vars(published).items()
    if name.isupper() and isinstance(value, str)
}
COPIED = [
    value
    for name, value in vars(conventions).items()
    if name.isupper() and isinstance(value, str) and value.startswith(("gen_ai.", "error."))
]


def test_every_copied_name_is_published() -> None:
    assert len(COPIED) > 20
    assert [each for each in COPIED if each not in PUBLISHED] == []


def test_operations_vendors_and_token_types_are_published_values() -> None:
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    vendors = {each.value for each in gen_ai_attributes.GenAiProviderNameValues}

    used = {conventions.CHAT, conventions.EXECUTE_TOOL, conventions.INVOKE_AGENT}
    assert used <= operations
    assert set(conventions.VENDORS.values()) <= vendors
    assert {"openai", "anthropic"} <= vendors
    assert error_attributes.ErrorTypeValues.OTHER.value == conventions.UNKNOWN_ERROR


async def test_every_attribute_and_metric_is_published_or_says_that_it_is_ours(
    harness: Any,
) -> None:
    script = [harness.step(("todo", {}), cost="0.01"), harness.step(text="Done.", cost="0.02")]
    plan = harness.plan(*script, tools=[{"module": "tool-todo"}], otel={"capture_content": True})
    session = await harness.open(plan)
    await session.execute("hello")

    used = {key for span in harness.spans() for key in span.attributes}
    used |= set(harness.metrics())
    used |= {
        key for points in harness.metrics().values() for each in points for key in each.attributes
    }
    ours = {each for each in used if each.startswith("amplifier.")}
    assert "gen_ai.usage.input_tokens" in used
    assert "amplifier.module" in ours
    assert used - ours - PUBLISHED == set()
