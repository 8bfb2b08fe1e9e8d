"""What a document shows on a terminal is what comes when it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.documents import ROOT
from docs.terminal_blocks import commands_of, complaints, documents_with_commands


@pytest.mark.slow
@pytest.mark.parametrize("document", documents_with_commands())
def test_what_a_document_shows_on_a_terminal_comes(document: str, tmp_path: Path) -> None:
    commands = commands_of((ROOT / document).read_text(encoding="utf-8"))

    found = complaints(document, commands, tmp_path)

    assert not found, "\n\n".join(found)


def test_the_commands_of_a_document_share_one_shell(tmp_path: Path) -> None:
    text = (
        "```console\n$ x=1; mkdir a\n$ cd a\n```\n"
        "```console\n$ cat <<'END'\n> one\n> two\n> END\none\n...\n```\n"
        "```console\n$ echo $x; false\n1\n$ echo $?\n1\n```\n"
    )

    assert complaints("page.md", commands_of(text), tmp_path) == []


@pytest.mark.parametrize(
    ("shown", "complaint"),
    [
        ("$ false\n", "page.md:2: false: exit code 1"),
        ("$ echo one\ntwo\n", "page.md:2: echo one: printed\none\nand not\ntwo"),
        ("$ echo one; echo two\ntwo\n", "page.md:2: echo one; echo two: printed"),
        ("$ true\nsomething\n", "page.md:2: true: printed\nand not\nsomething"),
        ("$ echo 3 ms\n4 s\n", ""),
        ("$ echo 0a1b2c3d\nffffffff\n", ""),
        ("$ seq 9\n1\n...\n9\n", ""),
    ],
)
def test_what_comes_otherwise_is_reported(tmp_path: Path, shown: str, complaint: str) -> None:
    found = complaints("page.md", commands_of(f"```console\n{shown}```\n"), tmp_path)

    assert "".join(found).startswith(complaint)
    assert bool(found) == bool(complaint)


def test_a_block_with_a_reason_not_to_run_is_not_typed() -> None:
    assert commands_of("<!-- no-run: needs a key -->\n```console\n$ rm x\n```\n") == []


def test_output_without_a_command_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2 shows output of no command"):
        commands_of("```console\nhello\n```\n")
