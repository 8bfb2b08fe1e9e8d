"""Tests of the hook registry: the rule for any mix of handlers, guards, heirs and odd data."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import HookRegistry, HookResult, UserMessage
from contract.doubles import Listener, ask, deny, inject, modify, raising
from contract.requirements import requirement

Kind = Literal["silent", "continue", "modify", "inject", "ask", "deny", "rubbish", "raise", "hang"]
KINDS: tuple[Kind, ...] = (
    *("silent", "continue", "modify", "inject", "ask"),
    *("deny", "rubbish", "raise", "hang"),
)
RANK = ["deny", "ask_user", "inject_context", "continue"]


class Role(NamedTuple):
    """What one handler of a drawn cast does."""

    kind: Kind
    priority: int
    is_guard: bool
    is_sync: bool
    message: bool
    more: int
    edits: dict[str, Any]
    in_place: bool

    @property
    def outcome(self) -> str:
        """The action its answer counts as."""
        if self.kind in ("raise", "hang"):
            return "deny" if self.is_guard else "continue"
        named = {"inject": "inject_context", "ask": "ask_user", "deny": "deny", "rubbish": "deny"}
        return named.get(self.kind, "continue")

    def messages(self, number: int) -> list[str]:
        """What it tells the user, its own message first."""
        if self.kind in ("silent", "rubbish", "raise", "hang"):
            return []
        own = [f"own {number}"] if self.message else []
        return own + [f"more {number}.{each}" for each in range(self.more)]


leaves = st.integers(0, 9) | st.text("xyz", max_size=3)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("pq"), inner),
    max_leaves=6,
)
payloads = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)
roles = st.builds(
    Role,
    kind=st.sampled_from(KINDS),
    priority=st.integers(-2, 2),
    is_guard=st.booleans(),
    is_sync=st.booleans(),
    message=st.booleans(),
    more=st.integers(0, 2),
    edits=st.dictionaries(st.sampled_from("abcde"), values, max_size=2),
    in_place=st.booleans(),
)
casts = st.lists(roles, max_size=7)


class Actor:
    """A handler that plays a role, keeps what it saw, and spoils everything it can reach."""

    def __init__(self, role: Role, number: int) -> None:
        self.role = role
        self.number = number
        self.saw: Any = None
        self.given: list[Any] = []

    def play(self, event: str, view: dict[str, Any]) -> Any:
        self.saw = copy.deepcopy(view)
        answer = self._answer(view)
        self.given += [view, answer.data if isinstance(answer, HookResult) else None]
        if self.role.kind != "modify":
            spoil(view)
        return answer

    def _answer(self, view: dict[str, Any]) -> Any:
        told = self.role.messages(self.number)
        own = {"user_message": told[0]} if self.role.message and told else {}
        more: list[Any] = [UserMessage(text=text) for text in told if text.startswith("more")]
        fields: dict[str, Any] = {**own, "user_messages": more}
        match self.role.kind:
            case "continue":
                return HookResult(**fields)
            case "modify":
                edited = view if self.role.in_place else copy.deepcopy(view)
                edited.update(copy.deepcopy(self.role.edits))
                return modify(edited, **fields)
            case "inject":
                return inject(f"text {self.number}", **fields)
            case "ask":
                return ask(f"question {self.number}", **fields)
            case "deny":
                return deny(f"reason {self.number}", **fields)
            case "rubbish":
                return 42
            case "raise":
                raise RuntimeError(f"boom {self.number}")
            case _:
                return None

    async def play_async(self, event: str, view: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return self.play(event, view)

    async def hang(self, event: str, view: dict[str, Any]) -> Any:
        self.play(event, view)
        await asyncio.Event().wait()

    def register(self, registry: HookRegistry) -> None:
        handler: Callable[[str, Any], Any] = self.play if self.role.is_sync else self.play_async
        registry.register(
            "tool:pre",
            self.hang if self.role.kind == "hang" else handler,
            self.role.priority,
            f"h{self.number}",
            timeout=0.001 if self.role.kind == "hang" else None,
            on_error="deny" if self.role.is_guard else "continue",
        )


def spoil(container: Any) -> None:
    """Change everything that can be changed in place."""
    values: list[Any] = [*(container.values() if type(container) is dict else container)]
    for value in values:
        if isinstance(value, dict | list):
            spoil(value)
    container.clear()


def emit(cast: list[Role], data: dict[str, Any]) -> tuple[HookResult, list[Actor]]:
    """Emit to the cast; gives the result and the actors in the order they had to run."""
    registry = HookRegistry()
    actors = [Actor(role, number) for number, role in enumerate(cast)]
    for actor in actors:
        actor.register(registry)
    result = asyncio.run(registry.emit("tool:pre", data))
    for actor in actors:
        for held in actor.given:
            if held is not None:
                spoil(held)
    return result, sorted(actors, key=lambda actor: actor.role.priority)


def expect(actors: list[Actor], data: dict[str, Any]) -> tuple[list[Actor], dict[str, Any]]:
    """Give the actors that are heard, and the data they leave, by the words of the rule."""
    heard: list[Actor] = []
    current = dict(data)
    for actor in actors:
        heard.append(actor)
        if actor.role.outcome == "deny":
            break
        if actor.role.kind == "modify":
            edits = actor.role.edits
            current |= {k: v for k, v in edits.items() if k not in current or current[k] != v}
    return heard, current


def texts(result: HookResult) -> list[str]:
    """Everything a result tells the user."""
    own = [result.user_message] if result.user_message else []
    return own + [message.text for message in result.user_messages]


@requirement("LAW-25", "HOOK-33")
@given(casts, payloads)
def test_the_strongest_answer_wins_whoever_gives_it(cast: list[Role], data: dict[str, Any]) -> None:
    result, actors = emit(cast, data)

    heard, _ = expect(actors, data)
    outcomes = [actor.role.outcome for actor in heard]
    assert result.action == min(outcomes, key=RANK.index, default="continue")
    if result.action == "ask_user":
        first = next(actor for actor in heard if actor.role.kind == "ask")
        assert result.approval_prompt == f"question {first.number}"
    if result.action != "deny":
        injected = [f"text {actor.number}" for actor in heard if actor.role.kind == "inject"]
        assert [each.content for each in result.context_injections] == injected


@requirement("LAW-2", "LAW-3", "LAW-4", "LAW-25")
@given(casts, payloads)
def test_a_denial_ends_the_round_and_a_failing_guard_denies(
    cast: list[Role], data: dict[str, Any]
) -> None:
    result, actors = emit(cast, data)

    heard, _ = expect(actors, data)
    assert [actor.saw is not None for actor in actors] == [actor in heard for actor in actors]
    if result.action == "deny":
        last = heard[-1]
        assert last.role.outcome == "deny"
        assert result.reason
        if last.role.kind in ("raise", "hang"):
            assert f"`h{last.number}`" in result.reason
        if last.role.kind == "deny":
            assert result.reason == f"reason {last.number}"


@requirement("LAW-6", "LAW-25", "HOOK-42")
@given(casts, payloads)
def test_no_edit_is_lost_and_what_nobody_edited_is_the_callers_own(
    cast: list[Role], data: dict[str, Any]
) -> None:
    result, actors = emit(cast, data)

    if result.action == "deny":
        return
    heard, current = expect(actors, data)
    edited = any(actor.role.kind == "modify" for actor in heard)
    if edited or result.action == "continue":
        assert result.data is not None
        left = {key: value for key, value in result.data.items() if key != "timestamp"}
        assert left == current
        for key, value in data.items():
            if current[key] is value:
                assert left[key] is value


@requirement("LAW-7", "LAW-25")
@given(casts, payloads)
def test_everything_told_to_the_user_survives_until_a_denial(
    cast: list[Role], data: dict[str, Any]
) -> None:
    result, actors = emit(cast, data)

    heard, _ = expect(actors, data)
    told = [text for actor in heard for text in actor.role.messages(actor.number)]
    assert sorted(texts(result)) == sorted(told)


@requirement("HOOK-40", "LAW-25")
@given(casts, payloads)
def test_no_handler_changes_what_others_hold_except_by_modify(
    cast: list[Role], data: dict[str, Any]
) -> None:
    before = copy.deepcopy(data)

    _, actors = emit(cast, data)

    assert data == before
    seen = dict(before)
    for actor in expect(actors, before)[0]:
        assert {k: v for k, v in actor.saw.items() if k != "timestamp"} == seen
        if actor.role.kind == "modify":
            seen |= actor.role.edits


@requirement("HOOK-27", "LAW-4")
@pytest.mark.parametrize("on_error", ["continue", "deny"])
async def test_an_edit_that_contains_itself_denies(on_error: Literal["continue", "deny"]) -> None:
    registry = HookRegistry()
    endless: dict[str, Any] = {}
    endless["self"] = endless
    registry.register("tool:pre", Listener(modify(endless)), on_error=on_error)

    result = await registry.emit("tool:pre", {"n": 1})

    assert result.action == "deny"


async def test_an_edit_beside_keys_that_are_no_strings_is_kept() -> None:
    registry = HookRegistry()

    async def edit(event: str, data: dict[str, Any]) -> HookResult:
        return modify({**data, "edit": True})

    registry.register("a:b", edit)

    result = await registry.emit("a:b", {1: "one", None: ["two"]})

    assert result.data is not None
    assert (result.data["edit"], result.data["1"], result.data["None"]) == (True, "one", ["two"])


def test_a_wrong_word_for_on_error_is_refused() -> None:
    wrong: Any = "explode"

    with pytest.raises(ValueError, match="explode"):
        HookRegistry().register("tool:pre", Listener(), on_error=wrong)


def test_guards_are_listed_without_the_observers() -> None:
    registry = HookRegistry()
    registry.register("tool:pre", Listener(), name="watch")
    registry.register("tool:pre", Listener(), 5, "second", on_error="deny")
    registry.register("tool:pre", Listener(), 1, "first", on_error="deny")
    registry.register("tool:post", Listener(), name="other")

    assert registry.list_guards() == {"tool:pre": ["first", "second"]}


@requirement("LAW-9")
def test_guards_come_and_go_with_the_parent_down_the_whole_family() -> None:
    parent, child, grandchild = HookRegistry(), HookRegistry(), HookRegistry()
    child.inherit_guards(parent)
    grandchild.inherit_guards(child)

    remove = parent.register("tool:pre", Listener(), 5, "guard", on_error="deny")
    parent.register("tool:pre", Listener(), name="observer")
    grandchild.register("tool:pre", Listener(), name="own")

    assert child.list_handlers("tool:pre") == {"tool:pre": ["guard"]}
    assert grandchild.list_handlers("tool:pre") == {"tool:pre": ["own", "guard"]}
    child.unregister("guard")
    assert grandchild.list_guards() == child.list_guards() == {"tool:pre": ["guard"]}
    remove()
    assert (child.list_guards(), grandchild.list_guards()) == ({}, {})
    assert grandchild.list_handlers("tool:pre") == {"tool:pre": ["own"]}


async def test_a_synchronous_handler_may_have_a_timeout() -> None:
    registry = HookRegistry()

    def answer(event: str, data: dict[str, Any]) -> HookResult:
        return deny("at once")

    registry.register("tool:pre", answer, timeout=5)

    assert (await registry.emit("tool:pre", {})).reason == "at once"


@requirement("HOOK-43")
async def test_a_correlated_event_without_fields_is_left_as_it_is() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("llm:request", heard)

    result = await registry.emit("llm:request", "no fields")

    assert heard.data == "no fields"
    assert result.data == {}


async def test_plain_functions_are_asked_too_when_collecting_without_a_limit() -> None:
    registry = HookRegistry()

    def answer(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(data={"from": "plain"})

    registry.register("a:b", answer)
    registry.register("a:b", raising(RuntimeError("boom")))

    assert await registry.emit_and_collect("a:b", {}, timeout=None) == [{"from": "plain"}]


@pytest.mark.parametrize("data", [{}, {"a": 1}])
async def test_without_a_listener_the_callers_own_data_comes_back(data: dict[str, Any]) -> None:
    result = await HookRegistry().emit("unheard", data)

    assert result.data is data


@requirement("LAW-28")
@pytest.mark.parametrize(("on_error", "denied"), [("continue", False), ("deny", True)])
async def test_a_hook_that_fails_is_announced(on_error: Any, denied: bool) -> None:
    registry, heard = HookRegistry(), Listener()

    async def broken(event: str, data: dict[str, Any]) -> None:
        raise RuntimeError("boom")

    registry.register("tool:pre", broken, name="broken", on_error=on_error)
    registry.register("hook:failed", heard)
    registry.register("hook:failed", broken, name="worse")

    result = await registry.emit("tool:pre", {})

    assert result.action == ("deny" if denied else "continue")
    assert heard.events == ["hook:failed"]
    told = {key: heard.data[key] for key in ("event", "handler", "error", "denied")}
    assert told == {
        "event": "tool:pre",
        "handler": "broken",
        "error": "RuntimeError: boom",
        "denied": denied,
    }
