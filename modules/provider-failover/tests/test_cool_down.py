"""Who failed rests, and takes its place again when it works."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import LLMError

DOWN = {"script": [{"error": "NetworkError"}], "after_script": "repeat"}


def fails_once(text: str, **error: Any) -> dict[str, Any]:
    failure = {"error": {"type": "RateLimitError", **error}}
    return {"script": [failure, text], "after_script": "repeat"}


def says(text: str) -> dict[str, Any]:
    return {"script": [text], "after_script": "repeat"}


async def test_who_failed_is_not_asked_while_it_rests(build: Any) -> None:
    harness = await build({"north": fails_once("North."), "south": says("South.")})

    assert await harness.session.execute("One") == "South."
    harness.clock.now += 299
    assert await harness.session.execute("Two") == "South."

    assert len(harness.recorder.get_events("provider:failover")) == 1


async def test_who_has_rested_and_works_again_is_announced(build: Any) -> None:
    harness = await build({"north": fails_once("North."), "south": says("South.")})
    await harness.session.execute("One")
    harness.clock.now += 300

    assert await harness.session.execute("Two") == "North."
    assert await harness.session.execute("Three") == "North."

    assert harness.announced("provider:failover_recovered", "provider") == [{"provider": "north"}]
    assert harness.screen.lines[1:] == [
        "provider-failover info: north works again; continuing with it"
    ]


async def test_who_fails_again_rests_again(build: Any) -> None:
    harness = await build({"north": DOWN, "south": says("South.")}, cool_down_seconds=10)
    await harness.session.execute("One")
    harness.clock.now += 10

    assert await harness.session.execute("Two") == "South."

    assert len(harness.recorder.get_events("provider:failover")) == 2
    assert harness.recorder.get_events("provider:failover_recovered") == []


@pytest.mark.parametrize(("asked", "rests"), [(30.0, 300.0), (900.0, 900.0)])
async def test_a_rest_lasts_as_long_as_the_vendor_asks_for(
    build: Any, asked: float, rests: float
) -> None:
    harness = await build(
        {"north": fails_once("North.", retry_after=asked), "south": says("South.")}
    )
    await harness.session.execute("One")

    harness.clock.now += rests - 1
    assert await harness.session.execute("Two") == "South."
    harness.clock.now += 1
    assert await harness.session.execute("Three") == "North."

    switches = harness.announced("provider:failover", "cool_down_seconds")
    assert switches == [{"cool_down_seconds": rests}]


async def test_a_short_rest_is_shown_in_seconds(build: Any) -> None:
    harness = await build({"north": DOWN, "south": says("South.")}, cool_down_seconds=45)

    await harness.session.execute("One")

    assert harness.screen.lines[0].endswith("continuing with south for 45 s")


async def test_who_rests_is_asked_when_nobody_else_is_left(build: Any) -> None:
    """South breaks down while north rests; north works again by then."""
    south = {"script": ["South.", {"error": "NetworkError"}]}
    harness = await build({"north": fails_once("North."), "south": south})
    await harness.session.execute("One")

    assert await harness.session.execute("Two") == "North."


async def test_when_all_rest_the_first_to_have_rested_is_asked_first(build: Any) -> None:
    harness = await build(
        {
            "north": fails_once("North.", retry_after=900),
            "south": fails_once("South.", retry_after=600),
        }
    )
    with pytest.raises(LLMError):
        await harness.session.execute("One")

    assert await harness.session.execute("Two") == "South."
    assert harness.announced("provider:failover_recovered", "provider") == [{"provider": "south"}]


async def test_each_session_has_its_own_memory_of_failures(build: Any) -> None:
    members = {"north": fails_once("North."), "south": says("South.")}
    one, other = await build(members), await build({**members, "north": says("North.")})

    assert await one.session.execute("Hello") == "South."
    assert await other.session.execute("Hello") == "North."
