"""Tests of what is said in spans: nothing by default, and never a secret."""

from __future__ import annotations

from typing import Any

from amplifier_core.testing import MockTool

SECRET = "sk-ant-api03-" + "Ab3" * 30


def everything(harness: Any) -> str:
    return str(
        [(span.name, dict(span.attributes), span.status.description) for span in harness.spans()]
    )


async def run(harness: Any, **config: Any) -> None:
    script = [
        harness.step(("dig", {"where": f"garden {SECRET}"})),
        harness.step(text="a pot of gold"),
    ]
    session = await harness.open(harness.plan(*script, otel=config))
    await session.coordinator.mount("tools", MockTool("dig", f"clay {SECRET} " + "x" * 50_000))
    await session.execute("dig for me")


async def test_nothing_that_was_said_is_recorded_by_default(harness: Any) -> None:
    await run(harness)

    assert len(harness.spans()) == 4
    for words in ("dig for me", "garden", "clay", "pot of gold"):
        assert words not in everything(harness)


async def test_captured_content_is_cut_and_free_of_secrets(harness: Any) -> None:
    await run(harness, capture_content=True)

    text = everything(harness)
    for words in ("dig for me", "garden", "clay", "pot of gold"):
        assert words in text
    assert SECRET not in text
    assert "[REDACTED:" in text
    (call,) = harness.spans("execute_tool")
    assert len(harness.said(call, "gen_ai.tool.call.result")) <= 8_192
