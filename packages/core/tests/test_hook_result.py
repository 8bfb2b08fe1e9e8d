"""Tests that a hook result made the quick way is the one that validation would have made."""

from __future__ import annotations

import copy
import pickle
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from amplifier_core.models import ContextInjection, HookResult, UserMessage, continue_result

QUICK: list[dict[str, Any]] = [
    {},
    {"action": "continue"},
    {"data": {}},
    {"data": {"a": [1]}},
    {"action": "continue", "data": {}},
    {"action": "continue", "data": {"a": [1], "b": None}},
]


def assert_same(one: HookResult, other: HookResult) -> None:
    """Fail unless two results are the same by every question a pydantic model answers."""
    assert type(one) is type(other)
    assert one == other
    assert other == one
    assert repr(one) == repr(other)
    assert list(one) == list(other)
    assert vars(one) == vars(other)
    assert list(vars(one)) == list(vars(other))
    assert one.model_fields_set == other.model_fields_set
    assert one.model_extra is other.model_extra is None
    assert one.__pydantic_private__ is other.__pydantic_private__ is None
    assert one.model_dump() == other.model_dump()
    assert one.model_dump(exclude_unset=True) == other.model_dump(exclude_unset=True)
    assert one.model_dump(exclude_defaults=True) == other.model_dump(exclude_defaults=True)
    assert one.model_dump_json() == other.model_dump_json()
    assert one.__getstate__() == other.__getstate__()


def assert_both_refuse(fields: dict[str, Any]) -> None:
    """Fail unless constructor and validation refuse `fields` with the same words."""
    with pytest.raises(ValidationError) as expected:
        HookResult.model_validate(fields)
    with pytest.raises(ValidationError) as caught:
        HookResult(**fields)
    assert caught.value.errors() == expected.value.errors()


@pytest.mark.parametrize("fields", QUICK)
def test_a_quick_result_is_what_validation_makes(fields: dict[str, Any]) -> None:
    assert_same(HookResult(**fields), HookResult.model_validate(fields))


@pytest.mark.parametrize("fields", QUICK)
def test_every_copy_of_a_quick_result_is_what_validation_makes(fields: dict[str, Any]) -> None:
    result, validated = HookResult(**fields), HookResult.model_validate(fields)

    for twin in (
        copy.copy(result),
        copy.deepcopy(result),
        result.model_copy(),
        result.model_copy(deep=True),
        pickle.loads(pickle.dumps(result)),
    ):
        assert_same(twin, validated)
    assert_same(
        result.model_copy(update={"reason": "x"}), validated.model_copy(update={"reason": "x"})
    )


@given(st.dictionaries(st.one_of(st.text(), st.integers(), st.none()), st.integers()))
def test_data_is_accepted_quickly_exactly_when_validation_accepts_it(data: dict[Any, int]) -> None:
    fields: dict[str, Any] = {"action": "continue", "data": data}
    if all(isinstance(key, str) for key in data):
        assert_same(HookResult(**fields), HookResult.model_validate(fields))
    else:
        assert_both_refuse(fields)


def test_a_quick_result_shares_nothing_with_the_next_one() -> None:
    first, second = HookResult(action="continue"), HookResult(action="continue")

    first.context_injections.append(ContextInjection(content="x"))
    first.user_messages.append(UserMessage(text="x"))
    first.reason = "changed"

    assert (second.context_injections, second.user_messages) == ([], [])
    assert (second.reason, second.model_fields_set) == (None, {"action"})
    assert first.model_fields_set == {"action", "reason"}
    assert_same(HookResult(), HookResult.model_validate({}))


def test_data_is_copied_as_validation_copies_it() -> None:
    data = {"a": [1]}

    result = HookResult(action="continue", data=data)
    assert result.data is not None
    result.data["b"] = 2

    assert data == {"a": [1]}
    assert result.data["a"] is data["a"]


def test_a_quick_result_refuses_unknown_attributes_like_any_other() -> None:
    result: Any = HookResult(action="continue")

    assert not hasattr(result, "nonsense")
    with pytest.raises(AttributeError, match="'HookResult' object has no attribute 'nonsense'"):
        _ = result.nonsense
    with pytest.raises(ValueError, match="nonsense"):
        result.nonsense = 1


class Word(str, Enum):  # noqa: UP042 - a plain string enum is what modules have
    CONTINUE = "continue"


def test_an_action_that_only_equals_continue_is_stored_as_the_word() -> None:
    action: Any = Word.CONTINUE

    assert_same(HookResult(action=action), HookResult.model_validate({"action": action}))


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "deny", "reason": "no"},
        {"action": "modify", "data": {"a": 1}},
        {"action": "inject_context", "context_injection": "x", "ephemeral": True},
        {"action": "continue", "data": None},
        {"action": "continue", "user_message": "hi", "unknown": 1},
        {"context_injections": [{"content": "x"}], "user_messages": [{"text": "y"}]},
    ],
)
def test_every_other_result_is_validated(fields: dict[str, Any]) -> None:
    assert_same(HookResult(**fields), HookResult.model_validate(fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "proceed"},
        {"action": None},
        {"action": ["continue"]},
        {"action": "continue", "data": "text"},
        {"action": "continue", "data": [("a", 1)]},
        {"action": "continue", "user_message_level": "loud"},
    ],
)
def test_a_wrong_result_is_refused_with_the_same_words(fields: dict[str, Any]) -> None:
    assert_both_refuse(fields)


def test_positional_arguments_are_refused() -> None:
    anything: Any = HookResult

    with pytest.raises(TypeError):
        anything("continue")


def test_strictness_and_json_go_through_validation() -> None:
    assert HookResult.model_validate_json('{"action": "continue"}') == HookResult(action="continue")
    with pytest.raises(ValidationError):
        HookResult.model_validate({"approval_timeout": "5"}, strict=True)


def test_a_model_can_hold_a_result_in_every_form() -> None:
    class Record(BaseModel):
        model_config = ConfigDict(revalidate_instances="always")

        result: HookResult

    result = HookResult(action="continue", data={"a": 1})

    assert Record(result=result).result == result
    assert (
        Record.model_validate({"result": {"action": "continue", "data": {"a": 1}}}).result == result
    )
    assert Record(result=result).model_dump()["result"] == result.model_dump()


def test_a_subclass_keeps_its_own_fields_and_checks() -> None:
    class Tagged(HookResult):
        tag: str = "none"

    class Private(HookResult):
        _secret: int = 7

    class Stubborn(HookResult):
        def __init__(self, **values: Any) -> None:
            values["reason"] = "because"
            super().__init__(**values)

    assert Tagged(action="continue").tag == "none"
    assert Tagged(action="continue").model_fields_set == {"action"}
    assert Private(action="continue")._secret == 7
    assert Stubborn(action="continue").reason == "because"
    assert Stubborn.model_validate({"action": "continue"}).reason == "because"
    assert Tagged(action="continue") != HookResult(action="continue")


def test_the_registrys_result_holds_the_callers_own_data() -> None:
    data: dict[str, Any] = {"a": 1}

    result = continue_result(data)

    assert result.data is data
    assert_same(result, HookResult.model_validate({"action": "continue", "data": data}))
    assert continue_result(data).context_injections is not result.context_injections
    assert continue_result(data).user_messages is not result.user_messages
