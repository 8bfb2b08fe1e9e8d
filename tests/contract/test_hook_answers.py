"""Contract of the hook registry: what the answers of several handlers add up to."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from amplifier_core import ContextInjection, HookRegistry, HookResult
from contract.doubles import Listener, ask, deny, inject, modify
from contract.requirements import requirement


def _registry(*answers: Any) -> tuple[HookRegistry, list[Listener]]:
    """Make a registry whose handlers `h0`, `h1`, ... give these answers to `tool:pre`."""
    registry = HookRegistry()
    listeners = [Listener(answer) for answer in answers]
    for index, listener in enumerate(listeners):
        registry.register("tool:pre", listener, name=f"h{index}")
    return registry, listeners


async def _emit(*answers: Any) -> HookResult:
    registry, _ = _registry(*answers)
    return await registry.emit("tool:pre", {"n": 1})


@requirement("HOOK-26")
async def test_a_dict_is_read_as_the_fields_of_a_result() -> None:
    denied = await _emit({"action": "deny", "reason": "dict says no", "unknown": 1})
    passed = await _emit({"unknown": 1})

    assert (denied.action, denied.reason) == ("deny", "dict says no")
    assert passed.action == "continue"


@requirement("HOOK-27")
@pytest.mark.parametrize("answer", ["yes", 42, True, ["deny"], {"action": "bogus"}, {"data": 3}])
async def test_an_answer_that_cannot_be_read_denies(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    registry, (_, later) = _registry(answer, None)

    result = await registry.emit("tool:pre", {})

    assert (result.action, result.reason) == ("deny", "Hook handler returned invalid response")
    assert later.calls == []
    assert "ERROR" in [record.levelname for record in caplog.records]


@requirement("HOOK-28")
async def test_a_denial_ends_the_chain_as_the_handler_made_it() -> None:
    denial = deny("not here", data={"why": 1}, user_message="Blocked", user_message_level="error")
    registry, (*_, later) = _registry(inject("dropped"), ask(), denial, None)

    result = await registry.emit("tool:pre", {"n": 1})

    assert result.model_dump() == {**denial.model_dump(), "denied_by": result.denied_by}
    assert later.calls == []
    assert (await _emit(deny())).data is None


@requirement("HOOK-29", "HOOK-31")
async def test_a_modification_replaces_what_the_others_and_the_caller_see() -> None:
    registry, (_, second, third) = _registry(
        modify({"tool_input": {"a": 2}}), modify({"tool_input": {"a": 3}, "extra": True}), None
    )
    registry.set_default_fields(session_id="s")

    result = await registry.emit("tool:pre", {"tool_input": {"a": 1}, "lost": 1})

    assert second.data == {"tool_input": {"a": 2}}
    assert third.data == {"tool_input": {"a": 3}, "extra": True}
    assert result.action == "continue"
    assert result.data == third.data


@requirement("HOOK-29")
async def test_a_handler_may_change_its_view_and_hand_it_back() -> None:
    registry = HookRegistry()
    heard = Listener()

    async def scrub(event: str, data: dict[str, Any]) -> HookResult:
        data["secret"] = "[REDACTED]"
        return HookResult(action="modify", data=data)

    registry.register("tool:post", scrub)
    registry.register("tool:post", heard)
    caller = {"secret": "hunter2"}

    result = await registry.emit("tool:post", caller)

    assert heard.data["secret"] == "[REDACTED]"
    assert result.data is not None
    assert result.data["secret"] == "[REDACTED]"
    assert caller == {"secret": "hunter2"}


@requirement("HOOK-30")
async def test_a_modification_without_data_changes_nothing() -> None:
    registry, (_, heard) = _registry(modify(None), None)

    result = await registry.emit("tool:pre", {"n": 1})

    assert heard.data["n"] == 1
    assert result.action == "continue"
    assert result.data is not None
    assert result.data["n"] == 1


@requirement("HOOK-32")
async def test_the_first_question_wins_and_the_chain_goes_on() -> None:
    registry, (*_, last) = _registry(ask("first?"), ask("second?"), None)

    result = await registry.emit("tool:pre", {})

    assert (result.action, result.approval_prompt) == ("ask_user", "first?")
    assert len(last.calls) == 1


@requirement("HOOK-33")
@pytest.mark.parametrize("size", [1, 2, 3, 4])
async def test_deny_beats_asking_beats_injecting_beats_continuing(size: int) -> None:
    answers = {
        "deny": deny(),
        "ask_user": ask(),
        "inject_context": inject("text"),
        "continue": HookResult(),
    }
    ranking = list(answers)

    for actions in itertools.permutations(ranking, size):
        result = await _emit(*(answers[action] for action in actions))

        assert result.action == min(actions, key=ranking.index), actions


@requirement("HOOK-35")
async def test_a_single_injection_comes_back_whole() -> None:
    result = await _emit(
        inject(
            "Found 3 errors",
            context_injection_role="user",
            ephemeral=True,
            append_to_last_tool_result=True,
            user_message="Linting",
            user_message_level="warning",
            suppress_output=True,
        )
    )

    assert (result.action, result.context_injection) == ("inject_context", "Found 3 errors")
    assert (result.context_injection_role, result.ephemeral) == ("user", True)
    assert (result.append_to_last_tool_result, result.suppress_output) == (True, True)
    assert (result.user_message, result.user_message_level) == ("Linting", "warning")
    assert [entry.content for entry in result.context_injections] == ["Found 3 errors"]


@requirement("HOOK-36", "HOOK-37")
async def test_several_injections_become_one_text_and_a_list() -> None:
    result = await _emit(
        inject("one", context_injection_role="user", ephemeral=True, suppress_output=True),
        HookResult(),
        inject("two", append_to_last_tool_result=True),
    )

    assert (result.action, result.context_injection) == ("inject_context", "one\n\ntwo")
    assert (result.context_injection_role, result.ephemeral) == ("user", True)
    assert (result.suppress_output, result.append_to_last_tool_result) == (True, True)
    assert result.context_injections == [
        ContextInjection(
            content="one", role="user", ephemeral=True, hook_name="h0", event="tool:pre"
        ),
        ContextInjection(
            content="two", append_to_last_tool_result=True, hook_name="h2", event="tool:pre"
        ),
    ]


@requirement("HOOK-36")
@pytest.mark.parametrize("flag", ["ephemeral", "append_to_last_tool_result"])
@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
async def test_merged_injections_have_a_flag_when_any_of_them_has_it(
    flag: str, flags: tuple[bool, ...]
) -> None:
    result = await _emit(*(inject("text", **{flag: each}) for each in flags))

    assert getattr(result, flag) is any(flags)
    assert [getattr(entry, flag) for entry in result.context_injections] == list(flags)


@requirement("HOOK-36")
async def test_merged_injections_speak_in_the_role_of_the_first() -> None:
    roles = ["assistant", "system", "user"]

    for order in itertools.permutations(roles):
        result = await _emit(*(inject(role, context_injection_role=role) for role in order))

        assert result.context_injection_role == order[0]
        assert result.context_injection == "\n\n".join(order)


@requirement("HOOK-37", "HOOK-38")
async def test_a_handler_may_inject_several_texts_but_not_under_another_name() -> None:
    forged = [
        ContextInjection(content="a", role="assistant", hook_name="somebody", event="else:where"),
        ContextInjection(content="b", ephemeral=True),
    ]

    result = await _emit(inject("ignored", context_injections=forged))

    assert [(entry.content, entry.role) for entry in result.context_injections] == [
        ("a", "assistant"),
        ("b", "system"),
    ]
    assert {(entry.hook_name, entry.event) for entry in result.context_injections} == {
        ("h0", "tool:pre")
    }


@requirement("HOOK-39")
async def test_injections_on_an_answer_that_does_not_inject_are_ignored() -> None:
    stray = HookResult(context_injections=[ContextInjection(content="stray")])

    result = await _emit(stray)

    assert result.action == "continue"
    assert result.context_injections == []
