"""The list: what it takes, where it is kept, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core.effects import Declaration, declaration_of
from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_tool_todo import mount

PLAN = [
    {"text": "read", "state": "done"},
    {"text": "write", "state": "in_progress"},
    {"text": "test", "state": "pending"},
]


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


@pytest.fixture
def session() -> Any:
    """A session whose app has a screen."""
    coordinator: Any = MockCoordinator()
    coordinator.display_system = Screen()
    return coordinator


@pytest.fixture
def recorder(session: Any) -> EventRecorder:
    """Hears what the module announces."""
    recorder = EventRecorder()
    for event in ("todo:changed", "todo:unreadable"):
        session.hooks.register(event, recorder.record)
    return recorder


async def test_the_list_is_replaced_shown_kept_and_announced(
    session: Any, recorder: EventRecorder
) -> None:
    await mount(session)
    todo = session.get("tools", "todo")

    result = await todo.execute({"todos": PLAN})

    assert result.output == "1 of 3 done:\n[x] read\n[>] write\n[ ] test"
    assert (await todo.execute({})).output == result.output
    assert session.session_state["todos"] == PLAN
    assert await session.get_capability("todo.list")() == PLAN
    assert [(event, data["todos"]) for event, data in recorder.events] == [("todo:changed", PLAN)]


async def test_the_same_list_again_is_no_change_and_an_empty_one_is(
    session: Any, recorder: EventRecorder
) -> None:
    await mount(session)
    todo = session.get("tools", "todo")
    for todos in (PLAN, PLAN, []):
        result = await todo.execute({"todos": todos})

    assert result.output == "The list is empty."
    assert [data["todos"] for _, data in recorder.events] == [PLAN, []]


@pytest.mark.parametrize(
    ("todos", "said"),
    [
        (
            [{"text": "a", "state": "in_progress"}, {"text": "b", "state": "in_progress"}],
            "only one",
        ),
        ([{"text": "a"}, {"text": " a "}], "the same text"),
        ([{"text": " \n"}], "todos.0.text: Value error, must not be empty"),
        ([{"text": "x" * 501}], "at most 500 characters"),
        ([{"text": str(number)} for number in range(101)], "at most 100 items"),
        ([{"text": "a", "state": "finished"}], "todos.0.state"),
        ([{"text": "a", "status": "done"}], "todos.0.status"),
        ("a", "todos"),
    ],
)
async def test_a_list_that_does_not_fit_changes_nothing(
    session: Any, recorder: EventRecorder, todos: Any, said: str
) -> None:
    await mount(session)
    todo = session.get("tools", "todo")
    await todo.execute({"todos": PLAN})

    result = await todo.execute({"todos": todos})

    assert not result.success
    assert said in result.error["message"]
    assert session.session_state["todos"] == PLAN
    assert len(recorder.events) == 1


async def test_a_text_of_several_lines_becomes_one(session: Any) -> None:
    await mount(session)

    await session.get("tools", "todo").execute({"todos": [{"text": " a\n- [x]  b "}]})

    assert session.session_state["todos"] == [{"text": "a - [x] b", "state": "pending"}]


async def test_a_restored_list_goes_on(session: Any) -> None:
    session.session_state = {"todos": PLAN}
    await mount(session)

    assert "[>] write" in (await session.get("tools", "todo").execute({})).output


@pytest.mark.parametrize("broken", ["text", [{"text": 7}], {"a": 1}])
async def test_a_restored_list_that_cannot_be_read_is_set_aside_loudly(
    session: Any, recorder: EventRecorder, broken: Any
) -> None:
    session.session_state = {"todos": broken}
    await mount(session)

    result = await session.get("tools", "todo").execute({})

    assert result.output == "The list is empty."
    assert session.session_state == {"todos_unreadable": broken}
    assert [event for event, _ in recorder.events] == ["todo:unreadable"]
    assert session.display_system.lines[0].startswith("tool-todo warning: The to-do list could")


async def test_there_is_no_reminder_unless_it_is_configured(session: Any) -> None:
    await mount(session)

    assert not any(session.hooks.list_handlers("provider:request").values())


async def test_the_model_is_reminded_after_steps_without_a_look_at_the_list(session: Any) -> None:
    cleanup: Callable[[], None] = await mount(session, {"remind_every_steps": 2})
    todo = session.get("tools", "todo")

    async def step() -> str | None:
        result = await session.hooks.emit("provider:request", {})
        assert result.ephemeral or result.action == "continue"
        return result.context_injection

    assert [await step(), await step()] == [None, None]
    await todo.execute({"todos": PLAN})
    reminders = [await step(), await step(), await step()]
    assert [bool(each) for each in reminders] == [False, True, False]
    assert "[>] write" in str(reminders[1])
    await todo.execute({})
    assert await step() is None
    assert await step()

    cleanup()
    assert not any(session.hooks.list_handlers("provider:request").values())


async def test_the_tool_declares_what_it_is(session: Any) -> None:
    await mount(session)

    declared = declaration_of(session.get("tools", "todo"))
    assert declared == Declaration("idempotent", 10.0, output_trusted=True)


async def test_an_unknown_key_stops_the_mount_and_is_named(session: Any) -> None:
    with pytest.raises(ValidationError, match="remind_evry_steps"):
        await mount(session, {"remind_evry_steps": 2})
