"""The provider as a whole, in front of a server that speaks the vendor's format."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.llm_errors import AuthenticationError, InvalidRequestError, LLMError
from amplifier_core.message_models import ChatRequest, Message
from amplifier_module_provider_anthropic import mount
from wire.line import LIST_FILES, QUICK, READ_FILE, Line, request, stored
from wire.vendor import Answer, Refuse, Text, Thinking
from wire.vendors.anthropic import Anthropic

RULES = {"role": "system", "content": "Be brief."}


def marked(value: Any) -> int:
    """Return how many cache marks a part of a request has."""
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(marked, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON
    return sum(map(marked, value)) if isinstance(value, list) else 0  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON


async def test_the_key_of_the_environment_is_enough(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK)

    await line.ask("hi")

    assert line.server.requests[0].headers["authorization"] == "Bearer a-key-of-the-environment"


@pytest.mark.parametrize("key", [None, "  "])
async def test_without_a_key_nothing_is_mounted_and_the_person_learns_which_one(
    line: Line, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    if key is not None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)

    assert await mount(line.coordinator, {}) is None

    assert line.coordinator.mount_points["providers"] == {}
    assert any("ANTHROPIC_API_KEY" in shown for shown in line.display.lines)


async def test_the_cache_is_marked_at_most_four_times(line: Line) -> None:
    line.server.reply(*[Answer.of("ok")] * 3)
    await line.mount(QUICK)
    said: list[Any] = [RULES, "hi"]
    for _ in range(3):
        response = await line.ask(*said, tools=[READ_FILE, LIST_FILES])
        said += [stored(response), "go on"]

    assert [marked(each.body) for each in line.server.requests] == [3, 4, 4]
    assert [marked(tool) for tool in line.sent["tools"]] == [0, 1]
    assert [marked(each) for each in line.sent["messages"]] == [0, 0, 1, 0, 1]
    assert marked(line.sent["system"]) == 1


async def test_caching_can_be_switched_off(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK | {"prompt_caching": False})

    await line.ask(RULES, "hi", tools=[READ_FILE])

    assert marked(line.sent) == 0


async def test_no_beta_is_asked_for_unless_somebody_wants_it(line: Line) -> None:
    line.server.reply(Answer.of("ok"), Answer.of("ok"))
    await line.mount(QUICK)
    await line.ask("hi")
    await line.close()
    await line.mount(QUICK | {"betas": ["a-1", "b-2"], "api_version": "2023-06-01"})
    await line.provider.complete(request("hi"))

    plain, asked = (each.headers for each in line.server.requests)
    assert "anthropic-beta" not in plain
    assert asked["anthropic-beta"] == "a-1,b-2"
    assert asked["anthropic-version"] == "2023-06-01"


async def test_a_temperature_reaches_an_api_that_has_it(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK | {"api_version": "2023-06-01", "default_model": "claude-sonnet-4-6"})

    response = await line.ask("hi", temperature=0.25)

    assert line.sent["temperature"] == 0.25
    assert response.degradation is None


async def test_a_loss_is_announced_every_time_and_shown_once(line: Line) -> None:
    line.server.reply(Answer.of("ok"), Answer.of("ok"))
    await line.mount(QUICK | {"temperature": 0.25})

    response = await line.ask("hi")
    await line.ask("hi")

    assert response.degradation is not None
    assert [each["requested"] for each in line.of("provider:degraded")] == ["temperature 0.25"] * 2
    assert [shown.count("temperature 0.25") for shown in line.display.lines] == [1]


class Pausing(Anthropic):
    """Pauses its answers instead of finishing them."""

    def stream(self, answer: Answer, body: dict[str, Any]) -> list[bytes]:
        return [each.replace(b"end_turn", b"pause_turn") for each in super().stream(answer, body)]


async def test_a_paused_answer_is_not_passed_off_as_a_finished_one(line: Line) -> None:
    line.server.vendor = Pausing()
    line.server.reply(Answer.of("so far"))
    await line.mount(QUICK)

    response = await line.ask("hi")

    assert response.degradation is not None
    assert "paused" in response.degradation.actual
    assert any("paused" in shown for shown in line.display.lines)


async def test_an_image_the_vendor_does_not_take_is_reported_each_time_it_is_sent(
    line: Line,
) -> None:
    line.server.reply(Answer.of("ok"), Answer.of("ok"))
    await line.mount(QUICK)
    source = {"type": "base64", "media_type": "image/bmp", "data": "aGk="}
    look = Message.model_validate(
        {"role": "user", "content": [{"type": "image", "source": source}]}
    )

    for _ in range(2):
        response = await line.ask(look)
        assert response.degradation is not None
        assert "image/bmp" in response.degradation.requested


async def test_json_without_a_schema_is_asked_for_in_words(line: Line) -> None:
    line.server.reply(Answer.of("{}"))
    await line.mount(QUICK)

    response = await line.ask(RULES, "hi", response_format={"type": "json"})

    assert "JSON" in line.sent["system"][-1]["text"]
    assert response.degradation is not None


@pytest.mark.parametrize("metadata", [None, {"stream": False}], ids=["streamed", "unstreamed"])
async def test_the_limits_of_the_account_are_in_the_event(
    line: Line, metadata: dict[str, Any] | None
) -> None:
    headers = {"anthropic-ratelimit-requests-remaining": "49"}
    line.server.reply(Answer([Text("ok")], headers=headers))
    await line.mount(QUICK)

    await line.ask("hi", metadata=metadata)

    assert line.of("llm:response")[0]["rate_limits"] == {"requests_remaining": 49}


async def test_tokens_are_counted_with_all_that_is_sent(line: Line) -> None:
    await line.mount(QUICK | {"extended_thinking": True})

    await line.provider.count_tokens(request(RULES, "hi", tools=[READ_FILE], stop=["END"]))

    body = line.server.side_requests[-1].body
    assert sorted(body) == ["messages", "model", "system", "thinking", "tools"]


async def test_questions_besides_an_answer_fail_with_our_errors(line: Line) -> None:
    await line.mount(QUICK)
    await line.server.close()

    with pytest.raises(LLMError):
        await line.provider.list_models()
    with pytest.raises(LLMError):
        await line.provider.count_tokens(request("hi"))


async def test_another_server_gets_its_unsigned_thoughts_back(line: Line) -> None:
    line.server.reply(Answer([Thinking("hm"), Text("so")]), Answer.of("ok"))
    await line.mount(QUICK | {"base_url": line.server.base_url})

    response = await line.ask("hi")
    await line.ask("hi", stored(response), "go on")

    assert line.vendor.sent_checked_fields(line.sent) == ["hm", ""]


async def test_the_caller_decides_whether_to_think(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK)

    await line.provider.complete(request("hi"), extended_thinking=True)

    assert line.sent["thinking"]["type"] == "adaptive"


async def test_an_override_is_read_like_a_field_of_the_request(line: Line) -> None:
    line.server.reply(Answer.of("{}"))
    await line.mount(QUICK)
    schema: dict[str, Any] = {"type": "object", "properties": {}}

    await line.provider.complete(
        request("hi"), response_format={"type": "json_schema", "json_schema": schema}
    )

    assert line.vendor.sent_schema(line.sent) == {**schema, "additionalProperties": False}


async def test_an_override_that_makes_no_sense_is_refused(line: Line) -> None:
    await line.mount(QUICK)

    with pytest.raises(InvalidRequestError, match="max_output_tokens"):
        await line.provider.complete(
            ChatRequest(messages=[Message(role="user", content="hi")]), max_output_tokens="many"
        )


async def test_a_wrong_key_is_told_at_once(line: Line) -> None:
    line.server.reply(Refuse(401, "auth", "invalid bearer token"))
    await line.mount(QUICK)

    with pytest.raises(AuthenticationError, match="invalid bearer token"):
        await line.ask("hi")


async def test_a_keyword_that_nobody_knows_is_not_dropped_in_silence(line: Line) -> None:
    line.server.reply(Answer.of("ok"))
    await line.mount(QUICK)

    response = await line.provider.complete(request("hi"), top_q=1)

    assert response.degradation is not None
    assert "top_q" in response.degradation.requested
    assert ["top_q" in shown for shown in line.display.lines] == [True]
