"""Tests of wrappers around modules: who sees them, in which order, and what happens on removal."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator
from amplifier_core.coordinator import Wrap
from amplifier_core.errors import MountError
from contract.requirements import requirement


def wrapping(mark: str) -> Wrap:
    """Make a wrap that shows itself, the name and what it wraps."""

    def wrap(name: str, module: Any) -> Any:
        return (mark, name, module)

    return wrap


@requirement("LAW-15")
async def test_a_wrapper_of_lower_priority_stands_nearer_to_the_caller() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("context", "memory")
    coordinator.interpose("context", wrapping("far"), name="far", priority=5)
    coordinator.interpose("context", wrapping("near"), name="near", priority=-5)
    coordinator.interpose("context", wrapping("middle"), name="middle")

    outer = coordinator.get("context")

    assert outer == ("near", "context", ("middle", "context", ("far", "context", "memory")))
    assert [each.name for each in coordinator.interposers] == ["near", "middle", "far"]


@requirement("LAW-14")
async def test_a_wrapped_module_is_wrapped_once_and_anew_when_it_changes() -> None:
    coordinator = ModuleCoordinator()
    made: list[str] = []

    def wrap(name: str, module: Any) -> Any:
        made.append(f"{name}={module}")
        return [module]

    await coordinator.mount("tools", "one", name="t")
    coordinator.interpose("tools", wrap, name="w")
    first = coordinator.get("tools", "t")
    assert coordinator.get("tools", "t") is first
    assert coordinator.get("tools")["t"] is first
    await coordinator.mount("tools", "two", name="t")

    assert coordinator.get("tools", "t") == ["two"]
    assert made == ["t=one", "t=two"]


@requirement("LAW-14")
async def test_an_empty_slot_is_never_wrapped() -> None:
    coordinator = ModuleCoordinator()
    for point in ("orchestrator", "context", "module-source-resolver", "tools", "providers"):
        coordinator.interpose(point, wrapping("w"), name="w")

    assert coordinator.get("orchestrator") is None
    assert coordinator.get("tools", "absent") is None
    assert coordinator.get("providers") == {}


@requirement("LAW-14")
async def test_a_slot_that_became_empty_is_not_wrapped() -> None:
    coordinator = ModuleCoordinator()
    coordinator.interpose("context", wrapping("w"), name="w")
    await coordinator.mount("context", "memory")
    assert coordinator.get("context") == ("w", "context", "memory")

    await coordinator.unmount("context")

    assert coordinator.get("context") is None


@requirement("LAW-14", "LAW-15")
async def test_whoever_holds_the_wrapped_mapping_sees_modules_come_and_go() -> None:
    coordinator = ModuleCoordinator()
    coordinator.interpose("tools", wrapping("w"), name="w")
    handed = coordinator.get("tools")

    await coordinator.mount("tools", "tool", name="t")
    assert handed == {"t": ("w", "t", "tool")}
    coordinator.interpose("tools", wrapping("v"), name="v")
    assert handed == {"t": ("w", "t", ("v", "t", "tool"))}
    await coordinator.unmount("tools", name="t")

    assert handed == {}
    assert coordinator.get("tools") is handed


@requirement("LAW-15")
async def test_whoever_holds_the_wrapped_mapping_stays_current_after_the_removal() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", "tool", name="t")
    remove = coordinator.interpose("tools", wrapping("w"), name="w")
    handed = coordinator.get("tools")

    remove()
    await coordinator.mount("tools", "later", name="l")

    assert handed == {"t": "tool", "l": "later"}


@requirement("LAW-15")
async def test_removing_twice_takes_away_only_one_of_two_equal_wrappers() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", "tool", name="t")
    wrap = wrapping("w")
    coordinator.interpose("tools", wrap, name="w")
    remove = coordinator.interpose("tools", wrap, name="w")

    remove()
    remove()

    assert coordinator.get("tools", "t") == ("w", "t", "tool")
    assert len(coordinator.interposers) == 1


def test_two_wrappers_of_the_same_function_and_name_are_not_equal() -> None:
    coordinator = ModuleCoordinator()
    wrap = wrapping("w")
    coordinator.interpose("tools", wrap, name="w")
    coordinator.interpose("tools", wrap, name="w")

    first, second = coordinator.interposers

    assert first != second


def test_a_wrapper_in_effect_cannot_be_changed_through_the_list() -> None:
    coordinator = ModuleCoordinator()
    coordinator.interpose("tools", wrapping("w"), name="w")
    listed: Any = coordinator.interposers[0]

    with pytest.raises(FrozenInstanceError):
        listed.inherit = True


class Equal:
    """A module that thinks it is every other one of its kind."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1


async def test_modules_are_told_apart_even_when_they_compare_equal() -> None:
    coordinator = ModuleCoordinator()

    def same(name: str, module: Any) -> Any:
        return module

    coordinator.interpose("tools", same, name="transparent")
    await coordinator.mount("tools", Equal(), name="t")
    handed = coordinator.get("tools")
    second = Equal()
    await coordinator.mount("tools", second, name="t")

    assert handed["t"] is second


async def test_a_wrapper_that_fails_on_what_is_mounted_is_not_left_behind() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", "tool", name="t")

    def broken(name: str, module: Any) -> Any:
        raise RuntimeError("cannot wrap")

    with pytest.raises(RuntimeError, match="cannot wrap"):
        coordinator.interpose("tools", broken, name="broken")

    assert coordinator.interposers == []
    assert coordinator.get("tools", "t") == "tool"


@pytest.mark.parametrize("point", ["hooks", "nowhere", "session"])
def test_only_modules_can_be_interposed(point: str) -> None:
    with pytest.raises(MountError, match=f"Unknown mount point: {point}"):
        ModuleCoordinator().interpose(point, wrapping("w"), name="w")


@requirement("LAW-14")
async def test_the_raw_registry_stays_raw_and_live() -> None:
    coordinator = ModuleCoordinator()
    coordinator.interpose("providers", wrapping("w"), name="w")
    coordinator.mount_points["providers"]["p"] = "by hand"

    assert coordinator.get("providers") == {"p": ("w", "p", "by hand")}
    assert coordinator.mount_points["providers"] == {"p": "by hand"}


async def test_the_wrapped_mapping_shows_a_new_order_and_new_names() -> None:
    coordinator = ModuleCoordinator()
    shared = object()

    def same(name: str, module: Any) -> Any:
        return module

    coordinator.interpose("tools", same, name="transparent")
    await coordinator.mount("tools", shared, name="a")
    handed = coordinator.get("tools")
    await coordinator.unmount("tools", name="a")
    await coordinator.mount("tools", shared, name="b")
    assert list(handed) == ["b"]
    coordinator.mount_points["tools"] = {"renamed": shared}
    assert coordinator.get("tools") == {"renamed": shared}
    coordinator.mount_points["tools"] = {"b": shared, "c": "other"}
    assert list(coordinator.get("tools")) == ["b", "c"]
    coordinator.mount_points["tools"] = {"c": "other", "b": shared}

    assert coordinator.get("tools") is handed
    assert list(handed) == ["c", "b"]


async def test_without_a_priority_a_wrapper_stands_between_those_below_and_above_zero() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("context", "memory")
    for name, priority in (("one", 1), ("minus", -1)):
        coordinator.interpose("context", wrapping(name), name=name, priority=priority)
    coordinator.interpose("context", wrapping("none"), name="none")
    coordinator.interpose("context", wrapping("zero"), name="zero", priority=0)

    assert [each.name for each in coordinator.interposers] == ["minus", "none", "zero", "one"]
    assert [each.inherit for each in coordinator.interposers] == [False] * 4
    assert {each.mount_point for each in coordinator.interposers} == {"context"}


async def test_without_wrappers_the_registry_itself_is_handed_out_again() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", "tool", name="t")
    assert coordinator.get("tools") is coordinator.mount_points["tools"]
    remove = coordinator.interpose("tools", wrapping("w"), name="w")
    assert coordinator.get("tools") is not coordinator.mount_points["tools"]

    remove()

    assert coordinator.get("tools") is coordinator.mount_points["tools"]


async def test_a_wrapper_that_is_removed_is_gone_from_the_mapping_handed_out() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", "tool", name="t")
    remove = coordinator.interpose("tools", wrapping("w"), name="w")
    handed = coordinator.get("tools")

    remove()

    assert handed == {"t": "tool"}
