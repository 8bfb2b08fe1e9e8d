"""Text: edits that fit once, line ends that stay, errors that help."""

from __future__ import annotations

import time

import pytest

from amplifier_module_files.edits import Edit, NoMatchError, replaced, with_line_ends_of
from amplifier_sandbox.files.names import RefusedError, decoded


def test_an_edit_replaces_what_is_there_once() -> None:
    assert replaced("one two three", [Edit("two", "2")]) == "one 2 three"


def test_edits_are_made_one_after_the_other() -> None:
    assert replaced("a", [Edit("a", "b"), Edit("b", "c")]) == "c"


def test_every_occurrence_is_replaced_only_when_asked() -> None:
    text = "x\n" * 12

    assert replaced(text, [Edit("x", "y", replace_all=True)]) == "y\n" * 12
    with pytest.raises(NoMatchError, match=r"12 times, at lines 1, 2, .*10 and more"):
        replaced(text, [Edit("x", "y")])


@pytest.mark.parametrize("old", ["one\ntwo\n", "one\r\ntwo\r\n"])
def test_crlf_stays_however_the_edit_is_written(old: str) -> None:
    assert replaced("one\r\ntwo\r\n", [Edit(old, "1\n2\n")]) == "1\r\n2\r\n"


def test_mixed_line_ends_are_left_alone() -> None:
    assert replaced("a\r\nb\nc", [Edit("b", "B")]) == "a\r\nB\nc"
    assert with_line_ends_of("a\r\nb\n", "x\ny\n") == "x\ny\n"


def test_a_missing_last_line_break_stays_missing() -> None:
    assert replaced("a\nb", [Edit("b", "c")]) == "a\nc"


def test_a_new_text_takes_over_the_line_ends() -> None:
    assert with_line_ends_of("a\r\nb", "x\ny") == "x\r\ny"
    assert with_line_ends_of("a\r\nb", "x\r\ny") == "x\r\ny"
    assert with_line_ends_of("", "x\ny") == "x\ny"


def test_an_edit_that_fits_nowhere_names_the_closest_line() -> None:
    text = "import os\n\ndef total(values):\n    return sum(values)\n"

    with pytest.raises(NoMatchError, match=r"closest line is 3: `def total\(values\):`"):
        replaced(text, [Edit("def total(items):", "x")])
    with pytest.raises(NoMatchError, match=r"Line 4 .* blanks"):
        replaced(text, [Edit("\treturn sum(values)", "x")])
    with pytest.raises(NoMatchError, match="No line is like it"):
        replaced(text, [Edit("~~~~~~~~~~", "x")])


def test_the_failing_one_of_several_edits_is_named() -> None:
    with pytest.raises(NoMatchError, match=r"^Edit 2: "):
        replaced("a b", [Edit("a", "x"), Edit("zzz", "y")])


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(NoMatchError, match="the same"):
        replaced("a", [Edit("a", "a")])


def test_the_closest_line_of_a_large_file_is_found_in_bounded_time() -> None:
    lines = [f"value_{number} = compute(number={number}, other=1)" for number in range(100_000)]
    lines[90_000] = "total = calculate(rate, months)"
    began = time.monotonic()

    with pytest.raises(NoMatchError, match="closest line is 90001"):
        replaced("\n".join(lines), [Edit("total = calculate(rate, years)", "y")])

    assert time.monotonic() - began < 10


def test_bytes_that_are_no_utf_8_text_are_refused_with_a_reason() -> None:
    with pytest.raises(RefusedError, match=r"byte 3 is 0xe9"):
        decoded("a.txt", b"caf\xe9")
    with pytest.raises(RefusedError, match="binary file of 3 bytes"):
        decoded("a.bin", b"a\0b")
    assert decoded("a.txt", "\ufeffcaf\u00e9".encode()) == "\ufeffcaf\u00e9"
