"""Calls to servers that behave: over pipes and HTTP, and back as results."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_module_tool_mcp import mount

PIXEL = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


async def test_a_tool_is_called_and_its_answer_is_marked_untrusted(harness: Any) -> None:
    await harness.mount()

    result = await harness.call(word="hello")

    assert result.success
    assert result.output == {"server": "x", "trusted": False, "text": '{"word": "hello"}'}
    assert harness.names() == ["mcp_load", "x__say"]
    assert harness.coordinator.get("tools", "x__say").description == "Says a word."
    assert harness.events("mcp:connected")[0]["tools"] == ["x__say"]


async def test_wrong_arguments_never_reach_the_server(harness: Any) -> None:
    harness.plan(does={"say": "die"})
    await harness.mount()

    result = await harness.call(word=7)

    assert result.error["type"] == "invalid_input"
    assert result.error["message"].startswith('word: 7 is not of type "string"')
    assert not (harness.workspace / "died").exists()


@pytest.mark.parametrize("given", [None, [], "text", {"word": object()}])
async def test_input_that_is_no_json_object_is_answered(harness: Any, given: Any) -> None:
    await harness.mount()

    result = await harness.coordinator.get("tools", "x__say").execute(given)

    assert result.error["type"] == "invalid_input"


async def test_structured_answers_and_pictures_arrive(harness: Any) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/gif"}
    harness.plan(
        tools=[
            harness.tool("draw"),
            harness.tool("count"),
            harness.tool("both"),
            harness.tool("link"),
        ],
        does={
            "draw": {"content": [{"type": "text", "text": "a dot"}, picture]},
            "count": {
                "content": [{"type": "text", "text": '{"n": 2}'}],
                "structuredContent": {"n": 2},
            },
            "both": {
                "content": [{"type": "text", "text": "two"}],
                "structuredContent": {"n": 2},
            },
            "link": {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]},
        },
    )
    await harness.mount()

    drawn = await harness.call("x__draw", word="w")
    counted = await harness.call("x__count", word="w")
    both = await harness.call("x__both", word="w")
    link = await harness.call("x__link", word="w")

    assert [block.type for block in drawn.content] == ["text", "image"]
    assert drawn.content[1].source["data"] == PIXEL
    assert counted.output == {"server": "x", "trusted": False, "structured": {"n": 2}}
    assert both.output["text"] == "two"
    assert link.output["text"] == "[link to file:///a: a]"


async def test_a_picture_that_is_none_is_left_out_and_counted(harness: Any) -> None:
    picture = {"type": "image", "data": "%%%", "mimeType": "image/gif"}
    harness.plan(does={"say": {"content": [picture]}})
    await harness.mount()

    result = await harness.call(word="w")

    assert result.success
    assert result.output["images_left_out"] == 1


async def test_an_error_of_the_tool_is_a_failure_with_its_words(harness: Any) -> None:
    words = [{"type": "text", "text": "no such city"}]
    harness.plan(
        tools=[harness.tool("say"), harness.tool("print")],
        does={"say": {"content": words, "isError": True}, "print": "error"},
    )
    await harness.mount()

    of_tool, of_server = await harness.call(word="w"), await harness.call("x__print", word="w")

    assert of_tool.error == {"message": "no such city", "type": "tool_error"}
    assert of_tool.output["trusted"] is False
    assert of_server.error["type"] == "server_error"
    assert of_server.error["message"] == "MCP server `x` refused: out of paper."


async def test_a_long_answer_is_shortened_with_true_counts(harness: Any) -> None:
    words = [{"type": "text", "text": f"start{'x' * 5000}end"}]
    harness.plan(does={"say": {"content": words}})
    await harness.mount(max_output_chars=1000)

    text = (await harness.call(word="w")).output["text"]

    assert text.startswith("startx")
    assert text.endswith("xend")
    assert "[4008 of 5008 characters left out]" in text


async def test_a_server_made_with_the_sdk_answers_through_its_pipes(harness: Any) -> None:
    server = harness.planned()
    server["args"] = ["sdk_server.py"]
    await harness.mount(server, connect_seconds=20)

    result = await harness.call("x__add", first=2, second=3)

    assert result.output["structured"] == {"result": 5}


async def test_a_server_is_reached_by_http_and_again_after_it_was_gone(harness: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def serve() -> Any:
        arguments = [str(harness.workspace / "sdk_server.py"), str(port)]
        process: Any = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(120):
            while b"running on" not in (line := await process.stderr.readline()):
                assert line
        return process

    async def stop(process: Any) -> None:
        process.kill()
        await process.communicate()

    url = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "k"}, "trust": True}
    first = await serve()
    await harness.mount(url)
    assert (await harness.call("x__add", first=2, second=3)).output["structured"] == {"result": 5}

    await stop(first)
    lost = await harness.call("x__add", first=2, second=3)
    second = await serve()
    again = await harness.call("x__add", first=2, second=3)
    await harness.close()
    await stop(second)

    assert lost.error["type"] == "connection_lost"
    assert "cannot be reached" in lost.error["message"]
    assert again.output["structured"] == {"result": 5}


async def test_a_server_that_cannot_be_started_is_told_of_and_can_be_tried_again(
    harness: Any,
) -> None:
    harness.plan(hangs_at_start=True)
    await harness.mount(connect_seconds=0.5)
    assert harness.names() == ["mcp_load"]
    assert "MCP server `x` cannot be reached: not ready within 0.5 s" in harness.lines()

    harness.plan()
    loaded = await harness.load("x__say")

    assert loaded.success
    assert (await harness.call(word="w")).success


async def test_a_missing_program_is_told_of_with_its_last_words(harness: Any) -> None:
    await harness.mount({**harness.planned(), "command": "/no/such/program"})

    assert "MCP server `x` cannot be reached" in harness.lines()
    assert "/no/such/program" in harness.events("mcp:lost")[0]["message"]


async def test_above_its_share_of_the_window_only_a_line_of_each_tool_stays(harness: Any) -> None:
    wordy = {"type": "object", "properties": {"word": {"type": "string", "description": "w" * 400}}}
    harness.plan(tools=[harness.tool(f"t{n}", f"Tool {n}.\nMore.", **wordy) for n in range(10)])
    await harness.mount(schema_share=0.01)
    first: Any = harness.coordinator.get("tools", "x__t1")
    brief = first.description, first.input_schema

    loaded = await harness.load("x__t1")

    assert brief == ("Tool 1. (first: mcp_load)", {"type": "object", "properties": {}})
    assert loaded.output["schema"] == wordy
    assert loaded.output["trusted"] is False
    assert (first.description, first.input_schema) == ("Tool 1.\nMore.", wordy)
    assert harness.coordinator.get("tools", "x__t2").input_schema == brief[1]
    assert "mcp_load" in (await harness.call("x__t2", word=1)).error["message"]
    assert "shown in brief" in harness.lines()


@pytest.mark.parametrize(
    ("given", "words"),
    [({}, "Give `tool`"), ({"tool": "y__a"}, "Servers: x"), ({"tool": "x__a"}, "x__say")],
)
async def test_loading_what_is_not_there_says_what_is(harness: Any, given: Any, words: str) -> None:
    await harness.mount()

    result = await harness.call("mcp_load", **given)

    assert result.error["type"] == "invalid_input"
    assert words in result.error["message"]


@pytest.mark.attack("M4")
async def test_a_tool_never_takes_the_place_of_another(harness: Any) -> None:
    bash, taken = MockTool("bash"), MockTool("x__taken")
    await harness.coordinator.mount("tools", bash)
    await harness.coordinator.mount("tools", taken)
    names = ["bash", "taken", "a.b", "a_b", "n" * 100]
    harness.plan(tools=[harness.tool(name) for name in names])

    await harness.mount()

    assert harness.coordinator.get("tools", "bash") is bash
    assert harness.coordinator.get("tools", "x__taken") is taken
    mounted = set(harness.names()) - {"bash", "x__taken", "mcp_load"}
    assert {"x__bash", "x__a_b"} <= mounted
    assert max(map(len, mounted)) == 64
    refused = {event["tool"] for event in harness.events("mcp:refused")}
    assert refused == {"taken", "a_b"}
    await harness.close()
    assert harness.names() == ["bash", "mcp_load", "x__taken"]


@pytest.mark.parametrize(
    "servers",
    [
        {"a__b": {"command": "x"}},
        {"a": {"command": "x", "shell": True}},
        {"a": {"url": "file:///etc/passwd"}},
        {"a": {}},
    ],
)
async def test_a_wrong_configuration_stops_the_mount(servers: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        await mount(MockCoordinator(), {"servers": servers})
