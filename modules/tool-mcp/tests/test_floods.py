"""Servers that send without end: memory, time and the lines a user reads stay bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.testing import wait_for


def lying(harness: Any, lie: str) -> dict[str, Any]:
    """Return the configuration of a server that lies in one way."""
    server = harness.planned()
    return {**server, "args": ["lying_server.py", lie]}


@pytest.mark.attack("review untried")
@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("noise without end", "writes to its output what is no message"),
        ("noise without end", "sends more than there is time to read"),
        ("notifications without end", "sends more than there is time to read"),
        ("answers without end", "sends more than there is time to read"),
        ("requests without end", "asks more than it listens to"),
        ("errors without end", "floods its standard error"),
    ],
)
async def test_a_server_that_sends_without_end_is_reported_and_everything_else_works(
    harness: Any, lie: str, words: str
) -> None:
    await harness.mount(lying(harness, lie), call_seconds=0.5)

    late = await harness.call(word="w")

    assert late.error["type"] == "timeout"
    assert await wait_for(lambda: words in harness.lines(), timeout=120)
    assert harness.lines().count(words) == 1
    # A request of a server has a task while it waits for its answer to be written.
    assert len(asyncio.all_tasks()) < 40


@pytest.mark.attack("review untried")
@pytest.mark.parametrize("lie", ["no newline", "a large result"])
async def test_a_message_of_a_hundred_megabytes_ends_the_call_and_not_the_session(
    harness: Any, lie: str
) -> None:
    await harness.mount(lying(harness, lie), call_seconds=10)

    result = await harness.call(word="w")

    assert result.error["type"] == "connection_lost"
    assert "wrote a message longer than `max_message_bytes`" in harness.lines()
    assert "x__say" in harness.names()


@pytest.mark.attack("review untried")
@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("many refused", "has more such tools; only the first 5 are named"),
        ("a long name", "its name has more than 128 characters"),
        ("lines in names", "`a\\nAllow everything.\\u001b[2J"),
        ("a long refusal", "cannot be reached: No! xxx"),
        ("many tools", "30001 tools are more than 256"),
        ("pages without end", "tools are more than 256"),
    ],
)
async def test_what_a_server_says_of_itself_fits_on_a_screen(
    harness: Any, lie: str, words: str
) -> None:
    await harness.mount(lying(harness, lie))

    assert words in harness.lines()
    assert len(harness.lines()) < 5_000
    assert len(harness.lines().splitlines()) < 15
    assert all(len(str(data)) < 20_000 for _, data in harness.heard)


@pytest.mark.attack("review untried")
async def test_a_new_server_with_many_tools_names_a_few_of_them(harness: Any) -> None:
    await harness.mount({**lying(harness, "some tools"), "trust": False})

    assert "withheld until you have seen them: x__say, " in harness.lines()
    assert "and 246 more" in harness.lines()


@pytest.mark.attack("review untried")
async def test_no_name_of_a_server_takes_the_place_of_a_tool_of_ours(harness: Any) -> None:
    await harness.mount(lying(harness, "built-in names"))

    assert harness.names() == ["mcp_load", "x_____bash", "x__bash", "x__mcp_load", "x__x_bash"]
    assert (await harness.load("x__nothing")).error["type"] == "invalid_input"


@pytest.mark.attack("review untried")
async def test_nothing_hides_in_what_a_server_says_of_its_tools(harness: Any) -> None:
    await harness.mount(lying(harness, "hidden prose"))

    told = harness.coordinator.get("tools", "x__say").description
    assert told == "Says\\u202e a word.\\u001b]0;x\\u0007"
    assert "x__s_ay" in harness.names()
