"""Contract of the basic loop: the flow of a turn and the events around it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult, RateLimitError, ToolResult
from amplifier_core.testing import MockContextManager, MockTool
from contract.doubles import Approvals, Listener, ask, broken_pairs, deny, inject, modify
from contract.installer import ScriptedProvider, response
from contract.requirements import requirement
from contract.turns import Turn, calls, loop


@requirement("ORCH-2", "ORCH-3", "ORCH-5", "ORCH-13")
async def test_a_turn_goes_round_until_no_tool_is_asked_for() -> None:
    tool = MockTool("echo", {"said": "hé"})
    turn = Turn(await loop(), calls("echo"), "All done.", tools=[tool])

    assert await turn.run("say it") == "All done."

    roles = [message["role"] for message in turn.context.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert turn.context.messages[0]["content"] == "say it"
    assert turn.context.messages[2]["tool_call_id"] == "call_1"
    assert tool.last_input == {"n": 1}
    assert turn.results == ['{"said": "h\\u00e9"}']
    turn.context.get_messages_for_request.assert_awaited_with(provider=turn.provider)
    wanted = ["provider:request", "provider:response", "tool:pre", "tool:post"]
    flow = [event for event in turn.heard.events if event in wanted]
    assert flow == [*wanted, "provider:request", "provider:response"]
    assert turn.told("tool:pre")[0]["tool_name"] == "echo"
    assert turn.told("tool:pre")[0]["tool_input"] == {"n": 1}
    (post,) = turn.told("tool:post")
    assert post["result"] == post["tool_result"]
    assert turn.told("provider:request")[0]["provider"] == "test"
    assert turn.told("provider:response")[0]["usage"]["total_tokens"] == 2
    assert broken_pairs(turn.provider.requests[1].messages) == []


class Broken:
    """A tool that raises."""

    name = "broken"
    description = "Raises."
    input_schema: dict[str, Any] = {}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Raise."""
        raise ZeroDivisionError("by zero")


@requirement("ORCH-4", "TOOL-2")
async def test_a_failing_tool_is_announced_and_the_turn_goes_on() -> None:
    turn = Turn(await loop(), calls("broken", "absent"), "Sorry.", tools=[Broken()])

    assert await turn.run() == "Sorry."

    errors = {data["tool_name"]: data["error"] for data in turn.told("tool:error")}
    assert errors["broken"] == {"type": "ZeroDivisionError", "msg": "by zero"}
    assert "absent" in errors
    assert turn.told("tool:post") == []
    assert "by zero" in turn.results[0]
    assert len(turn.results) == 2


@requirement("ORCH-6", "ORCH-7")
async def test_a_denied_prompt_ends_the_turn_with_the_reason() -> None:
    turn = Turn(await loop())
    turn.hooks.register("prompt:submit", Listener(deny("not on Sundays")))

    assert "not on Sundays" in await turn.run("work!")

    assert turn.provider.requests == []
    assert turn.told("prompt:submit") == []
    assert [event for event in turn.heard.events if event.startswith("execution:")] == [
        "execution:start",
        "execution:end",
    ]


@requirement("ORCH-7")
@pytest.mark.parametrize(
    ("answers", "status", "final"),
    [
        (["Done."], "completed", "success"),
        ([RuntimeError("boom")], "error", "incomplete"),
        (["cancel"], "cancelled", "cancelled"),
    ],
)
async def test_every_way_out_is_announced(answers: list[Any], status: str, final: str) -> None:
    turn = Turn(await loop(), *answers)
    if answers == ["cancel"]:
        turn.coordinator.cancellation.request_graceful()

    await asyncio.gather(turn.run("hi"), return_exceptions=True)

    assert turn.heard.events[0] == "execution:start"
    assert turn.told("execution:start")[0]["prompt"] == "hi"
    (end,) = turn.told("execution:end")
    assert end["status"] == status
    (complete,) = turn.told("orchestrator:complete")
    assert complete["status"] == final
    assert isinstance(complete["turn_count"], int)


@requirement("ORCH-8", "ORCH-11")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [(deny("forbidden"), "forbidden"), (ask("Really?"), "User denied: Really?")],
)
async def test_a_denied_tool_is_never_executed(answer: HookResult, reason: str) -> None:
    tool = MockTool("rm")
    turn = Turn(await loop(), calls("rm"), "Fine.", tools=[tool])
    turn.coordinator.approval_system = Approvals("Deny")
    turn.hooks.register("tool:pre", Listener(answer))

    assert await turn.run() == "Fine."

    assert tool.call_count == 0
    assert turn.told("tool:post") == []
    assert reason in turn.results[0]
    assert broken_pairs(turn.context.messages) == []


@requirement("ORCH-9")
async def test_a_hook_may_change_what_a_tool_gets() -> None:
    tool = MockTool("echo")
    turn = Turn(await loop(), calls("echo"), "Done.", tools=[tool])

    async def rewrite(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"n": "safe"}})

    turn.hooks.register("tool:pre", rewrite)
    await turn.run()

    assert tool.last_input == {"n": "safe"}
    assert turn.told("tool:post")[0]["tool_input"] == {"n": "safe"}


@requirement("ORCH-10")
async def test_injected_text_lasts_as_long_as_it_should() -> None:
    turn = Turn(await loop(), calls("echo"), "Done.", tools=[MockTool("echo", "out")])
    turn.hooks.register("prompt:submit", Listener(inject("lasting", context_injection_role="user")))
    once = inject("glued", ephemeral=True, append_to_last_tool_result=True)
    remove = turn.hooks.register("tool:post", Listener(once))
    turn.hooks.register("tool:post", Listener(inject("apart", ephemeral=True)))

    await turn.run()
    remove()
    await turn.run("again")

    stored = str(turn.context.messages)
    assert "lasting" in stored
    assert "glued" not in stored
    assert "apart" not in stored
    second, third = turn.provider.requests[1], turn.provider.requests[2]
    glued = next(message for message in second.messages if message.role == "tool")
    assert glued.content == "out\n\nglued"
    assert ("system", "apart") in [(each.role, each.content) for each in second.messages]
    assert "glued" not in str(third.messages)


@requirement("ORCH-12")
async def test_the_model_reads_what_a_hook_made_of_a_result() -> None:
    tool = MockTool("echo", {"secret": "s"})
    untouched = Turn(await loop(), calls("echo"), "Done.", tools=[tool])
    scrubbed = Turn(await loop(), calls("echo"), "Done.", tools=[tool])
    untouched.hooks.register("tool:post", Listener())

    async def scrub(event: str, data: dict[str, Any]) -> HookResult:
        hidden = {"success": True, "output": {"secret": "[REDACTED]"}, "error": None}
        return modify({**data, "result": hidden, "tool_result": hidden})

    scrubbed.hooks.register("tool:post", scrub)
    await untouched.run()
    await scrubbed.run()

    assert untouched.results == ['{"secret": "s"}']
    assert "[REDACTED]" in scrubbed.results[0]
    assert '"s"' not in scrubbed.results[0]


@requirement("ORCH-14", "PROV-1")
async def test_the_provider_is_the_configured_one_or_the_first_in_line() -> None:
    cheap, dear, third = (ScriptedProvider(name, name=name) for name in ("cheap", "dear", "third"))
    prioritised: Any = cheap
    prioritised.priority = 1
    configured: Any = third
    configured.config = {"priority": 50}

    async def ask_loop(**config: Any) -> str:
        return await (await loop(**config)).execute(
            prompt="hi",
            context=MockContextManager(),
            providers={"dear": dear, "third": third, "cheap": cheap},
            tools={},
            hooks=HookRegistry(),
        )

    assert await ask_loop() == "cheap"
    assert await ask_loop(default_provider="dear") == "dear"
    prioritised.priority = 100
    assert await ask_loop() == "third"


@requirement("ORCH-15")
@pytest.mark.parametrize("limit", [2, None])
async def test_a_loop_that_does_not_end_by_itself_is_ended(limit: int | None) -> None:
    config = {} if limit is None else {"max_iterations": limit}

    async def never_enough(request: Any) -> Any:
        return response(calls("echo") if request.tools else "What I have.")

    turn = Turn(await loop(**config), never_enough, tools=[MockTool("echo")])

    assert await turn.run() == "What I have."

    requests = turn.provider.requests
    assert len(requests) == (limit or 50) + 1
    assert all(request.tools for request in requests[:-1])
    assert not requests[-1].tools
    assert broken_pairs(turn.context.messages) == []


@requirement("ORCH-16")
async def test_a_provider_error_is_announced_and_reaches_the_caller() -> None:
    error = RateLimitError("busy", status_code=429)
    turn = Turn(await loop(), error)

    with pytest.raises(RateLimitError) as caught:
        await turn.run()

    assert caught.value is error
    (told,) = turn.told("provider:error")
    assert told["provider"] == "test"
    assert told["error"] == {"type": "RateLimitError", "msg": "busy"}


@requirement("ORCH-20")
async def test_the_loop_works_without_a_coordinator() -> None:
    turn = Turn(await loop(), calls("echo"), "Done.", tools=[MockTool("echo")])
    turn.coordinator = None

    assert await turn.run() == "Done."
    assert turn.results == ["Success"]


class SeedTool:
    """A tool written to the seed: a schema by method, none by property."""

    name = "seed"
    description = "Written to the seed."

    def get_schema(self) -> dict[str, Any]:
        """Give the schema."""
        return {"type": "object", "properties": {"x": {"type": "string"}}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Give the input back."""
        return ToolResult(output=input)


async def _parameters(*tools: Any) -> dict[str, Any]:
    """Give the parameters the model is shown of each tool."""
    turn = Turn(await loop(), "Done.", tools=tools)
    await turn.run()
    return {spec.name: spec.parameters for spec in turn.provider.requests[0].tools or []}


@requirement("TOOL-3")
async def test_a_tool_without_a_schema_is_offered_all_the_same() -> None:
    bare: Any = MockTool("bare")
    del bare.input_schema

    shown = await _parameters(MockTool("plain"), bare)

    assert shown["plain"] == {"type": "object", "properties": {}}
    assert "bare" in shown


@requirement("TOOL-4")
async def test_a_schema_given_by_method_is_shown_to_the_model() -> None:
    shown = await _parameters(SeedTool())

    assert shown["seed"] == SeedTool().get_schema()
