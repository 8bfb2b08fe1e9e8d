"""A hostile page costs a bounded time and a bounded memory, and the session continues."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import os
import sys
import threading
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
MOST_MEGABYTES = 64


class Memory(threading.Thread):
    """The most that this process has grown, together with the converters it has started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        gc.collect()
        self._before = self._now()
        self.most = 0

    def run(self) -> None:
        while not self._ended.wait(0.002):
            self.most = max(self.most, self._now() - self._before)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _now(self) -> int:
        if sys.platform == "win32":
            pytest.skip("Windows has no /proc to read the memory in")
        pages = resident_pages(Path("/proc/self"))
        for children in Path("/proc/self/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids = children.read_text().split()
                pages += sum(resident_pages(Path("/proc") / pid) for pid in pids if converts(pid))
        return pages * os.sysconf("SC_PAGE_SIZE")


def resident_pages(process: Path) -> int:
    try:
        return int((process / "statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def converts(pid: str) -> bool:
    """Between fork and exec a child still shows the memory of its parent."""
    try:
        return b"converter.py" in (Path("/proc") / pid / "cmdline").read_bytes()
    except OSError:
        return False


@contextlib.contextmanager
def bounded_memory() -> Generator[None]:
    memory = Memory()
    memory.start()
    try:
        yield
    finally:
        memory.end()
    assert memory.most < MOST_MEGABYTES << 20, f"it took {memory.most >> 20} MB"


def bomb(megabytes: int) -> bytes:
    """Return so many megabytes of one letter, in about a thousandth of the size."""
    squeeze = zlib.compressobj(wbits=31)
    pieces = [squeeze.compress(b"x" * (1 << 20)) for _ in range(megabytes)]
    return b"".join([*pieces, squeeze.flush()])


def whole(body: bytes, headers: bytes = b"") -> bytes:
    return HEAD + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def require_partial(internet: Any) -> str:
    """Return the text of the one page, of which the model and the event say that it is cut."""
    with bounded_memory():
        result = await internet.fetch("http://site.example/")
    assert result.success
    assert "\nIncomplete: " in result.output
    assert [event for event, _ in internet.events] == ["web:partial"]
    return result.output


@pytest.mark.attack("N6")
async def test_a_bomb_of_gzip_is_read_up_to_the_limit(internet: Any) -> None:
    internet.pages["/"] = whole(bomb(100), b"Content-Encoding: gzip\r\n")

    output = await require_partial(internet)

    assert "only the first 2,000,000 bytes were read" in output


@pytest.mark.attack("N6")
async def test_a_bomb_inside_a_bomb_is_not_opened_twice(internet: Any) -> None:
    internet.pages["/"] = whole(gzip.compress(bomb(20)), b"Content-Encoding: gzip, gzip\r\n")

    with bounded_memory():
        result = await internet.fetch("http://site.example/")

    assert "`gzip, gzip`" in result.error["message"]


@pytest.mark.attack("N6")
async def test_bytes_without_end_behind_a_compressed_page_are_not_kept(internet: Any) -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"<p>hello</p>"))
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    internet.pages["/"] = flood

    assert "hello" in await require_partial(internet)


@pytest.mark.attack("N6")
@pytest.mark.parametrize("framing", ["chunked", "until closed"])
async def test_a_page_without_end_is_read_up_to_the_limit(internet: Any, framing: str) -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        piece = b"<p>and so on</p>" * 4096
        is_chunked = framing == "chunked"
        writer.write(HEAD + (b"Transfer-Encoding: chunked\r\n\r\n" if is_chunked else b"\r\n"))
        while True:
            writer.write(chunk(piece) if is_chunked else piece)
            await writer.drain()

    internet.pages["/"] = flood

    assert "and so on" in await require_partial(internet)


@pytest.mark.attack("N6")
async def test_a_page_of_100_megabytes_is_read_up_to_the_limit(internet: Any) -> None:
    async def send(writer: asyncio.StreamWriter) -> None:
        piece = b"<p>A sentence that is as long as sentences are.</p>\n" * 20_000
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (len(piece) * 100))
        for _ in range(100):
            writer.write(piece)
            await writer.drain()

    internet.pages["/"] = send

    assert "A sentence" in await require_partial(internet)


@pytest.mark.attack("N6")
@pytest.mark.parametrize(
    "tag", ["div", "b", "blockquote", "ul><li", "table><tr><td", "p><a href=x"]
)
async def test_a_page_nested_without_end_costs_no_more_than_the_limit(
    internet: Any, tag: str
) -> None:
    opened = f"<{tag}>".encode()
    internet.pages["/"] = whole(b"<p>first</p>" + opened * (1_900_000 // len(opened)) + b"deep")

    assert "first" in await require_partial(internet)


@pytest.mark.attack("N6")
async def test_a_table_that_grows_when_converted_is_cut(internet: Any) -> None:
    rows = b"<tr><td>y</td></tr>" * 20_000
    internet.pages["/"] = whole(b"<table><tr><td>%s</td></tr>%s</table>" % (b"x" * 20_000, rows))

    await require_partial(internet)


@pytest.mark.attack("N6")
@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX: ", HEAD + b"\r\n"])
async def test_a_server_that_drips_is_left_when_the_time_is_up(internet: Any, start: bytes) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    internet.pages["/"] = drip if start else silent

    begun = time.monotonic()
    result = await internet.fetch("http://site.example/", timeout_seconds=0.5)

    assert "0.5 seconds" in result.error["message"]
    assert time.monotonic() - begun < 3


async def silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.attack("N6")
async def test_headers_without_end_are_not_kept(internet: Any) -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Header: " + b"x" * 65536 + b"\r\n")
            await writer.drain()

    internet.pages["/"] = flood

    with bounded_memory():
        result = await internet.fetch("http://site.example/")

    assert "could not be read" in result.error["message"]


@pytest.mark.attack("N6")
async def test_a_charset_made_to_take_minutes_is_left_when_the_time_is_up(internet: Any) -> None:
    body = b"-" + b"a" * 1_900_000
    page = whole(body).replace(b"text/html", b"text/plain; charset=punycode")
    internet.pages["/"] = page
    begun = time.monotonic()

    with bounded_memory():
        result = await internet.fetch("http://site.example/", timeout_seconds=1)

    assert "1 seconds" in result.error["message"]
    assert time.monotonic() - begun < 4
    assert converters() == []


async def test_the_event_loop_stays_free_while_a_page_is_converted(internet: Any) -> None:
    internet.pages["/"] = whole(b"<blockquote>" * 150_000)
    lags: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.01)
            lags.append(time.monotonic() - begun)

    watching = asyncio.create_task(watch())
    await internet.fetch("http://site.example/")
    watching.cancel()

    assert max(lags) < 0.5


async def test_a_call_that_is_cancelled_leaves_no_converter(internet: Any) -> None:
    internet.pages["/"] = whole(b"<blockquote>" * 150_000)
    call = asyncio.create_task(internet.fetch("http://site.example/"))

    async with asyncio.timeout(120):
        while not converters():  # noqa: ASYNC110 - a process that starts tells nobody
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call

    assert converters() == []


def converters() -> list[str]:
    found: list[str] = []
    for children in Path("/proc/self/task").glob("*/children"):
        # A thread may end while the list of threads is read.
        with contextlib.suppress(OSError):
            found += [pid for pid in children.read_text().split() if converts(pid)]
    return found
