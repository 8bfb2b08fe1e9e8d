"""Captured output: the beginning, the end, the true count, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amplifier_sandbox.processes.live_output import Capture


@given(st.lists(st.binary(max_size=50)), st.integers(2, 60))
def test_head_tail_and_count_are_those_of_the_whole(chunks: list[bytes], limit: int) -> None:
    capture, whole = Capture(limit), b"".join(chunks)
    for chunk in chunks:
        capture.feed(chunk)

    half = limit // 2
    assert capture.total == len(whole)
    assert bytes(capture._head) == whole[:half]
    assert bytes(capture._tail) == whole[half:][-half:]
    assert capture.left_out == max(0, len(whole) - 2 * half)


def test_a_text_that_fits_is_whole() -> None:
    capture = Capture(8)
    for byte in "äöü".encode():
        capture.feed(bytes([byte]))

    assert capture.text() == "äöü"


def test_what_is_missing_is_said() -> None:
    capture = Capture(4)
    capture.feed(b"abcdefgh")

    assert capture.text() == "ab\n[... 4 of 8 bytes left out ...]\ngh"
