"""The prompt's prefix as a vendor's cache sees it, and who changed it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.message_models import Message, Usage
from amplifier_kit.calls.prefix import (
    SMALLEST_CACHED,
    Change,
    Miss,
    Prefix,
    PrefixWatch,
)


class Clock:
    """A tool of a module."""


class Memory:
    """A context of a module."""


Clock.__module__ = "amplifier_module_tool_wall_clock.tool"
Memory.__module__ = "amplifier_module_context_diary"

HEAD: list[tuple[str, Any]] = [
    ("options", {}), ("tool clock", {"a": 1}), ("tool other", {}), ("system", "Be brief."),
]  # fmt: skip


def message(text: str, **metadata: str) -> Message:
    return Message(role="user", content=text, metadata=metadata or None)


def prefix(*messages: Message, head: list[tuple[str, Any]] = HEAD) -> Prefix:
    return Prefix(head, [each.content for each in messages], [*messages])


def usage(read: int | None, *, written: int | None = None, total: int = 6_000) -> Usage:
    return Usage(
        input_tokens=total, output_tokens=1, total_tokens=total + 1,
        cache_read_tokens=read, cache_write_tokens=written,
    )  # fmt: skip


def watch() -> PrefixWatch:
    mounted = {"tools": {"clock": Clock(), "other": object()}, "context": Memory()}
    return PrefixWatch(SimpleNamespace(mount_points=mounted), "provider-p")


def change_between(old: Prefix, new: Prefix) -> Change | None:
    watching = watch()
    assert watching.judge(old, usage(0)) is None
    miss = watching.judge(new, usage(0))
    assert miss is not None
    return miss.change


HI, YOU, NOTE = message("hi"), message("you?"), message("note", source="hook", hook_name="notes")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (prefix(HI), prefix(HI, YOU), None),
        (prefix(HI), prefix(HI), None),
        (prefix(HI), prefix(HI, head=[("options", {"x": 1}), *HEAD[1:]]),
         Change("options", "provider-p")),
        (prefix(HI), prefix(HI, head=[HEAD[0], ("tool clock", {"a": 2}), *HEAD[2:]]),
         Change("tool clock", "tool-wall-clock")),
        (prefix(HI), prefix(HI, head=[*HEAD[:2], ("tool other", {"a": 2}), HEAD[3]]),
         Change("tool other", "other")),
        (prefix(HI), prefix(HI, head=[*HEAD[:3], ("system", "Be long.")]),
         Change("system", "context-diary")),
        (prefix(HI), prefix(HI, head=HEAD[:3]), Change("system", "context-diary")),
        (prefix(HI), prefix(HI, head=[*HEAD, ("tool late", {})]), Change("tool late", "late")),
        (prefix(HI, YOU), prefix(message("ho"), YOU), Change("message 1 (user)", "context-diary")),
        (prefix(HI, YOU), prefix(HI), Change("message 2 (user)", "context-diary")),
        (prefix(HI, YOU), prefix(HI, NOTE, YOU), Change("message 2 (user)", "notes")),
    ],
    ids=["grown", "same", "options", "tool", "foreign-tool", "system", "no-system", "more-tools",
         "message", "shorter", "injected"],
)  # fmt: skip
def test_the_first_change_is_named_with_its_module(
    old: Prefix, new: Prefix, expected: Change | None
) -> None:
    assert change_between(old, new) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (usage(0), usage(0), 5_888),
        (usage(4_000, written=1_000), usage(0, written=0), 5_000),
        (usage(4_000, written=1_000), usage(3_999, written=0), 5_000),
        (usage(4_000, written=1_000), usage(4_000, written=0), None),
        (usage(0, total=SMALLEST_CACHED - 1), usage(0), None),
        (usage(None), usage(0), None),
        (usage(0), usage(None), None),
        (usage(0), None, None),
        (None, usage(0), None),
    ],
    ids=["implicit", "explicit", "too-little", "enough", "too-short", "unknown-before", "unknown",
         "none", "none-before"],
)  # fmt: skip
def test_a_miss_is_what_the_vendor_should_have_known(
    first: Usage | None, second: Usage | None, expected: int | None
) -> None:
    watching = watch()
    watching.judge(prefix(HI), first)

    miss = watching.judge(prefix(HI), second)

    assert (None if miss is None else miss.expected_tokens) == expected


def test_the_first_request_misses_nothing() -> None:
    assert watch().judge(prefix(HI), usage(0)) is None


@given(st.lists(st.text()), st.lists(st.text()))
def test_what_only_grows_never_changes(old: list[str], new: list[str]) -> None:
    messages = [message(text) for text in [*old, *new]]

    assert change_between(prefix(*messages[: len(old)]), prefix(*messages)) is None


@given(st.lists(st.text(), min_size=1), st.data())
def test_a_change_is_found_at_its_place(texts: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(texts) - 1))
    old = [message(text) for text in texts]
    new = [*old]
    new[place] = message(f"{texts[place]}, changed")

    change = change_between(prefix(*old), prefix(*new))

    assert change == Change(f"message {place + 1} (user)", "context-diary")


def test_a_coordinator_without_mount_points_is_enough() -> None:
    watching = PrefixWatch(object(), "provider-p")
    watching.judge(prefix(HI), usage(0))

    other = prefix(HI, head=[*HEAD[:3], ("system", "x")])

    assert watching.judge(other, usage(0)) == Miss(5_888, 0, Change("system", None))
