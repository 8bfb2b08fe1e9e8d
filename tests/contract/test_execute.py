"""Contract of the session: turns, their outcome, and the end of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader, events
from contract.doubles import Listener, inject, raising
from contract.installer import Installer, Loop
from contract.requirements import requirement


def _session(installed: Installer, plan: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """Make a session and a listener that hears every published event and `session:config`."""
    session = AmplifierSession(plan or installed.basics(), **kwargs)
    heard = Listener()
    for event in [*events.ALL_EVENTS, "session:config"]:
        session.coordinator.hooks.register(event, heard)
    return session, heard


@requirement("SESS-29", "SESS-30", "SESS-31", "EVENT-7")
@pytest.mark.parametrize("resumed", [False, True])
async def test_a_session_starts_once_in_its_life(installed: Installer, resumed: bool) -> None:
    session, heard = _session(installed, is_resumed=resumed, session_id="s", parent_id="p")

    async with asyncio.timeout(120):
        await session.initialize()
        await asyncio.gather(session.execute("one"), session.execute("two"))
        await session.execute("three")
        await session.cleanup()
        await session.initialize()
        await session.execute("four")

    event = "session:resume" if resumed else "session:start"
    starts = [data for name, data in heard.calls if name in ("session:resume", "session:start")]
    assert [name for name in heard.events if name.startswith("session:")].count(event) == 1
    assert len(starts) == 1
    assert set(starts[0]) == {"session_id", "parent_id", "timestamp"}
    assert (starts[0]["session_id"], starts[0]["parent_id"]) == ("s", "p")


@requirement("SESS-28", "SESS-31", "SESS-32")
async def test_metadata_and_raw_config_are_told_when_they_are_configured(
    installed: Installer,
) -> None:
    plan = installed.basics(session={"metadata": {"user": "u"}, "raw": True})
    plan["providers"][0]["config"] = {"api_key": "hunter2", "model": "m"}
    session, heard = _session(installed, plan, parent_id="p")

    async with session:
        await session.execute("one")
        await session.execute("two")

    told = {name: data for name, data in heard.calls if name.startswith("session:")}
    assert heard.events.count("session:config") == 1
    for name in ("session:fork", "session:start"):
        assert told[name]["metadata"] == {"user": "u"}
    for name in ("session:fork", "session:config"):
        assert told[name]["raw"]["providers"][0]["config"]["model"] == "m"
        assert told[name]["raw"]["providers"][0]["config"]["api_key"] == "[REDACTED]"
    assert "hunter2" not in str(heard.calls)
    assert "metadata" not in told["session:config"]


@requirement("SESS-27")
@pytest.mark.parametrize("parent_id", ["p", None])
async def test_a_session_is_initialized_only_when_its_fork_was_announced(
    installed: Installer, parent_id: str | None
) -> None:
    seen: list[bool] = []

    async def look(event: str, data: dict[str, Any]) -> None:
        seen.append(session.initialized)
        with pytest.raises(RuntimeError, match="not initialized"):
            await session.execute("too early")

    session = AmplifierSession(installed.basics(), parent_id=parent_id)
    session.coordinator.hooks.register("session:fork", look)

    await session.initialize()

    assert seen == ([] if parent_id is None else [False])
    assert session.initialized
    assert await session.execute("now") == "answer to now"


@requirement("SESS-27", "SESS-28")
async def test_a_child_announces_its_fork_to_its_own_hooks(installed: Installer) -> None:
    session, heard = _session(installed, session_id="s", parent_id="p")
    root, root_heard = _session(installed)

    await session.initialize()
    await root.initialize()

    assert heard.events == ["session:fork"]
    assert {key: heard.data[key] for key in ("parent", "session_id", "parent_id")} == {
        "parent": "p",
        "session_id": "s",
        "parent_id": "p",
    }
    assert {"metadata", "raw"}.isdisjoint(heard.data)
    assert root_heard.calls == []


@requirement("SESS-33", "SESS-34", "SESS-35")
async def test_the_loop_is_handed_everything_by_keyword(installed: Installer) -> None:
    session, _ = _session(installed)
    answer = object()

    async def act(**_: Any) -> Any:
        return answer

    async with session:
        installed.loop.act = act
        returned = await session.execute("hi")

    (handed,) = installed.loop.handed
    assert returned is answer
    coordinator = session.coordinator
    assert set(handed) == {"prompt", "context", "providers", "tools", "hooks", "coordinator"}
    assert handed["prompt"] == "hi"
    assert handed["context"] is installed.memory
    assert handed["providers"] is coordinator.mount_points["providers"]
    assert handed["tools"] is coordinator.mount_points["tools"]
    assert handed["hooks"] is coordinator.hooks
    assert handed["coordinator"] is coordinator


class _SeedLoop:
    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any
    ) -> str:
        return prompt.upper()


@requirement("SESS-34", "LAW-24")
async def test_a_loop_with_the_seeds_signature_runs(installed: Installer) -> None:
    plan = installed.basics()
    installed.object("loop-test", "orchestrator", _SeedLoop())

    async with AmplifierSession(plan) as session:
        assert await session.execute("hi") == "HI"


@requirement("SESS-36", "SESS-47", "SESS-51")
async def test_only_an_initialised_session_executes(installed: Installer) -> None:
    session, _ = _session(installed)
    text = r"Session not initialized\. Call initialize\(\) first\."

    with pytest.raises(RuntimeError, match=text):
        await session.execute("too early")
    await session.initialize()
    assert await session.execute("hi") == "answer to hi"
    assert await session.cleanup() is None
    assert session.initialized is False
    with pytest.raises(RuntimeError, match=text):
        await session.execute("too late")
    await session.initialize()
    assert await session.execute("again") == "answer to again"


@requirement("SESS-37", "SESS-38")
@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("orchestrator", "No orchestrator module mounted"),
        ("context", "No context manager mounted"),
        ("providers", "No providers mounted"),
    ],
)
async def test_a_turn_needs_a_loop_a_context_and_a_provider(
    installed: Installer, point: str, text: str
) -> None:
    session, _ = _session(installed)
    await session.initialize()
    await session.coordinator.unmount(point, name="test")

    with pytest.raises(RuntimeError, match=text):
        await session.execute("hi")


class _OwnError(Exception):
    pass


@requirement("SESS-39", "SESS-40")
@pytest.mark.parametrize("error", [_OwnError("boom"), asyncio.CancelledError(), SystemExit(3)])
async def test_an_exception_leaves_a_turn_as_it_was_raised(
    installed: Installer, error: BaseException
) -> None:
    session, heard = _session(installed)
    cause = KeyError("deep")
    error.__cause__ = cause
    await session.initialize()
    assert await session.execute("hi")
    assert session.status.status == "completed"
    installed.loop.act = raising(error)

    with pytest.raises(type(error)) as caught:
        await session.execute("hi")

    assert caught.value is error
    assert caught.value.__cause__ is cause
    assert session.status.status == "failed"
    assert session.status.last_error is not None
    assert str(error) in session.status.last_error["message"]
    assert "cancel:completed" not in heard.events


@requirement("SESS-41", "SESS-42", "EVENT-7")
@pytest.mark.parametrize("immediate", [True, False])
@pytest.mark.parametrize("error", [None, RuntimeError("stopped")])
async def test_a_cancelled_turn_says_so(
    installed: Installer, immediate: bool, error: Exception | None
) -> None:
    session, heard = _session(installed)

    async def act(**_: Any) -> str:
        await session.coordinator.request_cancel(immediate=immediate)
        if error is not None:
            raise error
        return "partial"

    await session.initialize()
    installed.loop.act = act
    async with asyncio.timeout(120):
        turn: asyncio.Task[Any] = asyncio.create_task(session.execute("hi"))
        outcomes = await asyncio.gather(turn, return_exceptions=True)

    assert outcomes == ["partial" if error is None else error]
    assert session.status.status == "cancelled"
    told = [data for name, data in heard.calls if name == "cancel:completed"]
    assert len(told) == 1
    assert told[0]["was_immediate"] is immediate
    assert ("error" in told[0]) is (error is not None)
    assert "stopped" in told[0].get("error", "stopped")
    assert session.coordinator.cancellation.is_cancelled


@requirement("SESS-43")
async def test_every_turn_has_its_own_injection_budget(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    session, _ = _session(installed, installed.basics(session={"injection_budget_per_turn": 10}))

    async def act(**_: Any) -> str:
        await session.coordinator.process_hook_result(inject("x" * 40), "tool:post", "h")
        return "done"

    installed.loop.act = act
    async with session:
        for _ in range(3):
            await session.execute("hi")

    assert "budget exceeded" not in caplog.text


@requirement("SESS-44", "SESS-45", "COORD-24", "EVENT-7")
async def test_a_session_ends_once_and_before_its_cleanups(installed: Installer) -> None:
    session, heard = _session(installed, session_id="s")
    order: list[str] = []

    def note(event: str, data: dict[str, Any]) -> None:
        order.append(event)

    session.coordinator.hooks.register("session:end", note)
    session.coordinator.register_cleanup(lambda: order.append("cleanup"))
    await session.initialize()
    await session.execute("hi")

    await session.cleanup()
    await session.cleanup()

    assert order == ["session:end", "cleanup"]
    assert heard.events.count("session:end") == 1
    ended = next(data for name, data in heard.calls if name == "session:end")
    assert (ended["session_id"], ended["status"]) == ("s", "completed")


@requirement("SESS-45", "SESS-48")
async def test_a_session_that_never_began_still_cleans_up(installed: Installer) -> None:
    session, heard = _session(installed)
    order: list[str] = []
    session.coordinator.register_cleanup(lambda: order.append("first"))
    session.coordinator.register_cleanup(lambda: order.append("second"))

    await session.__aexit__(None, None, None)

    assert order == ["second", "first"]
    assert heard.calls == []


class _Loader(ModuleLoader):
    cleaned = 0

    def cleanup(self) -> None:
        self.cleaned += 1
        super().cleanup()


@requirement("SESS-46", "SESS-49")
@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt, asyncio.CancelledError])
async def test_the_loader_is_cleaned_up_whatever_the_cleanups_raise(
    installed: Installer, error: type[BaseException] | None
) -> None:
    loader = _Loader()
    session, _ = _session(installed, loader=loader)
    order: list[str] = []
    session.coordinator.register_cleanup(lambda: order.append("ran"))
    if error is not None:
        session.coordinator.register_cleanup(raising(error()))
    await session.initialize()

    if error in (None, RuntimeError):
        await session.cleanup()
    else:
        with pytest.raises(error or Exception):
            await session.cleanup()

    assert order == ["ran"]
    assert loader.cleaned == 1


@requirement("SESS-50")
async def test_a_session_is_a_context_manager_that_hides_nothing(installed: Installer) -> None:
    session, heard = _session(installed)

    async def use() -> None:
        async with session as entered:
            assert entered is session
            assert session.initialized
            raise _OwnError("mine")

    with pytest.raises(_OwnError, match="mine"):
        await use()
    assert heard.events == ["session:end"]


@requirement("SESS-52")
async def test_a_child_made_by_hand_is_a_session_of_its_own(installed: Installer) -> None:
    plan = installed.basics()

    async def own(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("orchestrator", Loop())
        assert coordinator.session.parent_id == coordinator.parent_id

    installed.add("loop-test", own)
    parent = AmplifierSession(plan)
    await parent.initialize()
    overlay = {"session": {"metadata": {"depth": 1}}}
    config = parent._merge_configs(parent.config, overlay)

    async with AmplifierSession(config, parent_id=parent.session_id) as child:
        assert await child.execute("task") == "answer to task"

    assert child.parent_id == parent.session_id
    assert child.session_id != parent.session_id
    assert child.coordinator.get("orchestrator") is not parent.coordinator.get("orchestrator")
    assert parent.initialized
