"""What must survive is put down, struck out, and read from prompts."""

from __future__ import annotations

import timeit
from typing import Any

import pytest

from amplifier_module_contexts.context_summarizing.ledger import Ledger, open_todos
from amplifier_module_contexts.context_summarizing.remember import RememberTool, remembered


def test_the_goal_is_the_first_prompt_until_it_is_changed() -> None:
    ledger = Ledger((), goal_chars=100)

    ledger.read_prompt("Build the thing.\nQuickly.")
    ledger.read_prompt("And test it.")
    assert ledger.entries()["goal"] == ["Build the thing.\nQuickly."]
    ledger.add("goal", "Build another thing.")
    ledger.read_prompt("Go on.")

    assert ledger.entries()["goal"] == ["Build another thing."]


def test_of_a_long_first_prompt_the_beginning_is_the_goal() -> None:
    ledger = Ledger((), goal_chars=10)

    ledger.read_prompt("0123456789 and much more")

    assert ledger.entries()["goal"] == ["0123456789"]


def test_the_open_items_of_the_to_do_list_are_among_the_to_dos() -> None:
    ledger = Ledger((), goal_chars=10)
    ledger.add("todo", "test")
    before = ledger.version

    ledger.set_listed(["write", "test"])
    ledger.set_listed(["write", "test"])

    assert ledger.entries()["todo"] == ["test", "write"]
    assert "- write" in ledger.text()
    assert ledger.version == before + 1


@pytest.mark.parametrize(
    ("listed", "texts"),
    [
        ([{"text": "write", "state": "pending"}, {"text": "read", "state": "done"}], ["write"]),
        ([{"text": ""}, {"text": 7}, "write", None, {"state": "pending"}], []),
        ("write", []),
        (None, []),
    ],
)
def test_only_open_items_are_taken_from_the_state(listed: object, texts: list[str]) -> None:
    assert open_todos({"todos": listed}) == texts


@pytest.mark.parametrize(
    ("begin", "blank", "end"), [("", "\n", ""), ("rule:", " \n", ""), ("rule: a", " ", "b")]
)
def test_the_time_to_read_blanks_is_not_quadratic(begin: str, blank: str, end: str) -> None:
    def seconds(blanks: int) -> float:
        ledger = Ledger((), goal_chars=100)
        prompt = begin + blank * blanks + end
        return min(timeit.repeat(lambda: ledger.read_prompt(prompt), number=1, repeat=5))

    # Quadratic time would be 16 times as long.
    assert seconds(4_000) < 10 * seconds(1_000)


def test_lines_of_a_prompt_are_entries() -> None:
    ledger = Ledger(("pinned",), goal_chars=100)

    ledger.read_prompt("Rule: never push\n  ToDo: write tests \ndecision: use sqlite\nRule:\nRules")
    ledger.read_prompt("done: write tests\ndone: nothing of the kind\ntodo: rest\ntodo: rest")

    assert ledger.entries() == {
        "goal": ["Rule: never push\n  ToDo: write tests \ndecision: use sqlite\nRule:\nRules"],
        "rule": ["pinned", "never push"],
        "decision": ["use sqlite"],
        "todo": ["rest"],
    }


def test_the_text_has_every_entry_and_nothing_when_there_is_none() -> None:
    ledger = Ledger((), goal_chars=100)
    assert ledger.text() == ""

    ledger.add("goal", "ship it")
    ledger.add("todo", "one")

    assert ledger.text().splitlines()[1:] == ["Goal:", "- ship it", "Open:", "- one"]


def test_clear_leaves_the_pinned_rules() -> None:
    ledger = Ledger(("pinned",), goal_chars=100)
    ledger.read_prompt("Rule: other")
    version = ledger.version

    ledger.clear()

    assert ledger.entries() == {"goal": [], "rule": ["pinned"], "decision": [], "todo": []}
    assert ledger.version > version


async def test_the_tool_puts_down_and_strikes_out() -> None:
    ledger = Ledger((), goal_chars=100)
    tool = RememberTool(ledger)

    assert (await tool.execute({"kind": "todo", "text": "write tests"})).success
    assert (await tool.execute({"kind": "decision", "text": "use sqlite"})).success
    assert ledger.entries()["todo"] == ["write tests"]
    assert (await tool.execute({"kind": "done", "text": "write tests"})).success

    assert ledger.entries()["todo"] == []
    assert ledger.entries()["decision"] == ["use sqlite"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "wish", "text": "x"}, "one of goal, rule"),
        ({"kind": "rule", "text": " "}, "not empty"),
        ({"kind": "rule"}, "not empty"),
        ({"text": 7}, "not empty"),
        ({"kind": ["rule"], "text": "x"}, "one of goal"),
        ({"kind": "done", "text": "other"}, "No open to-do is `other`. Open: write tests."),
    ],
)
async def test_what_cannot_be_kept_is_a_readable_failure(given: dict[str, Any], says: str) -> None:
    ledger = Ledger((), goal_chars=100)
    ledger.add("todo", "write tests")

    answer = await RememberTool(ledger).execute(given)

    assert not answer.success
    assert says in answer.get_serialized_output()


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "c", "tool": "remember", "arguments": {"kind": "k", "text": "t"}}]},
        {
            "tool_calls": [
                {"function": {"name": "remember", "arguments": '{"kind": "k", "text": "t"}'}}
            ]
        },
        {
            "content": [
                {"type": "tool_call", "name": "remember", "input": {"kind": "k", "text": "t"}}
            ]
        },
    ],
)
def test_calls_are_found_in_every_stored_form(message: dict[str, Any]) -> None:
    assert remembered({"role": "assistant", **message}) == [("k", "t")]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "remember"},
        {"tool_calls": [{"tool": "forget", "arguments": {"kind": "k"}}]},
        {"tool_calls": [{"tool": "remember", "arguments": "{not json"}]},
        {"tool_calls": [{"tool": "remember", "arguments": [1]}]},
    ],
)
def test_what_is_no_such_call_is_not_found(message: dict[str, Any]) -> None:
    assert remembered({"role": "assistant", **message}) == []
