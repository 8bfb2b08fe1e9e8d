"""A GET request with checked destinations and a limited response."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from amplifier_kit.texts import shorten
from amplifier_module_tool_web import destinations
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.destinations import FetchError, RefusedError, Resolve

if TYPE_CHECKING:
    import httpx2

_PATIENCE = 10.0
_LONGEST_URL = 2_000
_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "amplifier-tool-web"}


class Fetched(NamedTuple):
    """The response of a server, up to the size limit."""

    url: str
    content_type: str
    charset: str
    body: bytes
    is_complete: bool


@dataclass
class Fetcher:
    """Fetches pages without cookies, connection reuse or the proxies of the environment.

    It follows redirects itself, because each target has to be checked like the first URL. It
    follows none to another site: the user was asked about the first one.
    """

    settings: WebConfig
    resolve: Resolve = destinations.look_up
    tls: ssl.SSLContext | None = None

    async def fetch(
        self, text: str, headers: dict[str, str] = _HEADERS, redirects: int = 5
    ) -> Fetched:
        """Return the content of this URL; raises `FetchError`."""
        await asyncio.to_thread(import_module, "httpx2")
        import httpx2  # noqa: PLC0415 - heavy: loaded by the first page, beside the event loop

        first = destinations.parse(text)
        url = first
        for _ in range(redirects + 1):
            if not destinations.is_same_site(first, url):
                target = shorten(str(url), _LONGEST_URL)
                raise RefusedError(
                    f"It redirects to another site. Read that if you need it: {target}"
                )
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
        """Connect to one of the checked addresses, not to the name.

        Resolving the name again could give another address (DNS rebinding).
        """
        import httpx2  # noqa: PLC0415 - `fetch` has loaded it

        patience = httpx2.Timeout(_PATIENCE).as_dict()
        if self.tls is None:
            # In a thread: it loads some hundred certificates from disk.
            self.tls = await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False)
        failure: httpx2.HTTPError | None = None
        for address in addresses:
            request = httpx2.Request(
                "GET",
                url.copy_with(host=address),
                headers={**headers, "Host": url.netloc.decode("ascii")},
                extensions={"sni_hostname": url.raw_host.decode("ascii"), "timeout": patience},
            )
            # A transport, not a client: a client would keep cookies by address, for any host.
            transport = await stack.enter_async_context(httpx2.AsyncHTTPTransport(verify=self.tls))
            try:
                response = await transport.handle_async_request(request)
                stack.push_async_callback(response.aclose)
                return response
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise FetchError(f"`{url.host}` could not be reached: {failure}.") from failure


async def _read(url: httpx2.URL, response: httpx2.Response, most: int) -> Fetched:
    """Read at most `most` bytes, counted after decompression."""
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
            # One byte more than the limit distinguishes a full page from a longer one. The limit is
            # passed to zlib, so that a bomb is not expanded first and cut afterwards.
            body += unzip.decompress(piece, most + 1 - len(body)) if unzip else piece
        except zlib.error as error:
            raise FetchError(f"{url} is not compressed the way its server says.") from error
        # Received bytes count too: those after the end of the gzip data decompress to nothing.
        is_complete = max(len(body), received) <= most
        if not is_complete:
            break
    if unzip and received:
        is_complete = is_complete and unzip.eof and not unzip.unused_data
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    charset = response.charset_encoding or ""
    return Fetched(str(url), content_type, charset, bytes(body[:most]), is_complete)
