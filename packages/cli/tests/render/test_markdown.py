"""Markdown, whole and while it arrives."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from amplifier_cli.chat.line_renderer import PALETTE
from amplifier_cli.render.markdown import TerminalMarkdown, blocks_of, split_blocks, tail_of_block

TEXT = """\
# Title

A paragraph
of two lines.

- one

- two
  with more

```python
a = 1

b = 2
```

| a | b |
|---|---|
| 1 | 2 |

> quoted

The end."""


def shown(text: str, width: int = 60) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file, theme=PALETTE, force_terminal=False)
    console.print(TerminalMarkdown(text))
    return file.getvalue()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50])
def test_however_text_arrives_the_same_blocks_are_finished(step: int) -> None:
    finished: list[str] = []
    rest = ""
    for start in range(0, len(TEXT), step):
        done, rest = split_blocks(rest + TEXT[start : start + step])
        finished += done
    finished.append(rest)
    assert [each.strip() for each in finished] == [each.strip() for each in blocks_of(TEXT)]
    assert len(finished) == 7


def test_nothing_of_the_text_is_lost_between_blocks() -> None:
    assert "".join("".join(blocks_of(TEXT)).split()) == "".join(TEXT.split())


def test_what_looks_like_html_is_shown() -> None:
    text = shown("Use <div id=x> and\n\n<script>alert(1)</script>")
    assert "<div id=x>" in text
    assert "<script>alert(1)</script>" in text


@pytest.mark.attack("P3")
def test_a_link_shows_where_it_leads_and_no_escape_survives() -> None:
    text = shown("[your bank](http://evil.example) \x1b]8;;http://x\x07hidden")
    assert "http://evil.example" in text
    assert "\x1b" not in text


def test_the_end_of_long_code_is_still_code() -> None:
    block = "```python\n" + "\n".join(f"line {number}" for number in range(100))
    assert tail_of_block(block, 2) == "```python\nline 98\nline 99"
    assert tail_of_block("short", 2) == "short"
