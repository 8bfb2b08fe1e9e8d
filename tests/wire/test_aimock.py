"""Our providers against aimock, somebody else's idea of the same wire formats."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from threading import Timer
from typing import Any
from urllib.request import Request, urlopen

import pytest

from amplifier_core import AmplifierSession, ChatRequest, ChatResponse, Message, MockTool
from amplifier_core.models import HookResult
from amplifier_core.testing import EventRecorder
from npm_packages import npm_package
from wire.vendor import Vendor

pytestmark = pytest.mark.slow

PACKAGE, VERSION = "@copilotkit/aimock", "1.43.0"
START_SECONDS = 120.0

TEXT = "One two three four five six seven eight nine ten eleven twelve."
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "Count"}, "response": {"content": TEXT}},
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "weather", "arguments": {"city": "Paris"}}]},
    },
    {
        "match": {"userMessage": "weather", "hasToolResult": True},
        "response": {"content": "It is sunny."},
    },
]

Open = Callable[..., Awaitable[AmplifierSession]]

streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


class Aimock:
    """A running aimock, and the routes by which a test tells it to misbehave."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def add(self, *fixtures: dict[str, Any]) -> None:
        """Add answers behind those that are there."""
        await self._control("POST", "fixtures", {"fixtures": fixtures})

    async def fail_once(self, status: int) -> None:
        """Answer the next request with an HTTP error."""
        await self._control("POST", "error", {"status": status})

    async def break_all(self, **rates: float) -> None:
        """Break requests at these rates until `heal`."""
        await self._control("POST", "chaos", rates)

    async def heal(self) -> None:
        """Break nothing any more."""
        await self._control("DELETE", "chaos", {})

    async def _control(self, method: str, path: str, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = Request(f"{self.url}/__aimock/{path}", data, headers, method=method)
        await asyncio.to_thread(_send, request)


def _send(request: Request) -> None:
    urlopen(request, timeout=10).close()


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Generator[Aimock]:
    """One aimock for the whole run."""
    program = npm_package(PACKAGE, VERSION) / "dist" / "cli.js"
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}), encoding="utf-8")
    options = ["--port", "0", "--fixtures", str(fixtures), "--chunk-size", "5"]
    command = ["node", str(program), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    deadline = Timer(START_SECONDS, process.kill)
    deadline.start()
    with process:
        try:
            assert process.stdout is not None
            lines = (line for line in process.stdout if " listening on " in line)
            started = next(lines, None)
            deadline.cancel()
            assert started is not None, "aimock did not start"
            yield Aimock(started.rpartition(" ")[2].strip())
        finally:
            process.kill()


@pytest.fixture
async def open_session(vendor: Vendor, aimock: Aimock) -> AsyncGenerator[Open]:
    """Open a session with the provider under test, pointed at an aimock that breaks nothing."""
    async with AsyncExitStack() as sessions:

        async def open_one(**config: Any) -> AmplifierSession:
            await aimock.heal()
            settings = {**vendor.config(aimock.url), "min_retry_delay_seconds": 0.01, **config}
            plan = {
                "session": {"orchestrator": "loop-basic", "context": "context-simple"},
                "providers": [{"module": vendor.module_id, "config": settings}],
            }
            return await sessions.enter_async_context(AmplifierSession(plan))

        yield open_one


async def ask(session: AmplifierSession, prompt: str, *, stream: bool = True) -> ChatResponse:
    [provider] = session.coordinator.get("providers").values()
    messages = [Message(role="user", content=prompt)]
    async with asyncio.timeout(120):
        return await provider.complete(ChatRequest(messages=messages, metadata={"stream": stream}))


def text_of(response: ChatResponse) -> str:
    return "".join(block.text for block in response.content if block.type == "text")


def recorded(session: AmplifierSession, event: str) -> EventRecorder:
    recorder = EventRecorder()
    session.coordinator.hooks.register(event, recorder.record)
    return recorder


async def test_an_answer_is_streamed(open_session: Open) -> None:
    session = await open_session()
    deltas = recorded(session, "llm:stream_block_delta")

    response = await ask(session, "Count")

    assert text_of(response) == TEXT
    assert len(deltas.events) > 1
    assert "".join(data["text"] for _, data in deltas.events) == TEXT
    assert response.finish_reason == "stop"
    assert response.usage is not None


async def test_an_answer_comes_whole(open_session: Open) -> None:
    session = await open_session()
    deltas = recorded(session, "llm:stream_block_delta")

    response = await ask(session, "Count", stream=False)

    assert text_of(response) == TEXT
    assert deltas.events == []
    assert response.finish_reason == "stop"


# aimock ends a call with a word that Gemini does not have, and the SDK remarks on it.
@pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid FinishReason")
@streamed_or_not
async def test_a_turn_calls_a_tool_and_goes_on_with_its_result(
    open_session: Open, stream: bool
) -> None:
    session = await open_session(use_streaming=stream)
    tool = MockTool("weather", "sun")
    await session.coordinator.mount("tools", tool)

    async with asyncio.timeout(120):
        answer = await session.execute("What is the weather?")

    assert answer == "It is sunny."
    assert tool.last_input == {"city": "Paris"}


@streamed_or_not
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_error_that_passes_is_survived(
    open_session: Open, aimock: Aimock, status: int, stream: bool
) -> None:
    session = await open_session()
    retries = recorded(session, "provider:retry")
    await aimock.fail_once(status)

    assert text_of(await ask(session, "Count", stream=stream)) == TEXT
    assert len(retries.events) == 1


@streamed_or_not
@pytest.mark.parametrize("fault", ["dropRate", "malformedRate", "rateLimitRate", "disconnectRate"])
async def test_chaos_that_passes_is_survived(
    open_session: Open, aimock: Aimock, fault: str, stream: bool
) -> None:
    """Everything breaks until the provider tries again."""
    session = await open_session()
    retries = recorded(session, "provider:retry")

    async def heal(event: str, data: dict[str, Any]) -> HookResult:
        await aimock.heal()
        return HookResult()

    session.coordinator.hooks.register("provider:retry", heal)
    await aimock.break_all(**{fault: 1.0})

    assert text_of(await ask(session, "Count", stream=stream)) == TEXT
    assert len(retries.events) == 1


@pytest.mark.parametrize("fault", ["truncateAfterChunks", "disconnectAfterMs"])
async def test_half_a_stream_is_never_taken_for_an_answer(
    open_session: Open, aimock: Aimock, vendor: Vendor, fault: str
) -> None:
    session = await open_session()
    retries = recorded(session, "provider:retry")
    prompt = f"{fault} for {vendor.id}"
    answer = {"response": {"content": TEXT}, "latency": 20}
    await aimock.add(
        {"match": {"userMessage": prompt, "sequenceIndex": 0}, **answer, fault: 5},
        {"match": {"userMessage": prompt}, **answer},
    )

    assert text_of(await ask(session, prompt)) == TEXT
    assert len(retries.events) == 1
