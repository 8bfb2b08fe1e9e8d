"""A program that converts the bytes of a page to text, within limits.

A hostile page can crash a parser or exhaust its memory; in a process of its own this does not end
the session. Code execution in the parser, which is native code, gains nothing: a seccomp filter
that allows only computing is active before the parser gets the page. It is started by path,
because importing its package would load what it does not need.
"""

from __future__ import annotations

import html
import json
import re
import sys

from html_to_markdown import ConversionOptions, InlineDataMedia, convert

from amplifier_sandbox.processes.launcher import restrict_this_process

if sys.platform != "win32":
    import resource

    LIMITS = {resource.RLIMIT_DATA: 40 << 20, resource.RLIMIT_CPU: 10, resource.RLIMIT_CORE: 0}
MOST_CHARACTERS = 1_000_000

_HEAD = 65_536
_CHARSET = re.compile(rb"<meta[^>]{1,200}charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)


def decode(page: bytes, charset: str) -> str:
    """Decode the page with the named charset, or with UTF-8 if that is unknown."""
    try:
        return page.decode(charset or "utf-8-sig", errors="replace")
    except (LookupError, ValueError):
        return page.decode("utf-8", errors="replace")


def main(kind: str, charset: str, url: str, instructions: str) -> None:
    """Read the page from standard input, and write its text as JSON to standard output.

    `instructions` is the seccomp filter in hexadecimal, or empty where there is none.
    """
    if sys.platform == "win32":
        raise OSError("Windows has no limits for a process that reads a hostile page")
    for limit, value in LIMITS.items():
        resource.setrlimit(limit, (value, value))
    page = sys.stdin.buffer.read()
    title = ""
    is_complete = True
    if kind == "html":
        declared = _CHARSET.search(page[:_HEAD])
        # Before the filter, because Python imports the codec of a charset from a file.
        source = decode(page, charset or (declared[1].decode() if declared else ""))
        if instructions:
            restrict_this_process(bytes.fromhex(instructions))
        named = _TITLE.search(source[:_HEAD])
        if named:
            title = " ".join(html.unescape(named[1]).split())
        else:
            title = ""
        images = InlineDataMedia.ALT_TEXT_ONLY
        options = ConversionOptions(extract_metadata=False, inline_data_media=images, base_url=url)
        result = convert(source, options)
        text = (result.content or "").strip()
        is_complete = not result.warnings
    else:
        text = decode(page, charset)
    is_complete = is_complete and len(text) <= MOST_CHARACTERS
    found = {"title": title, "text": text[:MOST_CHARACTERS], "is_complete": is_complete}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
