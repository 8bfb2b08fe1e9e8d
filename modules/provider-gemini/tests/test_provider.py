"""The provider in front of a server: what the SDK is told, and what it must not do by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidRequestError, NotFoundError
from amplifier_core.models import HookResult
from wire.line import QUICK, READ_FILE, Line, request, text_of
from wire.vendor import Answer, Hold
from wire.vendors.gemini import Gemini

RULES = {"role": "system", "content": "Be brief."}


async def test_the_server_is_not_told_our_timeouts(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK)

    await line.ask("hi")

    assert "x-server-timeout" not in line.server.requests[0].headers


async def test_an_environment_for_google_cloud_changes_nothing(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "a-project")
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK)

    await line.ask("hi")

    expected = "/v1beta/models/gemini-3.8-flash:streamGenerateContent"
    assert line.server.requests[0].path == expected


async def test_a_second_call_needs_no_second_connection(line: Line) -> None:
    line.server.reply(Answer.of("one"), Answer.of("two"))
    await line.mount(QUICK)

    await line.ask("hi")
    await line.ask("hi")

    assert line.server.open_connections == 1


async def test_another_version_of_the_api_can_be_chosen(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount({**QUICK, "api_version": "v1"})

    await line.ask("hi", model="models/gemini-2.5-pro")

    expected = "/v1/models/gemini-2.5-pro:streamGenerateContent"
    assert line.server.requests[0].path == expected


@pytest.mark.parametrize(
    ("config", "removed", "expected"),
    [
        ({"api_key": "configured"}, (), "configured"),
        ({}, (), "a-key-of-the-environment"),
        ({}, ("GEMINI_API_KEY",), "the-other-variable"),
    ],
)
async def test_a_key_is_looked_for_in_its_order(
    line: Line,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, str],
    removed: tuple[str, ...],
    expected: str,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "the-other-variable")
    for variable in removed:
        monkeypatch.delenv(variable)
    line.server.reply(Answer.of("ok"))
    await line.mount({**QUICK, **config})

    await line.ask("hi")

    assert line.server.requests[0].headers["x-goog-api-key"] == expected


async def test_tokens_are_counted_with_tools_and_system(line: Line) -> None:
    await line.mount(QUICK)

    await line.provider.count_tokens(request(RULES, "hi", tools=[READ_FILE]))

    [counted] = line.server.side_requests
    assert counted.path == "/v1beta/models/gemini-3.8-flash:countTokens"
    assert counted.body["contents"] == []
    whole = counted.body["generateContentRequest"]
    assert whole["model"] == "models/gemini-3.8-flash"
    assert whole["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert whole["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert whole["tools"][0]["functionDeclarations"][0]["name"] == "read_file"


async def test_a_count_that_is_refused_is_an_llm_error(line: Line) -> None:
    await line.mount({**QUICK, "base_url": f"{line.server.base_url}/nowhere"})

    with pytest.raises(NotFoundError):
        await line.provider.list_models()


async def test_only_models_that_can_answer_are_listed(line: Line) -> None:
    await line.mount(QUICK)

    models = await line.provider.list_models()

    assert [model.id for model in models] == ["gemini-3.8-flash", "second-model"]
    assert models[0].display_name == "Gemini-3.8-Flash"
    assert "thinking" in models[0].capabilities


async def test_a_request_of_nothing_but_rules_is_refused_before_it_is_sent(line: Line) -> None:
    await line.mount(QUICK)

    with pytest.raises(InvalidRequestError):
        await line.ask(RULES)

    assert line.server.requests == []


async def test_a_picture_that_is_no_base64_is_an_invalid_request(line: Line) -> None:
    await line.mount(QUICK)
    source = {"type": "base64", "media_type": "image/png", "data": "no base64!"}

    with pytest.raises(InvalidRequestError):
        await line.ask({"role": "user", "content": [{"type": "image", "source": source}]})


async def test_a_stream_that_is_left_is_closed_even_while_its_error_is_kept(line: Line) -> None:
    line.server.reply(Hold(Answer.of("one two three"), 1, asyncio.Event()))
    await line.mount(QUICK)

    async def leave(_event: str, _data: dict[str, Any]) -> HookResult:
        call.cancel()
        await asyncio.sleep(0)
        return HookResult()

    line.coordinator.hooks.register("llm:stream_block_delta", leave)
    call = asyncio.create_task(line.ask("hi"))

    with pytest.raises(asyncio.CancelledError) as caught:
        await call

    async with asyncio.timeout(120):
        await line.server.requests[0].disconnected.wait()
    assert caught.traceback, "what holds the stream's frames"


class Novel(Gemini):
    """Ends its answers with a word that the SDK does not know."""

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        return [each.replace(b"STOP", b"NEW_WORD") for each in super().stream(answer, body)]


async def test_a_finish_reason_that_the_sdk_does_not_know_is_passed_on(line: Line) -> None:
    line.server.vendor = Novel()
    line.server.reply(Answer.of("so far"))
    await line.mount(QUICK)

    response = await line.ask("hi")

    assert (text_of(response), response.finish_reason) == ("so far", "new_word")


async def test_what_falls_short_is_told_with_every_answer_and_shown_once(line: Line) -> None:
    line.server.reply(Answer.of("ok"), Answer.of("ok"))
    await line.mount(QUICK)

    asked = {"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}

    answers = [await line.ask(asked, reasoning_effort="none") for _ in "ab"]

    told = [answer.degradation for answer in answers if answer.degradation is not None]
    expected = "a picture from a source of type `file`; reasoning effort none"
    assert [each.requested for each in told] == [expected] * 2
    assert [each["reason"] for each in line.of("provider:degraded")] == [told[0].reason] * 2
    assert len(line.display.lines) == 1


async def test_a_keyword_that_nobody_knows_is_not_dropped_in_silence(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK)

    response = await line.provider.complete(request("hi"), top_q=1)

    assert response.degradation is not None
    assert "top_q" in response.degradation.requested
    assert ["top_q" in shown for shown in line.display.lines] == [True]
