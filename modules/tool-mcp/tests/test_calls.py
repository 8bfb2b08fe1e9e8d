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


async def test_a_tool_is_called_and_its_answer_is_marked_untrusted(house: Any) -> None:
    await house.mount()

    result = await house.call(word="hello")

    assert result.success
    assert result.output == {"server": "x", "trusted": False, "text": '{"word": "hello"}'}
    assert house.names() == ["mcp_load", "x__say"]
    assert house.coordinator.get("tools", "x__say").description == "Says a word."
    assert house.events("mcp:connected")[0]["tools"] == ["x__say"]


async def test_wrong_arguments_never_reach_the_server(house: Any) -> None:
    house.plan(does={"say": "die"})
    await house.mount()

    result = await house.call(word=7)

    assert result.error["type"] == "invalid_input"
    assert result.error["message"].startswith('word: 7 is not of type "string"')
    assert not (house.workspace / "died").exists()


@pytest.mark.parametrize("given", [None, [], "text", {"word": object()}])
async def test_input_that_is_no_json_object_is_answered(house: Any, given: Any) -> None:
    await house.mount()

    result = await house.coordinator.get("tools", "x__say").execute(given)

    assert result.error["type"] == "invalid_input"


async def test_structured_answers_and_pictures_arrive(house: Any) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/gif"}
    house.plan(
        tools=[house.tool("draw"), house.tool("count"), house.tool("both"), house.tool("link")],
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
    await house.mount()

    drawn = await house.call("x__draw", word="w")
    counted = await house.call("x__count", word="w")
    both = await house.call("x__both", word="w")
    link = await house.call("x__link", word="w")

    assert [block.type for block in drawn.content] == ["text", "image"]
    assert drawn.content[1].source["data"] == PIXEL
    assert counted.output == {"server": "x", "trusted": False, "structured": {"n": 2}}
    assert both.output["text"] == "two"
    assert link.output["text"] == "[link to file:///a: a]"


async def test_a_picture_that_is_none_is_left_out_and_counted(house: Any) -> None:
    picture = {"type": "image", "data": "%%%", "mimeType": "image/gif"}
    house.plan(does={"say": {"content": [picture]}})
    await house.mount()

    result = await house.call(word="w")

    assert result.success
    assert result.output["images_left_out"] == 1


async def test_an_error_of_the_tool_is_a_failure_with_its_words(house: Any) -> None:
    words = [{"type": "text", "text": "no such city"}]
    house.plan(
        tools=[house.tool("say"), house.tool("print")],
        does={"say": {"content": words, "isError": True}, "print": "error"},
    )
    await house.mount()

    of_tool, of_server = await house.call(word="w"), await house.call("x__print", word="w")

    assert of_tool.error == {"message": "no such city", "type": "tool_error"}
    assert of_tool.output["trusted"] is False
    assert of_server.error["type"] == "server_error"
    assert of_server.error["message"] == "MCP server `x` refused: out of paper."


async def test_a_long_answer_is_shortened_with_true_counts(house: Any) -> None:
    words = [{"type": "text", "text": f"start{'x' * 5000}end"}]
    house.plan(does={"say": {"content": words}})
    await house.mount(max_output_chars=1000)

    text = (await house.call(word="w")).output["text"]

    assert text.startswith("startx")
    assert text.endswith("xend")
    assert "[4008 of 5008 characters left out]" in text


async def test_a_server_made_with_the_sdk_answers_through_its_pipes(house: Any) -> None:
    server = house.planned()
    server["args"] = ["sdk_server.py"]
    await house.mount(server, connect_seconds=20)

    result = await house.call("x__add", first=2, second=3)

    assert result.output["structured"] == {"result": 5}


async def test_a_server_is_reached_by_http_and_again_after_it_was_gone(house: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def serve() -> Any:
        arguments = [str(house.workspace / "sdk_server.py"), str(port)]
        process: Any = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(20):
            while b"running on" not in (line := await process.stderr.readline()):
                assert line
        return process

    async def stop(process: Any) -> None:
        process.kill()
        await process.communicate()

    url = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "k"}, "trust": True}
    first = await serve()
    await house.mount(url)
    assert (await house.call("x__add", first=2, second=3)).output["structured"] == {"result": 5}

    await stop(first)
    lost = await house.call("x__add", first=2, second=3)
    second = await serve()
    again = await house.call("x__add", first=2, second=3)
    await house.close()
    await stop(second)

    assert lost.error["type"] == "connection_lost"
    assert "cannot be reached" in lost.error["message"]
    assert again.output["structured"] == {"result": 5}


async def test_a_server_that_cannot_be_started_is_told_of_and_can_be_tried_again(
    house: Any,
) -> None:
    house.plan(hangs_at_start=True)
    await house.mount(connect_seconds=0.5)
    assert house.names() == ["mcp_load"]
    assert "MCP server `x` cannot be reached: not ready within 0.5 s" in house.lines()

    house.plan()
    loaded = await house.load("x__say")

    assert loaded.success
    assert (await house.call(word="w")).success


async def test_a_missing_program_is_told_of_with_its_last_words(house: Any) -> None:
    await house.mount({**house.planned(), "command": "/no/such/program"})

    assert "MCP server `x` cannot be reached" in house.lines()
    assert "/no/such/program" in house.events("mcp:lost")[0]["message"]


async def test_above_its_share_of_the_window_only_a_line_of_each_tool_stays(house: Any) -> None:
    wordy = {"type": "object", "properties": {"word": {"type": "string", "description": "w" * 400}}}
    house.plan(tools=[house.tool(f"t{n}", f"Tool {n}.\nMore.", **wordy) for n in range(10)])
    await house.mount(schema_share=0.01)
    first: Any = house.coordinator.get("tools", "x__t1")
    brief = first.description, first.input_schema

    loaded = await house.load("x__t1")

    assert brief == ("Tool 1. (first: mcp_load)", {"type": "object", "properties": {}})
    assert loaded.output["schema"] == wordy
    assert loaded.output["trusted"] is False
    assert (first.description, first.input_schema) == ("Tool 1.\nMore.", wordy)
    assert house.coordinator.get("tools", "x__t2").input_schema == brief[1]
    assert "mcp_load" in (await house.call("x__t2", word=1)).error["message"]
    assert "shown in brief" in house.lines()


@pytest.mark.parametrize(
    ("given", "words"),
    [({}, "Give `tool`"), ({"tool": "y__a"}, "Servers: x"), ({"tool": "x__a"}, "x__say")],
)
async def test_loading_what_is_not_there_says_what_is(house: Any, given: Any, words: str) -> None:
    await house.mount()

    result = await house.call("mcp_load", **given)

    assert result.error["type"] == "invalid_input"
    assert words in result.error["message"]


@pytest.mark.attack("M4")
async def test_a_tool_never_takes_the_place_of_another(house: Any) -> None:
    bash, taken = MockTool("bash"), MockTool("x__taken")
    await house.coordinator.mount("tools", bash)
    await house.coordinator.mount("tools", taken)
    names = ["bash", "taken", "a.b", "a_b", "n" * 100]
    house.plan(tools=[house.tool(name) for name in names])

    await house.mount()

    assert house.coordinator.get("tools", "bash") is bash
    assert house.coordinator.get("tools", "x__taken") is taken
    mounted = set(house.names()) - {"bash", "x__taken", "mcp_load"}
    assert {"x__bash", "x__a_b"} <= mounted
    assert max(map(len, mounted)) == 64
    refused = {event["tool"] for event in house.events("mcp:refused")}
    assert refused == {"taken", "a_b"}
    await house.close()
    assert house.names() == ["bash", "mcp_load", "x__taken"]


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
