"""Tests of the session where the contract is silent: odd loops, children, and second lives."""

from __future__ import annotations

import asyncio
import copy
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader, NotInitializedError, SessionError
from contract.doubles import Listener, raising
from contract.installer import Installer, ScriptedProvider
from contract.requirements import requirement


@requirement("LAW-19")
async def test_only_an_initialised_session_can_be_swapped(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())

    with pytest.raises(NotInitializedError):
        await session.swap("providers", {"module": "provider-test"})


class Hidden:
    """An `execute` whose signature cannot be read."""

    __signature__ = "not a signature"

    def __init__(self) -> None:
        self.handed: list[dict[str, Any]] = []

    async def __call__(self, **handed: Any) -> str:
        self.handed.append(handed)
        return "hidden"


async def test_a_loop_that_hides_its_signature_is_given_the_coordinator(
    installed: Installer,
) -> None:
    execute = Hidden()

    class Odd:
        def __init__(self) -> None:
            self.execute = execute

    plan = installed.basics()
    installed.object("loop-test", "orchestrator", Odd())

    async with AmplifierSession(plan) as session:
        assert await session.execute("hi") == "hidden"

    assert execute.handed[0]["coordinator"] is session.coordinator


@requirement("LAW-12")
async def test_a_child_that_ended_is_not_cancelled_any_more(installed: Installer) -> None:
    parent = AmplifierSession(installed.basics())
    async with parent.fork() as child:
        pass

    parent.coordinator.cancellation.request_immediate()

    assert not child.coordinator.cancellation.is_cancelled


@requirement("LAW-8")
async def test_a_fork_leaves_its_parent_as_it_was(installed: Installer) -> None:
    plan = installed.basics()
    parent = AmplifierSession(plan)
    before = copy.deepcopy(plan)

    async with parent.fork({"session": {"raw": True}, "extra": {"a": 1}}) as child:
        await child.execute("task")

    assert plan == before
    assert "extra" not in parent.config
    assert parent.initialized is False


@requirement("LAW-12")
async def test_a_child_of_a_cancelled_parent_is_cancelled_from_the_start(
    installed: Installer,
) -> None:
    parent = AmplifierSession(installed.basics())
    parent.coordinator.cancellation.request_graceful()

    child = parent.fork()

    assert child.coordinator.cancellation.is_graceful


async def test_a_session_can_be_initialised_again_after_its_end(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())
    heard = Listener()
    for event in ("session:start", "session:end"):
        session.coordinator.hooks.register(event, heard)

    for prompt in ("one", "two"):
        async with session:
            assert await session.execute(prompt) == f"answer to {prompt}"

    assert heard.events == ["session:start", "session:end", "session:end"]
    assert [each.module_id for each in session.status.modules] == [
        "loop-test",
        "context-test",
        "provider-test",
    ]


async def test_the_status_recovers_after_a_failed_turn(installed: Installer) -> None:
    async with AmplifierSession(installed.basics()) as session:
        assert session.status.status == "running"
        installed.loop.act = raising(ValueError("boom"))
        with pytest.raises(ValueError, match="boom"):
            await session.execute("hi")
        assert session.status.status == "failed"
        assert session.status.last_error == {"message": "ValueError: boom", "type": "ValueError"}
        installed.loop.act = None
        await session.execute("hi")

        assert session.status.status == "completed"
        assert session.status is session.status


async def test_an_error_that_counts_as_false_is_an_error(installed: Installer) -> None:
    class NothingFound(Exception):
        def __len__(self) -> int:
            return 0

    installed.loop.act = raising(NothingFound("nothing"))
    async with AmplifierSession(installed.basics()) as session:
        with pytest.raises(NothingFound):
            await session.execute("hi")

        assert session.status.status == "failed"


async def test_turns_that_start_together_announce_the_session_once(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())
    heard = Listener()
    session.coordinator.hooks.register("session:start", heard)

    async def act(prompt: str, **_: Any) -> str:
        await asyncio.sleep(0)
        return prompt

    installed.loop.act = act
    async with session, asyncio.timeout(120):
        answers = await asyncio.gather(*(session.execute(str(number)) for number in range(5)))

    assert answers == ["0", "1", "2", "3", "4"]
    assert len(heard.calls) == 1


async def test_a_new_session_has_a_loader_that_its_modules_find_too(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())
    own = ModuleLoader()

    assert isinstance(session.loader, ModuleLoader)
    assert session.loader is session.coordinator.loader
    assert session.loader.coordinator is session.coordinator
    assert AmplifierSession(installed.basics(), loader=own).coordinator.loader is own


async def test_a_loader_that_is_set_before_initialize_is_used(installed: Installer) -> None:
    asked: list[str] = []

    class Asked(ModuleLoader):
        async def load(self, module_id: str, *args: Any, **kwargs: Any) -> Any:
            asked.append(module_id)
            return await super().load(module_id, *args, **kwargs)

    session = AmplifierSession(installed.basics())
    session.coordinator.loader = Asked(session.coordinator)
    await session.initialize()

    assert asked == ["loop-test", "context-test", "provider-test"]


@requirement("SESS-54")
async def test_the_end_of_a_session_says_how_many_turns_it_had(installed: Installer) -> None:
    ended = Listener()
    async with AmplifierSession(installed.basics()) as session:
        session.coordinator.hooks.register("session:end", ended)
        await session.execute("one")
        installed.loop.act = raising(RuntimeError("broken"))
        with pytest.raises(RuntimeError):
            await session.execute("two")

    assert ended.data["stats"] == {"turns": 2}
    assert ended.data["status"] == "failed"


async def test_every_error_of_a_session_carries_its_id(installed: Installer) -> None:
    session = AmplifierSession(installed.basics(), session_id="s")

    for attempt in (session.execute("early"), session.swap("tools", {"module": "tool-x"})):
        with pytest.raises(NotInitializedError) as early:
            await attempt
        assert early.value.session_id == "s"
    await session.initialize()
    for mount_point, words in (
        ("providers", "No providers"),
        ("context", "No context manager"),
        ("orchestrator", "No orchestrator"),
    ):
        name = "test" if mount_point == "providers" else None
        await session.coordinator.unmount(mount_point, name)
        with pytest.raises(SessionError, match=words) as missing:
            await session.execute("hi")
        assert missing.value.session_id == "s"


async def test_a_loop_may_be_a_plain_function_that_takes_no_coordinator(
    installed: Installer,
) -> None:
    async def execute(prompt: str, context: Any, providers: Any, tools: Any, hooks: Any) -> str:
        return f"plainly {prompt}"

    class Odd:
        def __init__(self) -> None:
            self.execute = execute

    plan = installed.basics()
    installed.object("loop-test", "orchestrator", Odd())

    async with AmplifierSession(plan) as session:
        assert await session.execute("hi") == "plainly hi"


async def test_the_config_of_a_session_is_announced_with_its_id_and_nothing_else(
    installed: Installer,
) -> None:
    session = AmplifierSession(installed.basics(session={"raw": True}), session_id="s")
    heard = Listener()
    session.coordinator.hooks.register("session:config", heard)

    async with session:
        await session.execute("hi")

    assert set(heard.data) == {"session_id", "parent_id", "timestamp", "raw"}
    assert (heard.data["session_id"], heard.data["parent_id"]) == ("s", None)


def test_a_session_whose_event_loop_has_ended_can_still_be_asked_to_stop(
    installed: Installer,
) -> None:
    session = AmplifierSession(installed.basics())

    async def turn() -> None:
        async with session:
            await session.execute("hi")

    asyncio.run(turn())

    assert session.coordinator.cancellation.request_immediate()


def test_a_new_session_is_plainly_at_its_start(installed: Installer) -> None:
    session = AmplifierSession(installed.basics())

    assert session.initialized is False
    assert (session.status.status, session.status.last_error) == ("running", None)
    assert session.status.modules == []


async def test_an_inheritable_wrapper_reaches_grandchildren_with_its_name_and_priority(
    installed: Installer,
) -> None:
    parent = AmplifierSession(installed.basics())

    def wrap(name: str, module: Any) -> Any:
        return (name, module)

    parent.coordinator.interpose("tools", wrap, name="kept", priority=7, inherit=True)
    parent.coordinator.interpose("tools", wrap, name="own", priority=8)

    grandchild = parent.fork().fork()

    (inherited,) = grandchild.coordinator.interposers
    assert (inherited.name, inherited.priority, inherited.inherit) == ("kept", 7, True)
    assert (inherited.mount_point, inherited.wrap) == ("tools", wrap)


async def test_a_good_turn_after_a_swap_is_completed(installed: Installer) -> None:
    async with AmplifierSession(installed.basics()) as session:
        installed.loop.act = raising(RuntimeError("boom"))
        with pytest.raises(RuntimeError, match="boom"):
            await session.execute("one")
        assert session.status.status == "failed"
        assert session.status.last_error == {
            "message": "RuntimeError: boom",
            "type": "RuntimeError",
        }
        installed.loop.act = None
        installed.object("provider-new", "providers", ScriptedProvider(), "test")
        await session.swap("providers", {"module": "provider-new"})
        await session.execute("two")

        assert session.status.status == "completed"


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("session", ["AmplifierSession"]),
        ("coordinator", ["ModuleCoordinator"]),
        (
            "history",
            ["INTERRUPTED", "answers_in", "calls_in", "interrupted_result", "unanswered_calls"],
        ),
        (
            "hooks",
            [
                "DEFAULT_TIMEOUT",
                "EVERY_EVENT",
                "ContextInjection",
                "HookRegistry",
                "HookResult",
                "HookTrace",
            ],
        ),
        (
            "loader",
            [
                "MODULE_FAILURE_REASONS",
                "TYPE_TO_MOUNT_POINT",
                "ModuleLoader",
                "ModuleValidationError",
                "declared_type",
                "guess_type",
                "module_failure_reason",
            ],
        ),
    ],
)
def test_a_file_of_the_kernel_offers_its_public_names_and_no_others(
    module: str, names: list[str]
) -> None:
    offered: dict[str, Any] = {}

    exec(f"from amplifier_core.{module} import *", offered)

    assert sorted(set(offered) - {"__builtins__"}) == sorted(names)


async def test_the_start_of_a_session_is_reported_in_utc(installed: Installer) -> None:
    before = datetime.now(UTC)

    started_at = AmplifierSession(installed.basics()).status.started_at

    assert started_at.utcoffset() == timedelta(0)
    assert before - timedelta(seconds=1) <= started_at <= datetime.now(UTC)


async def test_a_fork_is_announced_with_both_ids_and_nothing_else(installed: Installer) -> None:
    session = AmplifierSession(installed.basics(), session_id="s", parent_id="p")
    heard = Listener()
    session.coordinator.hooks.register("session:fork", heard)

    await session.initialize()

    assert set(heard.data) == {"parent", "session_id", "parent_id", "timestamp"}


def test_a_session_started_when_it_was_made(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: 1_700_000_000.0)
        session = AmplifierSession(installed.basics())

    assert session.status.started_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


async def test_the_end_of_a_session_is_announced_with_its_state_stats_and_nothing_else(
    installed: Installer,
) -> None:
    session = AmplifierSession(installed.basics(), session_id="s")
    heard = Listener()
    session.coordinator.hooks.register("session:end", heard)

    async with session:
        await session.execute("hi")

    assert set(heard.data) == {"session_id", "parent_id", "timestamp", "status", "stats"}
    assert (heard.data["session_id"], heard.data["status"]) == ("s", "completed")


async def test_a_swap_between_turns_takes_effect_immediately(installed: Installer) -> None:
    new = ScriptedProvider(name="new")
    async with AmplifierSession(installed.basics()) as session:
        installed.object("provider-new", "providers", new, "test")

        await session.swap("providers", {"module": "provider-new"})

        assert session.coordinator.get("providers", "test") is new
