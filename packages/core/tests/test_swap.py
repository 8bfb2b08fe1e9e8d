"""Tests of exchanging modules: what is staged, when it takes over, what is kept and let go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ToolResult
from amplifier_core.errors import ModuleLoadError, MountError
from contract.doubles import Listener, Memory, raising
from contract.installer import Installer, Loop, ScriptedProvider, mounting
from contract.requirements import requirement

EVENTS = ("module:swapped", "module:rolled_back", "module:load_failed")


class Tool:
    """A tool that answers with its word."""

    description = "Says a word."

    def __init__(self, word: str, name: str = "say") -> None:
        self.word, self.name = word, name

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output=self.word)


class Bench:
    """A session whose loop asks the first provider, with everything that happens to it noted."""

    def __init__(self, installed: Installer, **sections: Any) -> None:
        self.installed = installed
        self.cleaned: list[str] = []
        self.heard = Listener()
        installed.provider.answers = ["old"]
        installed.loop.act = self.ask
        plan = installed.basics(**sections)
        self.add("provider-test", "providers", installed.provider, "test")
        self.session = AmplifierSession(plan)
        for event in EVENTS:
            self.session.coordinator.hooks.register(event, self.heard)

    def add(self, module_id: str, point: str, thing: Any, name: str | None = None) -> None:
        """Install a module that says so when it is cleaned up."""

        def cleanup() -> None:
            self.cleaned.append(module_id)

        self.installed.add(module_id, mounting(point, thing, name, returns=cleanup))

    async def ask(self, providers: dict[str, Any], **_: Any) -> str:
        response = await next(iter(providers.values())).complete(None)
        return response.content[0].text

    @property
    def modules(self) -> list[tuple[str, str]]:
        return [(each.module_id, each.state) for each in self.session.status.modules]


@pytest.fixture
async def bench(installed: Installer) -> Bench:
    """A session that is ready to be swapped."""
    bench = Bench(installed)
    await bench.session.initialize()
    return bench


@requirement("LAW-19")
async def test_the_old_module_is_kept_until_a_good_turn_and_then_cleaned_up(bench: Bench) -> None:
    bench.add("provider-new", "providers", ScriptedProvider("new"), "test")

    await bench.session.swap("providers", {"module": "provider-new"})
    assert ("provider-test", "mounted") in bench.modules
    assert bench.cleaned == []
    assert await bench.session.execute("hi") == "new"

    assert bench.cleaned == ["provider-test"]
    assert bench.modules[-1] == ("provider-new", "swapped")
    assert "provider-test" not in dict(bench.modules)
    await bench.session.cleanup()
    assert bench.cleaned == ["provider-test", "provider-new"]


@requirement("LAW-19")
async def test_a_module_that_was_swapped_in_is_cleaned_up_when_it_goes(bench: Bench) -> None:
    for word in ("one", "two"):
        bench.add(f"provider-{word}", "providers", ScriptedProvider(word), "test")
        await bench.session.swap("providers", {"module": f"provider-{word}"})
        assert await bench.session.execute("hi") == word

    assert bench.cleaned == ["provider-test", "provider-one"]


@requirement("LAW-21")
async def test_a_cancelled_turn_is_no_good_turn(installed: Installer, bench: Bench) -> None:
    """The old module stays within reach until the new one has shown that it works."""
    started = asyncio.Event()

    async def hang(_: Any) -> Any:
        started.set()
        await asyncio.Event().wait()

    async def act(**handed: Any) -> str:
        try:
            return await bench.ask(**handed)
        except asyncio.CancelledError:
            return "stopped"

    installed.loop.act = act
    bad = ScriptedProvider(hang, RuntimeError("still broken"))
    bench.add("provider-bad", "providers", bad, "test")
    async with asyncio.timeout(120):
        await bench.session.swap("providers", {"module": "provider-bad"})
        turn = asyncio.create_task(bench.session.execute("hi"))
        await started.wait()
        bench.session.coordinator.cancellation.request_immediate()
        assert await turn == "stopped"
    assert bench.cleaned == []

    bench.session.coordinator.cancellation.reset()
    with pytest.raises(RuntimeError, match="still broken"):
        await bench.session.execute("again")
    assert await bench.session.execute("and again") == "old"


@requirement("LAW-19")
async def test_a_swapped_provider_keeps_the_place_of_the_one_it_replaces(bench: Bench) -> None:
    """Loops take the first of several equals: another place would mean another provider."""
    await bench.session.coordinator.mount("providers", ScriptedProvider("spare"), name="spare")
    bench.add("provider-new", "providers", ScriptedProvider("new"), "new")

    await bench.session.swap("providers", {"module": "provider-new"}, replaces="test")

    assert list(bench.session.coordinator.get("providers")) == ["new", "spare"]
    assert await bench.session.execute("hi") == "new"


@requirement("LAW-21")
async def test_a_provider_that_is_brought_back_has_its_place_again(bench: Bench) -> None:
    await bench.session.coordinator.mount("providers", ScriptedProvider("spare"), name="spare")
    bench.add("provider-bad", "providers", ScriptedProvider(RuntimeError("boom")), "bad")
    await bench.session.swap("providers", {"module": "provider-bad"}, replaces="test")

    with pytest.raises(RuntimeError, match="boom"):
        await bench.session.execute("hi")

    assert list(bench.session.coordinator.get("providers")) == ["test", "spare"]


async def test_a_module_may_be_swapped_twice_between_two_turns(bench: Bench) -> None:
    for word in ("one", "two"):
        bench.add(f"loop-{word}", "orchestrator", Loop())
        await bench.session.swap("orchestrator", {"module": f"loop-{word}"})

    assert await bench.session.execute("hi") == "answer to hi"

    loops = [each for each in bench.modules if each[0].startswith("loop-")]
    assert loops == [("loop-two", "swapped")]
    assert bench.cleaned == ["loop-one"]


@requirement("LAW-21")
async def test_two_swaps_of_one_tool_are_rolled_back_to_the_first_one(installed: Installer) -> None:
    bench = Bench(installed, tools=[{"module": "tool-old"}])
    bench.add("tool-old", "tools", Tool("old"))
    await bench.session.initialize()
    for word in ("one", "two"):
        bench.add(f"tool-{word}", "tools", Tool(word))
        await bench.session.swap("tools", {"module": f"tool-{word}"})

    async def act(hooks: Any, **_: Any) -> str:
        await hooks.emit("tool:error", {"tool_name": "say", "error": "broken"})
        return "survived"

    installed.loop.act = act
    assert await bench.session.execute("hi") == "survived"

    assert bench.session.coordinator.get_mounted("tools")["say"].word == "old"
    assert sorted(bench.cleaned) == ["tool-one", "tool-two"]


@requirement("LAW-21")
@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("provider:error", {"provider": "test", "error": "quota"}),
        ("provider:error", {"provider": "another", "error": "quota"}),
    ],
    ids=["its own", "another's"],
)
async def test_a_failure_that_the_loop_survives_counts_when_it_is_the_modules_own(
    installed: Installer, bench: Bench, event: str, data: dict[str, Any]
) -> None:
    bench.add("provider-new", "providers", ScriptedProvider("new"), "test")

    async def act(hooks: Any, **_: Any) -> str:
        await hooks.emit(event, data)
        return "survived"

    installed.loop.act = act
    await bench.session.swap("providers", {"module": "provider-new"})
    assert await bench.session.execute("hi") == "survived"

    installed.loop.act = bench.ask
    own = data["provider"] == "test"
    assert await bench.session.execute("hi") == ("old" if own else "new")
    assert bench.heard.events[1:] == (["module:rolled_back"] if own else [])
    assert bench.session.coordinator.hooks.list_handlers(event) == {event: []}


@requirement("LAW-19")
async def test_a_context_takes_over_what_the_old_one_knows(
    installed: Installer, bench: Bench
) -> None:
    history = [{"role": "user", "content": "remember"}]
    installed.memory.messages = list(history)
    new = Memory()
    bench.add("context-new", "context", new)

    await bench.session.swap("context", {"module": "context-new"})

    assert new.messages == history
    assert bench.session.coordinator.get("context") is new


@requirement("LAW-21")
async def test_a_context_that_is_brought_back_knows_what_happened_meanwhile(
    installed: Installer, bench: Bench
) -> None:
    bench.add("context-new", "context", Memory())

    async def act(context: Any, **_: Any) -> str:
        await context.add_message({"role": "user", "content": "meanwhile"})
        raise RuntimeError("boom")

    installed.loop.act = act
    await bench.session.swap("context", {"module": "context-new"})
    with pytest.raises(RuntimeError, match="boom"):
        await bench.session.execute("hi")

    assert bench.session.coordinator.get("context") is installed.memory
    assert installed.memory.messages == [{"role": "user", "content": "meanwhile"}]


@requirement("LAW-21")
@pytest.mark.parametrize("method", ["get_messages", "set_messages"])
async def test_a_history_that_cannot_be_handed_over_stops_the_swap(
    installed: Installer, bench: Bench, method: str
) -> None:
    new = Memory()
    broken = installed.memory if method == "get_messages" else new
    setattr(broken, method, raising(OSError("disk gone")))
    bench.add("context-new", "context", new)

    await bench.session.swap("context", {"module": "context-new"})

    assert bench.session.coordinator.get("context") is installed.memory
    assert bench.heard.events == ["module:rolled_back"]
    assert "disk gone" in bench.heard.data["error"]
    assert bench.cleaned == ["context-new"]


@requirement("LAW-21")
async def test_a_history_that_cannot_be_handed_back_does_not_keep_the_bad_module(
    installed: Installer, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    new = Memory()
    bench.add("context-new", "context", new)
    await bench.session.swap("context", {"module": "context-new"})
    new.get_messages = raising(OSError("disk gone"))
    installed.loop.act = raising(RuntimeError("boom"))

    with pytest.raises(RuntimeError, match="boom"):
        await bench.session.execute("hi")

    assert bench.session.coordinator.get("context") is installed.memory
    assert "history not handed back" in caplog.text


async def test_a_turn_does_not_start_while_a_history_is_being_handed_over(
    installed: Installer, bench: Bench
) -> None:
    """What a turn stores in the old context after the hand-over would be lost."""
    new, reading, go_on = Memory(), asyncio.Event(), asyncio.Event()
    bench.add("context-new", "context", new)
    get_messages = installed.memory.get_messages

    async def slow() -> list[dict[str, Any]]:
        messages = await get_messages()
        reading.set()
        await go_on.wait()
        return messages

    async def act(context: Any, **_: Any) -> str:
        await context.add_message({"role": "user", "content": "do not lose me"})
        return "stored"

    installed.memory.get_messages = slow
    installed.loop.act = act
    async with asyncio.timeout(120):
        swapping = asyncio.create_task(bench.session.swap("context", {"module": "context-new"}))
        await reading.wait()
        turn = asyncio.create_task(bench.session.execute("hi"))
        for _ in range(5):
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(swapping, turn)

    assert bench.session.coordinator.get("context") is new
    assert new.messages == [{"role": "user", "content": "do not lose me"}]


@pytest.mark.parametrize("point", ["hooks", "module-source-resolver", "nowhere"])
async def test_only_modules_of_a_turn_can_be_swapped(bench: Bench, point: str) -> None:
    with pytest.raises(MountError, match=f"swapped at {point}"):
        await bench.session.swap(point, {"module": "any"})


@requirement("LAW-20")
async def test_a_module_that_mounts_nothing_or_the_wrong_thing_is_refused_and_cleaned_up(
    bench: Bench,
) -> None:
    bench.add("provider-misplaced", "tools", Tool("x"))
    bench.add("provider-shapeless", "providers", object(), "test")
    bench.add("tool-misplaced", "context", Tool("x"))

    for module_id, fault in [
        ("provider-misplaced", "did not install a new provider"),
        ("provider-shapeless", "not a provider: it has no name, get_info"),
        ("tool-misplaced", "'tool-misplaced' mounted nothing"),
    ]:
        with pytest.raises(ModuleLoadError, match=fault) as caught:
            await bench.session.swap(f"{module_id.partition('-')[0]}s", {"module": module_id})
        assert caught.value.module_id == module_id

    assert bench.cleaned == ["provider-misplaced", "provider-shapeless", "tool-misplaced"]
    assert bench.session.coordinator.get("tools") == {}
    assert await bench.session.execute("hi") == "old"


async def test_what_the_new_module_does_not_replace_is_added(bench: Bench) -> None:
    await bench.session.coordinator.mount("providers", ScriptedProvider("spare"), name="spare")
    bench.add("provider-third", "providers", ScriptedProvider("third"), "third")

    await bench.session.swap("providers", {"module": "provider-third"})
    await bench.session.execute("hi")

    assert list(bench.session.coordinator.get("providers")) == ["test", "spare", "third"]
    assert bench.cleaned == []


async def test_an_unknown_name_to_replace_is_refused(bench: Bench) -> None:
    bench.add("provider-new", "providers", ScriptedProvider("new"), "new")

    with pytest.raises(ValueError, match="typo"):
        await bench.session.swap("providers", {"module": "provider-new"}, replaces="typo")

    assert list(bench.session.coordinator.get("providers")) == ["test"]


async def test_an_instance_takes_the_place_of_the_provider_of_its_name(bench: Bench) -> None:
    bench.add("provider-new", "providers", ScriptedProvider("new"), "new")

    await bench.session.swap("providers", {"module": "provider-new", "instance_id": "test"})

    assert await bench.session.execute("hi") == "new"
    assert list(bench.session.coordinator.get("providers")) == ["test"]
    assert bench.session.status.modules[-1].instance_id == "test"
