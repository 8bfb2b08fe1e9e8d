"""Differences: right, and never too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_files.diff import difference, unified

texts = st.lists(st.sampled_from("abc"), max_size=12).map("\n".join)


@given(texts, texts)
def test_a_diff_applied_to_the_old_text_gives_the_new_one(before: str, after: str) -> None:
    assert applied(before, unified(before, after)) == after


def applied(before: str, diff: str) -> str:
    """Apply a diff by its line numbers."""
    old = [] if diff.startswith("@@ -0,0") else before.split("\n")
    result, at = list[str](), 0
    for line in diff.split("\n") if diff else []:
        if line.startswith("@@"):
            start = max(int(line.split()[1][1:].split(",")[0]) - 1, 0)
            result += old[at:start]
            at = start
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            result += [] if line.startswith("-") else [old[at]]
            at += 1
    return "\n".join(result + old[at:])


def test_a_change_far_down_has_its_own_line_numbers() -> None:
    lines = [f"line {number}" for number in range(1, 10_001)]
    changed = [*lines[:4_999], "new", *lines[5_000:]]

    diff = unified("\n".join(lines), "\n".join(changed)).split("\n")

    assert diff[0] == "@@ -4997,7 +4997,7 @@"
    assert diff[4:6] == ["-line 5000", "+new"]
    assert len(diff) == 9


def test_a_long_diff_has_its_middle_cut_out_and_counted() -> None:
    text = "\n".join(f"line {number:04} {'x' * 50}" for number in range(1_000))

    diff = unified("", text).split("\n")

    (cut,) = [line for line in diff if line.startswith("[")]
    assert int(cut[1:].split()[0]) + len(diff) - 1 == 1_001
    assert (diff[1][:10], diff[-1][:10]) == ("+line 0000", "+line 0999")
    assert 11_000 < len("\n".join(diff)) < 12_100


def test_a_huge_change_is_told_by_its_counts() -> None:
    old, new = "\n".join("a" * 50_000), "\n".join("b" * 70_000)

    assert unified(old, new) == "[50000 lines from line 1 on are now 70000 lines]"


def test_a_long_line_is_cut() -> None:
    assert unified("", "x" * 1_000_000).endswith(" [999500 more characters]")


def test_bytes_that_are_no_text_are_counted() -> None:
    assert difference(b"\xff\xfe", b"text") == "[2 bytes are now 4 bytes]"
    assert difference(None, b"new\n") == "@@ -1,1 +1,2 @@\n+new\n "


def test_a_new_text_without_a_line_end_replaces_nothing() -> None:
    assert unified("", "one") == "@@ -0,0 +1,1 @@\n+one"
    assert unified("one", "") == "@@ -1,1 +0,0 @@\n-one"
