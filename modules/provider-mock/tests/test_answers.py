"""The four ways in which the mock answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import ChatRequest, ChatResponse, Message, TextBlock, ThinkingBlock
from amplifier_core.llm_errors import ConfigurationError, LLMError, RateLimitError
from amplifier_module_provider_mock import MockProvider
from amplifier_module_provider_mock.config import MockConfig
from contract.requirements import requirement

Build = Callable[..., MockProvider]
Ask = Callable[..., ChatRequest]

CLOCK: dict[str, Any] = {"clock": {"description": "Tell the time."}}


def text_of(response: ChatResponse) -> str:
    return "".join(block.text for block in response.content if isinstance(block, TextBlock))


def store(*responses: ChatResponse) -> list[dict[str, Any]]:
    """Store responses as loops do."""
    return [
        {"role": "assistant", "content": [block.model_dump() for block in response.content]}
        for response in responses
    ]


@requirement("PROV-5")
async def test_echo_repeats_the_last_words_of_the_user_and_says_that_it_is_a_mock(
    build: Build, ask: Ask
) -> None:
    request = ask("first", {"role": "assistant", "content": "so"}, "second", tools=CLOCK)

    response = await build(mode="echo").complete(request)

    assert text_of(response) == "[mock] You said: second"
    assert response.tool_calls is None


async def test_echo_has_an_answer_when_nobody_said_anything(build: Build, ask: Ask) -> None:
    response = await build(mode="echo").complete(ask({"role": "system", "content": "Be brief."}))

    assert text_of(response) == "[mock] You said: "


@requirement("PROV-5")
async def test_a_script_is_played_step_by_step(build: Build, ask: Ask) -> None:
    provider = build(
        script=[
            {"thinking": "Hm.", "tool_calls": [{"name": "clock", "arguments": {"zone": "UTC"}}]},
            "It is noon.",
        ]
    )

    first = await provider.complete(ask("What time is it?"))
    second = await provider.complete(ask("What time is it?"))

    assert [block.type for block in first.content] == ["thinking", "tool_call"]
    assert first.tool_calls is not None
    assert first.tool_calls[0].name == "clock"
    assert first.tool_calls[0].arguments == {"zone": "UTC"}
    assert first.finish_reason == "tool_calls"
    assert text_of(second) == "It is noon."
    assert second.finish_reason == "stop"


async def test_a_scripted_error_is_raised_and_the_script_goes_on_behind_it(
    build: Build, ask: Ask
) -> None:
    failure = {"type": "RateLimitError", "message": "slow down", "retry_after": 1.5}
    provider = build(script=[{"error": failure}, "better"])

    with pytest.raises(RateLimitError, match="slow down") as raised:
        await provider.complete(ask("hello"))
    response = await provider.complete(ask("hello"))

    assert raised.value.retryable
    assert raised.value.retry_after == 1.5
    assert raised.value.provider == "mock"
    assert text_of(response) == "better"


async def test_an_error_may_be_given_by_its_name_alone(build: Build, ask: Ask) -> None:
    with pytest.raises(LLMError, match="scripted failure"):
        await build(script=[{"error": "ContentFilterError"}]).complete(ask("hello"))


async def test_a_script_that_has_ended_says_so(build: Build, ask: Ask) -> None:
    provider = build(script=["only"])
    await provider.complete(ask("one"))

    with pytest.raises(ConfigurationError, match="has 1 steps, and this is call 2"):
        await provider.complete(ask("two"))


async def test_a_script_that_has_ended_can_repeat_its_last_step(build: Build, ask: Ask) -> None:
    provider = build(script=["one", "two"], after_script="repeat")

    said = [text_of(await provider.complete(ask("go on"))) for _ in range(4)]

    assert said == ["one", "two", "two", "two"]


async def test_a_repeated_call_is_not_changed_by_the_tool_that_got_it(
    build: Build, ask: Ask
) -> None:
    step = {"tool_calls": [{"name": "sort", "arguments": {"items": [2, 1]}}]}
    provider = build(script=[step], after_script="repeat")

    first = provider.parse_tool_calls(await provider.complete(ask("sort")))
    first[0].arguments["items"].clear()
    second = provider.parse_tool_calls(await provider.complete(ask("sort")))

    assert second[0].arguments == {"items": [2, 1]}
    assert second[0].id != first[0].id


async def test_a_script_that_has_ended_can_echo(build: Build, ask: Ask) -> None:
    provider = build(script=["one"], after_script="echo")
    await provider.complete(ask("hello"))

    assert text_of(await provider.complete(ask("hello"))) == "[mock] You said: hello"


@requirement("PROV-5")
async def test_a_tool_is_called_once_a_turn_and_its_result_becomes_a_sentence(
    build: Build, ask: Ask
) -> None:
    provider = build()
    asked = {"role": "user", "content": "What time is it?"}

    call = await provider.complete(ask(asked, tools=CLOCK))
    [made] = provider.parse_tool_calls(call)
    result = {"role": "tool", "tool_call_id": made.id, "content": "noon"}
    answer = await provider.complete(ask(asked, *store(call), result, tools=CLOCK))

    assert made.name == "clock"
    assert text_of(answer) == "[mock] I called clock and got: noon"
    assert answer.tool_calls is None


async def test_the_next_turn_calls_a_tool_again(build: Build, ask: Ask) -> None:
    provider = build()
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "tool": "clock"}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
        {"role": "assistant", "content": "It is noon."},
    ]

    response = await provider.complete(ask(*turn, "And now?", tools=CLOCK))

    [made] = provider.parse_tool_calls(response)
    assert made.name == "clock"
    assert made.id == "call_2", "an id of the conversation so far must not come again"


async def test_text_that_a_hook_added_behind_the_results_does_not_start_a_new_turn(
    build: Build, ask: Ask
) -> None:
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "tool": "clock"}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_call_id": "call_1", "output": 12}],
        },
        {"role": "user", "content": "Remember to be brief."},
    ]

    response = await build().complete(ask(*turn, tools=CLOCK))

    assert text_of(response) == "[mock] I called clock and got: 12"


async def test_without_tools_there_is_an_echo(build: Build, ask: Ask) -> None:
    offered_none = await build().complete(ask("hello"))
    forbidden = await build().complete(ask("hello", tools=CLOCK, tool_choice="none"))

    assert text_of(offered_none) == text_of(forbidden) == "[mock] You said: hello"


@requirement("PROV-5")
async def test_recorded_responses_are_played_as_they_were_recorded(
    build: Build, ask: Ask, tmp_path: Path
) -> None:
    recorded = [
        ChatResponse(
            content=[ThinkingBlock(thinking="Hm.", signature="signed")], finish_reason="x"
        ),
        ChatResponse(content=[TextBlock(text="done")]),
    ]
    file = tmp_path / "session.jsonl"
    lines = [response.model_dump_json() for response in recorded]
    file.write_text("\n\n".join(lines), encoding="utf-8")
    provider = build(replay_file=str(file))

    played = [await provider.complete(ask(prompt)) for prompt in ("one", "two")]

    assert played == recorded
    with pytest.raises(ConfigurationError, match="has 2 responses, and this is call 3"):
        await provider.complete(ask("three"))


async def test_changing_a_replayed_response_does_not_change_the_recording(
    build: Build, ask: Ask, tmp_path: Path
) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text('{"content": [], "metadata": {"n": 1}}\n' * 2, encoding="utf-8")
    provider = build(replay_file=file)

    first = await provider.complete(ask("one"))
    assert first.metadata is not None
    first.metadata.clear()

    assert (await provider.complete(ask("two"))).metadata == {"n": 1}


def test_a_broken_recording_is_refused_with_its_line(build: Build, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text('{"content": []}\n{"content": "text"}\n', encoding="utf-8")

    with pytest.raises(ValueError, match=r"session\.jsonl:2 is no recorded response"):
        build(replay_file=file)


@requirement("PROV-7")
async def test_blocks_of_every_kind_come_back_to_the_provider_that_made_them(
    build: Build, ask: Ask, tmp_path: Path
) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "so", "cache": "yes"},
        {"type": "thinking", "thinking": "hm", "signature": "signed", "content": ["sealed"]},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "tool_call", "id": "c", "name": "clock", "input": {"zone": "UTC"}},
        {"type": "tool_result", "tool_call_id": "c", "output": {"hour": 12}},
        {"type": "image", "source": {"type": "base64", "data": "aGk="}},
        {"type": "reasoning", "content": [], "summary": ["short"]},
    ]
    response = ChatResponse.model_validate({"content": blocks})
    file = tmp_path / "session.jsonl"
    file.write_text(response.model_dump_json() + "\n", encoding="utf-8")

    made = await build(replay_file=file).complete(ask("go"))
    [stored] = store(made)
    answer = await build(mode="echo").complete(ask("go", stored, "again"))

    assert Message(**stored).model_dump(exclude_none=True)["content"] == blocks
    assert text_of(answer) == "[mock] You said: again"


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"modus": "echo"}, "modus"),
        ({"mode": "parrot"}, "mode"),
        ({"mode": "scripted"}, "needs a `script`"),
        ({"mode": "echo", "script": ["a"]}, "needs a `script`"),
        ({"mode": "replay"}, "needs a `replay_file`"),
        ({"script": [{"says": "a"}]}, "says"),
        (
            {"script": [{"error": "TeapotError"}]},
            "`TeapotError` is no LLM error; known: Abort",
        ),
        (
            {"script": [{"error": {"type": "InvalidToolCallError", "retry_after": 1}}]},
            "`InvalidToolCallError` cannot be built",
        ),
        ({"script": [{"usage": {"cost_usd": 0.1}}]}, "cost_usd must be Decimal, not float"),
        ("echo", "valid dictionary"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_by_name(
    config: Any, complaint: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        MockConfig.model_validate(config)

    assert complaint in str(raised.value)
