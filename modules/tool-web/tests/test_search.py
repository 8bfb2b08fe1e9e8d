"""`web_search` with a backend of another module, with an engine of its own, and with none."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.effects import declaration_of
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_web import WebSearch, mount, on_session_ready

HIT = {"title": "A page", "url": "http://site.example/", "snippet": "What it is about."}


def answer(found: Any) -> bytes:
    body = found if isinstance(found, bytes) else json.dumps(found).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def searching(backend: Any, seconds: float = 30.0) -> Any:
    return WebSearch(MockCoordinator(), backend, seconds)


async def engine(internet: Any, **search: Any) -> Any:
    """Mount a search with the private site as its engine."""
    address = f"http://127.0.0.1:{internet.private_port}"
    config = {"search": {"url": address + "/?q={query}&n={limit}", **search}}
    await mount(internet.coordinator, config)
    return internet.coordinator.get("tools", "web_search")


async def test_the_backend_of_another_module_is_used_whenever_that_was_mounted(
    internet: Any,
) -> None:
    asked: list[tuple[str, int]] = []

    async def backend(query: str, limit: int) -> list[dict[str, str]]:
        asked.append((query, limit))
        return [HIT] * 9

    await mount(internet.coordinator)
    internet.coordinator.register_capability("web.search", backend)
    await on_session_ready(internet.coordinator)
    tool = internet.coordinator.get("tools", "web_search")
    result = await tool.execute({"query": "words", "limit": 2})

    one = "A page\n   http://site.example/\n   What it is about."
    assert result.output == f"1. {one}\n\n2. {one}"
    assert asked == [("words", 2)]
    assert internet.lines == []


async def test_without_a_backend_there_is_no_search_and_who_asks_is_told(internet: Any) -> None:
    await mount(internet.coordinator)
    await on_session_ready(internet.coordinator)

    assert list(internet.coordinator.get("tools")) == ["web_fetch"]
    (told,) = await internet.coordinator.collect_contributions("tools.unavailable")
    assert told["tool"] == "web_search"
    assert "configure `search`" in told["reason"]
    assert [event for event, _ in internet.events] == ["web:search_unavailable"]
    assert internet.lines == []


def test_what_speaks_http_is_not_loaded_before_a_page_is_read() -> None:
    program = (
        "import asyncio, sys\n"
        "from amplifier_core.testing import MockCoordinator\n"
        "from amplifier_module_tool_web import mount\n"
        "asyncio.run(mount(MockCoordinator()))\n"
        "assert 'httpx2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_a_hit_cannot_pass_for_two(internet: Any) -> None:
    async def backend(query: str, limit: int) -> list[dict[str, str]]:
        return [{**HIT, "title": "A\n\n2. B", "snippet": "x" * 5000}]

    result = await searching(backend).execute({"query": "words"})

    assert result.output.count("\n") == 2
    assert len(result.output) < 1100


async def test_no_hits_are_said_in_words() -> None:
    async def backend(query: str, limit: int) -> list[dict[str, str]]:
        return []

    result = await searching(backend).execute({"query": "words"})

    assert result.output == "Nothing was found. Try other words."


@pytest.mark.parametrize("found", [None, 7, ["text"], {"a": 1}], ids=str)
async def test_a_backend_that_answers_rubbish_is_a_failed_call(found: Any) -> None:
    async def backend(query: str, limit: int) -> Any:
        return found

    result = await searching(backend).execute({"query": "words"})

    assert "web_search failed with" in result.error["message"]


async def test_a_backend_that_raises_is_a_failed_call_with_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def backend(query: str, limit: int) -> Any:
        raise RuntimeError("boom")

    result = await searching(backend).execute({"query": "words"})

    assert "RuntimeError" in result.error["message"]
    assert "boom" in caplog.text


async def test_a_backend_that_hangs_is_left_when_the_time_is_up() -> None:
    async def backend(query: str, limit: int) -> Any:
        await asyncio.get_running_loop().create_future()

    async with asyncio.timeout(120):
        result = await searching(backend, 0.05).execute({"query": "words"})

    assert "0.05 seconds" in result.error["message"]


@pytest.mark.parametrize("given", [{}, {"query": ""}, {"query": "a", "limit": 21}], ids=str)
async def test_an_input_that_is_not_valid_is_explained(given: dict[str, Any]) -> None:
    async def backend(query: str, limit: int) -> Any:
        raise AssertionError("it must not be asked")

    result = await searching(backend).execute(given)

    assert "The input is not valid." in result.error["message"]


def test_it_declares_a_network_read_that_is_not_to_be_believed() -> None:
    tool = searching(None)

    assert declaration_of(tool) == ("idempotent", 35.0, False)
    assert tool.network is True


async def test_an_engine_of_the_configuration_is_asked_wherever_it_is(internet: Any) -> None:
    hits = [{"title": "A page", "url": "http://site.example/", "content": "About."}, {}]
    internet.private_pages["/?q=a%20%26%20b&n=5"] = answer({"results": hits})
    tool = await engine(internet, headers={"X-Key": "the-key"})

    result = await tool.execute({"query": "a & b"})

    assert result.output.startswith("1. A page\n   http://site.example/\n   About.\n\n2. ")
    assert "X-Key: the-key\r\n" in internet.private_requests[0]


async def test_the_names_in_the_answer_of_an_engine_can_be_configured(internet: Any) -> None:
    hits = [{"t": "A page", "u": "http://site.example/", "s": "About."}]
    internet.private_pages["/?q=words&n=5"] = answer({"web": {"hits": hits}})
    keys = {"title": "t", "url": "u", "snippet": "s"}
    tool = await engine(internet, results="web.hits", keys=keys)

    result = await tool.execute({"query": "words"})

    assert result.output == "1. A page\n   http://site.example/\n   About."


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (b"<html>", "did not answer with JSON"),
        (b"[" * 100_000, "did not answer with JSON"),
        ([], "no list `results`"),
        ({"results": {}}, "no list `results`"),
    ],
)
async def test_an_engine_that_answers_otherwise_is_a_failed_call(
    internet: Any, found: Any, reason: str
) -> None:
    internet.private_pages["/?q=words&n=5"] = answer(found)
    tool = await engine(internet)

    result = await tool.execute({"query": "words"})

    assert reason in result.error["message"]


@pytest.mark.attack("N4")
async def test_an_engine_that_redirects_does_not_get_its_key_sent_elsewhere(internet: Any) -> None:
    location = b"HTTP/1.1 302 Found\r\nLocation: http://93.184.215.14/\r\nContent-Length: 0\r\n\r\n"
    internet.private_pages["/?q=words&n=5"] = location
    tool = await engine(internet, headers={"X-Key": "the-key"})

    result = await tool.execute({"query": "words"})

    assert "redirects more than 0 times" in result.error["message"]
    assert internet.requests == []


@pytest.mark.attack("N1")
async def test_web_fetch_cannot_go_where_only_the_search_may(internet: Any) -> None:
    await engine(internet)
    tool = internet.coordinator.get("tools", "web_fetch")

    result = await tool.execute({"url": f"http://127.0.0.1:{internet.private_port}/"})

    assert not result.success
    assert internet.private_requests == []


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"allow_host": ["x"]}, "allow_host"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"search": {"url": "http://engine.example/"}}, "search.url"),
        ({"search": {"url": "http://{query}.example/"}}, "search.url"),
        (
            {"search": {"url": "http://e.example/{query}", "keys": {"link": "u"}}},
            "search.keys.link",
        ),
    ],
)
async def test_a_wrong_configuration_stops_the_mount_and_is_named(
    config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError, match=named.replace(".", r"\.")):
        await mount(MockCoordinator(), config)
