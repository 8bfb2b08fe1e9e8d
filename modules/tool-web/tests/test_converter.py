"""A page that takes the parser over has nothing to take: the process cannot open anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_module_tool_web import pages
from amplifier_module_tool_web.fetcher import Fetched

# What stands for a parser that a page controls: it tries each thing, and reports the errors.
HOSTILE = """
import os, runpy, socket, sys
converter = runpy.run_path({converter!r})
result = type("Result", (), {{"warnings": []}})

def tried(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return f"{{what.__name__}}: {{os.strerror(error.errno)}}"
    return f"{{what.__name__}}: DONE"

def convert(source, options):
    result.content = "\\n".join([
        tried(os.open, "/etc/passwd", os.O_RDONLY),
        tried(os.open, {file!r}, os.O_WRONLY | os.O_CREAT),
        tried(os.listdir, "/"),
        tried(os.rename, {file!r}, {file!r} + "2"),
        tried(os.fork),
        tried(os.execv, "/bin/true", ["true"]),
        tried(socket.socket),
        tried(os.kill, os.getppid(), 0),
    ])
    return result

converter["main"].__globals__["convert"] = convert
converter["main"](*sys.argv[1:])
"""
ATTEMPTS = 8


@pytest.mark.attack("suspected: the native HTML converter runs unsandboxed")
async def test_a_parser_that_a_page_took_over_reaches_no_file_network_or_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = Path(pages.__file__).with_name("converter.py")
    program = tmp_path / "hostile.py"
    text = HOSTILE.format(converter=str(converter), file=str(tmp_path / "planted"))
    program.write_text(text, encoding="utf-8")
    monkeypatch.setattr(pages, "_CONVERTER", program)
    fetched = Fetched("https://example.com/", "text/html", "", b"<p>x</p>", True)

    page = await pages.page_of(fetched)

    refused = [line for line in page.text.splitlines() if "Operation not permitted" in line]
    assert refused == page.text.splitlines()
    assert len(refused) == ATTEMPTS
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("charset", ["", "shift_jis", "utf-16", "no-such-charset"])
async def test_a_page_in_any_charset_is_read_under_the_filter(charset: str) -> None:
    known = "utf-8" if charset in ("", "no-such-charset") else charset
    body = "<title>T</title><p>caf\u00e9 \u65e5\u672c</p>".encode(known, errors="ignore")
    fetched = Fetched("https://example.com/", "text/html", charset, body, True)

    page = await pages.page_of(fetched)

    assert "\u65e5\u672c" in page.text
    assert page.title == "T"
