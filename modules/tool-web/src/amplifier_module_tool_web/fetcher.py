"""A GET that goes only where it may, and reads only so much."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from amplifier_module_tool_web import destinations
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.destinations import FetchError, RefusedError, Resolve

if TYPE_CHECKING:
    import httpx2

_PATIENCE = 10.0
_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "amplifier-tool-web"}


class Fetched(NamedTuple):
    """The answer of a server, or as much of it as may be read."""

    url: str
    content_type: str
    charset: str
    body: bytes
    is_complete: bool


@dataclass
class Fetcher:
    """Follows redirects by hand; keeps no cookie, no connection and no proxy of the environment."""

    settings: WebConfig
    resolve: Resolve = destinations.look_up
    tls: ssl.SSLContext | None = None

    async def fetch(
        self, text: str, headers: dict[str, str] = _HEADERS, redirects: int = 5
    ) -> Fetched:
        """Return what is at this URL, or raise `FetchError`."""
        await asyncio.to_thread(import_module, "httpx2")
        import httpx2  # noqa: PLC0415 - heavy: loaded by the first page, beside the event loop

        url = destinations.parse(text)
        for _ in range(redirects + 1):
            addresses = await destinations.addresses_of(url, self.settings, self.resolve)
            try:
                async with AsyncExitStack() as stack:
                    response = await self._ask(stack, url, addresses, {**_HEADERS, **headers})
                    if not response.has_redirect_location:
                        return await _read(url, response, self.settings.max_bytes)
            except httpx2.HTTPError as error:
                reason = str(error) or type(error).__name__
                raise FetchError(f"`{url.host}` could not be read: {reason}.") from error
            url = destinations.parse(response.headers["location"], url)
        raise RefusedError(f"{text} redirects more than {redirects} times.")

    async def _ask(
        self, stack: AsyncExitStack, url: httpx2.URL, addresses: list[str], headers: dict[str, str]
    ) -> httpx2.Response:
        """Connect to an address that was checked, so that nobody looks the name up again."""
        import httpx2  # noqa: PLC0415 - `fetch` has loaded it

        patience = httpx2.Timeout(_PATIENCE).as_dict()
        if self.tls is None:
            # It reads some hundred certificates from the disk.
            self.tls = await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False)
        failure: httpx2.HTTPError | None = None
        for address in addresses:
            request = httpx2.Request(
                "GET",
                url.copy_with(host=address),
                headers={**headers, "Host": url.netloc.decode("ascii")},
                extensions={"sni_hostname": url.raw_host.decode("ascii"), "timeout": patience},
            )
            # Not a client, which would parse redirects and keep cookies, here by address.
            transport = await stack.enter_async_context(httpx2.AsyncHTTPTransport(verify=self.tls))
            try:
                response = await transport.handle_async_request(request)
                stack.push_async_callback(response.aclose)
                return response
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise FetchError(f"`{url.host}` could not be reached: {failure}.") from failure


async def _read(url: httpx2.URL, response: httpx2.Response, most: int) -> Fetched:
    """Read at most so many bytes, counted after decompression."""
    if not response.is_success:
        raise FetchError(f"{url} was answered with status {response.status_code}.")
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise FetchError(f"{url} is compressed with `{encoding}`, which was not asked for.")
    if encoding == "gzip":
        unzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
    else:
        unzip = None
    body = bytearray()
    received = 0
    is_complete = True
    async for piece in response.aiter_raw():
        received += len(piece)
        try:
            # One byte more than may be kept tells a full page from one that is longer.
            body += unzip.decompress(piece, most + 1 - len(body)) if unzip else piece
        except zlib.error as error:
            raise FetchError(f"{url} is not compressed the way its server says.") from error
        # What arrives is counted too: bytes behind the end of a compressed page yield nothing.
        is_complete = max(len(body), received) <= most
        if not is_complete:
            break
    if unzip and received:
        is_complete = is_complete and unzip.eof and not unzip.unused_data
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    charset = response.charset_encoding or ""
    return Fetched(str(url), content_type, charset, bytes(body[:most]), is_complete)
